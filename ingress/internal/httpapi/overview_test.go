package httpapi

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"parley/shared/domain"
)

// homeShown is the decoded overview.
type homeShown struct {
	Steps []struct {
		Name string `json:"name"`
		Done bool   `json:"done"`
	} `json:"steps"`
	Approvals int `json:"approvals"`
	Webhooks  []struct {
		ID     string `json:"id"`
		Status string `json:"status"`
		Error  struct {
			Message string `json:"message"`
		} `json:"error"`
	} `json:"webhooks"`
	Notifications []struct {
		ID             string  `json:"id"`
		DisabledReason *string `json:"disabledReason"`
		Failures       int     `json:"failures"`
	} `json:"notifications"`
	Documents struct {
		Count  int `json:"count"`
		Newest []struct {
			ID    string `json:"id"`
			Error struct {
				Message string `json:"message"`
			} `json:"error"`
		} `json:"newest"`
	} `json:"documents"`
	Budgets []struct {
		ID      string  `json:"id"`
		Subject *string `json:"subject"`
		Used    int     `json:"used"`
	} `json:"budgets"`
}

// done returns the names of the first steps, with parentheses around the steps that are not done.
func (h *homeShown) done() string {
	names := make([]string, len(h.Steps))
	for i, s := range h.Steps {
		if names[i] = s.Name; !s.Done {
			names[i] = "(" + s.Name + ")"
		}
	}
	return strings.Join(names, " ")
}

func (a *runEnv) home(headers ...string) (got homeShown) {
	a.t.Helper()
	must(a.t, json.Unmarshal(a.ok("GET", "/api/home", "", headers...).body, &got))
	return got
}

// The organization's data shows which first steps are done. Members see only the step that they can
// take. The data of other organizations has no effect.
func TestFirstStepsAreTickedOff(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	p, other, guest := a.person("ada"), a.newTestOrg("other"), a.person("guest")
	h := &testOrg{org: p.org, word: "home", owner: p, header: "X-Organization-Id: " + p.org}
	a.enter(guest, p.org, domain.RoleMember)
	a.document(other)
	a.newWidgetAgent(other, widgetPage)

	steps := func(want string) {
		t.Helper()
		if got := a.home(p.auth, h.header); got.done() != want {
			t.Errorf("steps: %s, want %s", got.done(), want)
		}
	}
	steps("(chat) (document) (key) (schedule) (embed)")
	seeding, seedID := a.newKey(h, p, domain.KeyScopeUser)
	a.ok("POST", "/api/knowledge/samples", "", seeding, h.header)
	a.ok("POST", "/api/knowledge/samples", "", p.auth, h.header)
	steps("(chat) (document) (key) (schedule) (embed)") // sample documents do not count
	rotated := a.ok("POST", "/api/keys?action=rotate&id="+seedID, "", p.auth, h.header).text(t, "id")
	steps("(chat) (document) (key) (schedule) (embed)")
	agentID := a.newAgent(h)
	a.newChat(h, agentID, "s", p.auth, h.header)
	steps("chat (document) (key) (schedule) (embed)")
	a.document(h)
	steps("chat document (key) (schedule) (embed)")
	key, keyID := a.newKey(h, p, domain.KeyScopeUser)
	steps("chat document key (schedule) (embed)")
	trigger := []string{"POST", "/api/internal/run-automation", `{"target":"` + agentID + `","input":{"message":"m"}}`}
	a.ok(trigger[0], trigger[1], trigger[2], key, h.header, "Prefer: respond-async")
	steps("chat document key (schedule) (embed)") // a program has called the agent, but not on a schedule
	a.ok(trigger[0], trigger[1], trigger[2], key, h.header, "Prefer: respond-async", "X-Trigger-Type: schedule")
	a.ok("POST", "/api/agents", `{"name":"a","systemPrompt":"p","widget":{"enabled":true,"allowedOrigins":[]}}`, p.auth, h.header)
	steps("chat document key schedule (embed)")
	a.newWidgetAgent(h, widgetPage)
	steps("chat document key schedule embed")
	a.ok("DELETE", "/api/keys?id="+keyID, "", p.auth, h.header)
	steps("chat document (key) schedule embed")
	a.ok("DELETE", "/api/keys?id="+rotated, "", p.auth, h.header)

	if got := a.home(guest.auth, h.header); got.done() != "(chat)" {
		t.Errorf("a member's steps: %s", got.done())
	}
}

// The overview shows admins everything that needs their attention. It shows members only the number
// of runs that wait for them.
func TestOverviewListsWhatNeedsAttention(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h, other := a.newTestOrg("home"), a.newTestOrg("other")
	agentID := a.newAgent(h)
	if got := a.home(h.key); got.Approvals+len(got.Webhooks)+len(got.Notifications)+got.Documents.Count+len(got.Budgets) > 0 {
		t.Errorf("a new organization: %+v", got)
	}

	for session, headers := range map[string][]string{"o": {h.owner.auth, h.header}, "m": {h.member.auth, h.header}, "k": {h.key}} {
		a.park(a.newChat(h, agentID, session, headers...), "publish", domain.ActionApproval)
	}
	a.park(a.newChat(h, agentID, "client", h.key), "weather", domain.ActionClientTools) // waits for the client's results, not for a person
	failed := []string{a.document(h), a.document(h), a.document(h), a.document(h)}
	a.exec(`UPDATE documents SET status = 'failed', error_code = 'encrypted', error_message = 'the PDF is encrypted' WHERE org_id = $1`, h.org)
	a.exec(`UPDATE documents SET error_code = 'deleting' WHERE id = $1`, failed[0])
	hookID := a.newHook(h, "hmac", `"deliveryIdHeader":"X-Id"`)
	a.deliverFrom(hookID, "192.0.2.1", "d1", true)
	a.ok("POST", "/api/budgets", `{"scope":"agent","subjectId":"`+agentID+`","metric":"runs","period":"month","limit":5}`, h.key)
	a.newChat(h, agentID, "another", h.key)
	a.ok("POST", "/api/budgets", `{"scope":"organization","metric":"runs","period":"month","limit":1000}`, h.key)
	a.ok("POST", "/api/budgets", `{"scope":"automation","subjectId":"none","metric":"tokens","period":"day","limit":0}`, h.key)
	endpoints := make([]string, 3)
	for i := range endpoints {
		endpoints[i] = a.ok("POST", "/api/notifications", fmt.Sprintf(`{"url":"https://example.com/%d","events":["run.failed"]}`, i), h.key).text(t, "id")
	}
	a.exec(`UPDATE notification_endpoints SET enabled = false, disabled_reason = 'failing for 5 days' WHERE id = $1`, endpoints[0])
	a.exec(`UPDATE notification_endpoints SET failures = 3 WHERE id = $1`, endpoints[1])
	a.exec(`UPDATE notification_endpoints SET failures = 2 WHERE id = $1`, endpoints[2])

	got := a.home(h.admin.auth, h.header)
	if got.Approvals != 3 {
		t.Errorf("approvals: %d", got.Approvals)
	}
	if got.Documents.Count != 3 || len(got.Documents.Newest) != 3 || got.Documents.Newest[0].ID != failed[3] || got.Documents.Newest[0].Error.Message != "the PDF is encrypted" {
		t.Errorf("documents: %+v", got.Documents)
	}
	if len(got.Webhooks) != 1 || got.Webhooks[0].ID != hookID || got.Webhooks[0].Status != "rejected" || !strings.Contains(got.Webhooks[0].Error.Message, "signature") {
		t.Errorf("webhooks: %+v", got.Webhooks)
	}
	if n := got.Notifications; len(n) != 2 || n[0].ID != endpoints[0] || *n[0].DisabledReason != "failing for 5 days" || n[1].ID != endpoints[1] || n[1].DisabledReason != nil {
		t.Errorf("notifications: %+v", got.Notifications)
	}
	if len(got.Budgets) != 1 || got.Budgets[0].Subject == nil || *got.Budgets[0].Subject != "home agent" || got.Budgets[0].Used != 5 {
		t.Errorf("budgets: %+v", got.Budgets)
	}

	member := a.home(h.member.auth, h.header)
	if member.Approvals != 1 || len(member.Webhooks)+len(member.Notifications)+member.Documents.Count+len(member.Budgets) > 0 {
		t.Errorf("a member sees %+v", member)
	}
	if away := a.home(other.key); away.Approvals+len(away.Webhooks)+len(away.Notifications)+away.Documents.Count+len(away.Budgets) > 0 {
		t.Errorf("another organization sees %+v", away)
	}
	a.from("GET", "/api/home?limit=1", "", h.key).want(t, "a parameter", 400, "invalid_request limit:unknown_field")

	// After a delivery with a valid signature, deliveries of strangers are no longer listed.
	a.deliverFrom(hookID, "192.0.2.1", "d2", false).want(t, "delivering", 202, "")
	a.deliverFrom(hookID, "198.51.100.7", "d3", true)
	if got := a.home(h.key); len(got.Webhooks) > 0 {
		t.Errorf("a stranger's delivery counts: %+v", got.Webhooks)
	}
	a.deliverFrom(hookID, "192.0.2.1", "d4", true)
	if got := a.home(h.key); len(got.Webhooks) != 1 {
		t.Error("a wrong delivery of the known sender does not count")
	}
}
