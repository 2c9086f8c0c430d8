package httpapi

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"parley/shared/domain"
	"parley/shared/id"
)

// An id in a body or filter must exist in the organization. Otherwise the status is 400 and the
// error names the field.
func TestReferencesAreNamed(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h, other := a.newTestOrg("home"), a.newTestOrg("away")
	agent, hook := a.newAgent(h), a.newHook(h, "github")
	foreign := map[string]string{
		id.Agent: a.newAgent(other), id.Hook: a.newHook(other, "github"), id.Key: other.keyID, id.Document: a.document(other),
		id.Run:      a.newChat(other, a.newAgent(other), "s", other.key),
		id.Endpoint: a.ok("POST", "/api/notifications", `{"url":"https://away.example.com/","events":["run.failed"]}`, other.key).text(t, "id"),
	}
	for _, c := range []struct{ method, target, body, prefix, field string }{
		{"GET", "/api/runs?agentId=$", "", id.Agent, "agentId"},
		{"GET", "/api/usage?agentId=$", "", id.Agent, "agentId"},
		{"GET", "/api/usage?keyId=$", "", id.Key, "keyId"},
		{"GET", "/api/hooks/deliveries?hookId=$", "", id.Hook, "hookId"},
		{"GET", "/api/hooks/deliveries?runId=$", "", id.Run, "runId"},
		{"GET", "/api/notifications/messages?endpointId=$", "", id.Endpoint, "endpointId"},
		{"GET", "/api/knowledge?query=a&documentId=$", "", id.Document, "documentId[0]"},
		{"POST", "/api/internal/run-automation", `{"target":"$","input":{"message":"m"}}`, id.Agent, "target"},
		{"POST", "/api/agents", `{"name":"n","systemPrompt":"p","tools":{"knowledge":{"enabled":true,"documentIds":["$"]}}}`, id.Document, "tools.knowledge.documentIds[0]"},
		{"PUT", "/api/agents?id=" + agent, `{"tools":{"knowledge":{"enabled":true,"documentIds":["$"]}}}`, id.Document, "tools.knowledge.documentIds[0]"},
		{"POST", "/api/agents", `{"templateId":"$"}`, id.Template, "templateId"},
		{"POST", "/api/budgets", `{"scope":"agent","subjectId":"$","metric":"runs","period":"day","limit":1}`, id.Agent, "subjectId"},
		{"POST", "/api/budgets", `{"scope":"key","subjectId":"$","metric":"runs","period":"day","limit":1}`, id.Key, "subjectId"},
		{"PUT", "/api/hooks?id=" + hook, `{"agentId":"$"}`, id.Agent, "agentId"},
		{"PUT", "/api/hooks?id=" + hook, `{"keyId":"$"}`, id.Key, "keyId"},
		{"POST", "/api/notifications", `{"url":"https://home.example.com/","events":["run.failed"],"agentId":"$"}`, id.Agent, "agentId"},
	} {
		for name, thing := range map[string]string{"missing": unknownID(c.prefix), "malformed": "nobody", "foreign": foreign[c.prefix]} {
			if thing == "" {
				continue
			}
			got := a.from(c.method, strings.ReplaceAll(c.target, "$", thing), strings.ReplaceAll(c.body, "$", thing), h.key)
			got.want(t, c.method+" "+c.target+" "+c.body+" "+name, http.StatusBadRequest, "invalid_request "+c.field+":invalid_value")
		}
	}
}

// The value null removes an optional part of an agent. Required parts cannot be removed.
func TestNullRemovesOptionalParts(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	agentID := a.ok("POST", "/api/agents", `{"name":"n","systemPrompt":"p","description":"d","model":"offline/echo","fallbackModels":["offline"],
		"tools":{"webSearch":{"enabled":true,"approval":"always"},"codeExecution":{"enabled":true}},"allowedCallers":["system"],
		"widget":{"enabled":true,"allowedOrigins":["https://example.com"]}}`, h.key).text(t, "id")
	target := "/api/agents?id=" + agentID
	got := a.ok("PUT", target, `{"tools":{"webSearch":null}}`, h.key)
	if got.json(t, "tools.webSearch") != nil || got.json(t, "tools.codeExecution") == nil {
		t.Errorf("without a tool: %s", got.body)
	}
	got = a.ok("PUT", target, `{"description":null,"model":null,"fallbackModels":null,"tools":null,"allowedCallers":null,"widget":null}`, h.key)
	if got.text(t, "description") != "" || got.text(t, "model") != "offline" || got.json(t, "tools.codeExecution") != nil ||
		got.json(t, "allowedCallers.0") != "user" || got.json(t, "widget.enabled") != false || got.json(t, "fallbackModels.0") != nil {
		t.Errorf("the agent without its optional parts: %s", got.body)
	}
	for _, field := range []string{"name", "systemPrompt", "version"} {
		a.from("PUT", target, `{"`+field+`":null}`, h.key).want(t, field, 400, "invalid_request "+field+":invalid_type")
	}

	hook := "/api/hooks?id=" + a.newHook(h, "hmac")
	a.ok("PUT", hook, `{"filter":[{"path":"a","op":"exists"}],"signatureHeader":"X-Other","deliveryIdHeader":"X-Id"}`, h.key)
	got = a.ok("PUT", hook, `{"filter":null,"coalesce":null,"signatureHeader":null,"deliveryIdHeader":null}`, h.key)
	if got.json(t, "filter.0") != nil || got.text(t, "signatureHeader") != "X-Signature" || got.text(t, "deliveryIdHeader") != "" {
		t.Errorf("hook: %s", got.body)
	}
	document := "/api/knowledge?id=" + a.document(h)
	a.ok("PUT", document, `{"metadata":{"team":"a"}}`, h.key)
	if got := a.ok("PUT", document, `{"metadata":null}`, h.key); got.json(t, "metadata.team") != nil {
		t.Errorf("document: %s", got.body)
	}
}

// A PUT during a DELETE of the same resource either succeeds or gets 404 or 409, but never 503.
func TestPutDuringDelete(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	m := &matrix{orgPair: &orgPair{runEnv: a, home: h, away: a.newTestOrg("away"), other: h.member}}
	caller := login("owner", h.owner, h, domain.RoleOwner, h.owner.auth)
	for path, c := range map[string]struct{ kind, body string }{
		"/api/agents": {"ag", `{"name":"n"}`}, "/api/budgets": {"bud", `{"limit":5}`}, "/api/hooks": {"hook", `{"name":"n"}`},
		"/api/notifications": {"ntf", `{"description":"d"}`}, "/api/knowledge": {"doc", `{"content":"other"}`},
	} {
		for range 5 {
			thing := idKinds[c.kind].own(m.orgPair, &caller)
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					got := a.from("PUT", path+"?id="+thing, strings.ReplaceAll(c.body, "other", "other "+a.fresh()), h.owner.auth)
					if got.status >= 300 && got.status != 404 && got.status != 409 {
						t.Errorf("PUT %s: %d %s", path, got.status, got.body)
					}
				})
			}
			wg.Go(func() {
				if got := a.from("DELETE", path+"?id="+thing, "", h.owner.auth); got.status != 200 {
					t.Errorf("DELETE %s: %d %s", path, got.status, got.body)
				}
			})
			wg.Wait()
		}
	}
}

// A change to a document that is being deleted gets 409, not 503.
func TestDocumentsThatAreBeingDeletedConflict(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	documentID := a.document(h)
	a.exec(`UPDATE documents SET status = 'failed', error_code = 'deleting', error_message = 'm' WHERE id = $1`, documentID)
	target := "/api/knowledge?id=" + documentID
	for _, body := range []string{`{"content":"other"}`, `{"name":"other.txt"}`} {
		a.from("PUT", target, body, h.key).want(t, body, 409, "conflict")
	}
	a.from("POST", target+"&action=retry", "", h.key).want(t, "retry", 409, "conflict")
}
