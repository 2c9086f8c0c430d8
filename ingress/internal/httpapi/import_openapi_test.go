package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"parley/ingress/internal/httpapi/agent"
	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/openapi"
	"parley/shared/domain"
	"parley/shared/secrets"
)

// petsJSON is a document with three operations. The last operation cannot be imported.
const petsJSON = `{"openapi":"3.0.3","info":{"title":"Pets","version":"1"},"servers":[{"url":"https://pets.example.com/v1"}],"paths":{
	"/pets/{petId}":{"get":{"operationId":"getPet","summary":"Reads a pet","parameters":[{"name":"petId","in":"path","required":true,"schema":{"type":"string"}}],
		"responses":{"200":{"description":"The pet"}}}},
	"/pets":{"post":{"operationId":"addPet","summary":"Adds a pet","requestBody":{"required":true,"content":{"application/json":{"schema":{"type":"object",
		"properties":{"name":{"type":"string"}},"required":["name"]}}}},"responses":{"201":{"description":"The pet"}}}},
	"/photos":{"post":{"operationId":"addPhoto","requestBody":{"required":true,"content":{"multipart/form-data":{"schema":{"type":"object","properties":{"file":{"type":"string","format":"binary"}}}}}},
		"responses":{"201":{"description":"The photo"}}}}}}`

// petsYAML is a part of petsJSON as YAML.
const petsYAML = `openapi: 3.1.0
info: {title: Pets, version: "1"}
servers: [{url: "https://pets.example.com/v1"}]
paths:
  /pets/{petId}:
    get:
      operationId: getPet
      summary: Reads a pet
      parameters:
        - {name: petId, in: path, required: true, schema: {type: string}}
      responses: {"200": {description: The pet}}
`

// importInto sends a request to import operations into an agent.
func (w *testEnv) importInto(agentID, body string, headers ...string) answer {
	w.t.Helper()
	return w.do("POST", "/api/agents?action=import-openapi&id="+agentID, body, headers...)
}

// An import is checked in the same order as a PUT: first the form of the request body, then the
// version, and last the content.
func TestImportChecksInTheOrderOfPut(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	ada := w.signUp("ada@example.com")
	agentID := w.agent(ada, smallAgent)
	const (
		good, stale, malformed = `If-Match: "1"`, `If-Match: "9"`, "If-Match: 9"
		oddShape               = `{"zz":1,"document":` + petsJSON + `}`
		noDocument             = `{"document":"no document"}`
	)
	for name, c := range map[string]struct {
		body, header string
		status       int
		problems     string
	}{
		"shape before version":        {oddShape, stale, 400, "invalid_request zz:unknown_field"},
		"malformed If-Match":          {noDocument, malformed, 400, "invalid_request If-Match:invalid_value"},
		"version before the document": {noDocument, stale, 412, "precondition_failed"},
		"version in the body":         {`{"version":9,"document":"no document"}`, good, 409, "version_conflict"},
		"the document":                {noDocument, good, 400, "invalid_request document:invalid_value"},
	} {
		w.importInto(agentID, c.body, ada.auth, c.header).want(t, name, c.status, c.problems)
	}
	put := func(body, header string, status int, problems string) {
		t.Helper()
		w.do("PUT", "/api/agents?id="+agentID, body, ada.auth, header).want(t, "PUT "+body, status, problems)
	}
	put(`{"zz":1}`, stale, 400, "invalid_request zz:unknown_field")
	put(`{"createdAt":1}`, stale, 412, "precondition_failed")
	put(`{"createdAt":1,"version":9}`, good, 409, "version_conflict")
	put(`{"createdAt":1}`, good, 400, "invalid_request createdAt:invalid_value")
}

// The documentation of POST /api/agents lists If-Match only for imports, because a chat, which has
// the same path, changes no resource with versions.
func TestIfMatchIsDocumentedForImports(t *testing.T) {
	t.Parallel()
	for _, group := range openapi.Read().Groups {
		for _, o := range group.Operations {
			at := slices.IndexFunc(o.Parameters, func(f openapi.Field) bool { return f.Name == "If-Match" })
			if o.ID == "postAgents" && (at < 0 || o.Parameters[at].Description[1].Text != "action=import-openapi") {
				t.Errorf("If-Match of %s is documented as %v", o.ID, o.Parameters[at].Description)
			}
		}
	}
}

// names returns the names in a list of endpoints. path is the path of the list in the response.
func (a answer) names(tb testing.TB, path string) string {
	tb.Helper()
	list, _ := a.json(tb, path).([]any)
	out := []string{}
	for _, e := range list {
		if endpoint, ok := e.(map[string]any); ok {
			out = append(out, fmt.Sprint(endpoint["name"]))
		}
	}
	return strings.Join(out, " ")
}

func TestImportOpenAPI(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	ada := w.signUp("ada@example.com")
	w.importInto(w.agent(ada, smallAgent), `{"document":`+petsJSON+`}`, ada.auth, `If-Match: "9"`).want(t, "another version", 412, "precondition_failed")
	agentID := w.agent(ada, smallAgent)
	got := w.importInto(agentID, `{"document":`+petsJSON+`,"headers":{"Authorization":"Bearer hunter2"},"approval":"unsafe"}`, ada.auth).want(t, "all of it", 200, "")
	const e = "agent.tools.httpRequest.endpoints"
	if got.names(t, e) != "addPet getPet" && got.names(t, e) != "getPet addPet" {
		t.Fatalf("imported were %q: %s", got.names(t, e), got.body)
	}
	if list, _ := got.json(t, "imported").([]any); len(list) != 2 {
		t.Errorf("imported %v", list)
	}
	if skipped := got.text(t, "skipped.0.operation"); skipped == "" || got.text(t, "skipped.0.reason") == "" || got.json(t, "skipped.1") != nil {
		t.Errorf("skipped: %s", got.body)
	}
	if got.json(t, "agent.tools.httpRequest.enabled") != true || got.text(t, "agent.tools.httpRequest.approval") != "unsafe" || got.json(t, "agent.version") != 2.0 {
		t.Errorf("the agent is %s", got.body)
	}
	agent, err := w.store.Agents.Agent(t.Context(), ada.org, agentID)
	must(t, err)
	for _, endpoint := range agent.Tools.HTTPRequest.Endpoints {
		plain, err := w.api.Secrets.Open(endpoint.Headers["Authorization"], secrets.AgentHeaders(ada.org, agentID))
		must(t, err)
		if plain != "Bearer hunter2" || !strings.HasPrefix(endpoint.URL, "https://pets.example.com/v1/pets") {
			t.Errorf("%s goes to %s with %q", endpoint.Name, endpoint.URL, plain)
		}
		if want := map[string]domain.SideEffect{"getPet": domain.SideEffectNone, "addPet": domain.SideEffectUnsafe}[endpoint.Name]; endpoint.SideEffect != want {
			t.Errorf("%s has the side effect %q, want %q", endpoint.Name, endpoint.SideEffect, want)
		}
	}
	if strings.Contains(string(got.body), "hunter2") || strings.Contains(w.log.String(), "hunter2") {
		t.Error("the header is shown or logged")
	}
	// After the import, the agent can be read and sent back like any other agent.
	read := w.do("GET", "/api/agents?id="+agentID, "", ada.auth)
	back := w.do("PUT", "/api/agents?id="+agentID, string(read.body), ada.auth).want(t, "sending back", 200, "")
	if one, two := mustJSON(t, read.json(t, "tools")), mustJSON(t, back.json(t, "tools")); one != two {
		t.Errorf("sent back\n%s\nbecame\n%s", one, two)
	}
}

func TestImportingAgainReplacesByName(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	ada := w.signUp("ada@example.com")
	agentID := w.agent(ada, `{"name":"x","systemPrompt":"p","tools":{"httpRequest":{"enabled":false,"approval":"always","endpoints":[
		{"name":"getPet","method":"POST","url":"https://pets.example.com/old","headers":{"X-Old":"one"},"signingSecret":"`+signingSecret+`"},
		{"name":"mine","method":"GET","url":"https://mine.example.com/","headers":{"X-Mine":"two"}}]}}}`)
	open := func(sealed string) string {
		t.Helper()
		plain, err := w.api.Secrets.Open(sealed, secrets.AgentHeaders(ada.org, agentID))
		must(t, err)
		return plain
	}
	endpoints := func(what, body string) []domain.Endpoint {
		t.Helper()
		w.importInto(agentID, body, ada.auth).want(t, what, 200, "")
		agent, err := w.store.Agents.Agent(t.Context(), ada.org, agentID)
		must(t, err)
		if tool := agent.Tools.HTTPRequest; !tool.Enabled || tool.Approval != domain.ApprovalAlways || len(tool.Endpoints) != 2 ||
			tool.Endpoints[0].Name != "getPet" || tool.Endpoints[1].Name != "mine" || open(tool.Endpoints[1].Headers["X-Mine"]) != "two" {
			t.Fatalf("%s: the tool is %+v", what, tool)
		}
		return agent.Tools.HTTPRequest.Endpoints
	}
	document := mustJSON(t, petsYAML)
	pet := endpoints("without headers, to the same origin", `{"document":`+document+`}`)[0]
	if pet.Method != http.MethodGet || pet.URL != "https://pets.example.com/v1/pets/{petId}" || open(pet.Headers["X-Old"]) != "one" || open(pet.SigningSecret) != signingSecret {
		t.Errorf("endpoint after the import = %+v", pet)
	}
	pet = endpoints("with headers", `{"document":`+document+`,"headers":{"X-New":"three","X-Old":"***"}}`)[0]
	if len(pet.Headers) != 2 || open(pet.Headers["X-New"]) != "three" || open(pet.Headers["X-Old"]) != "one" {
		t.Errorf("endpoint after the import = %+v", pet)
	}
	w.importInto(agentID, `{"document":`+document+`,"serverUrl":"https://evil.example.com","headers":{"X-Old":"***"}}`, ada.auth).
		want(t, "stealing a header", 400, "invalid_request headers.X-Old:invalid_value")
	pet = endpoints("without headers, to another origin", `{"document":`+document+`,"serverUrl":"https://other.example.com/v2"}`)[0]
	if pet.URL != "https://other.example.com/v2/pets/{petId}" || pet.Headers != nil || pet.SigningSecret != "" {
		t.Errorf("endpoint after the import = %+v", pet)
	}
	w.importInto(agentID, `{"document":`+document+`,"headers":{"X-None":"***"}}`, ada.auth).
		want(t, "nothing to keep", 400, "invalid_request headers.X-None:invalid_value")
}

// The headers in an import contain secrets for one server. An import with headers is rejected if
// the operations of the document have several servers.
func TestHeadersOfAnImportGoToOneServer(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	ada := w.signUp("ada@example.com")
	agentID := w.agent(ada, smallAgent)
	operation := func(name, server string) string {
		if server != "" {
			server = `"servers":[{"url":"` + server + `"}],`
		}
		return fmt.Sprintf(`"/%s":{"get":{%s"operationId":"%s","responses":{"200":{"description":"x"}}}}`, name, server, name)
	}
	document := func(operations ...string) string {
		return `"document":{"openapi":"3.0.3","info":{"title":"x","version":"1"},"servers":[{"url":"https://good.example.com/v1"}],"paths":{` +
			strings.Join(operations, ",") + `}}`
	}
	const secret = `,"headers":{"Authorization":"Bearer hunter2"}`
	mixed := document(operation("one", ""), operation("two", "https://evil.example.com"), operation("three", "http://good.example.com/v1"))
	refused := w.importInto(agentID, `{`+mixed+secret+`}`, ada.auth).want(t, "to several origins", 400, "invalid_request headers:invalid_value")
	for _, named := range []string{"3 servers", "https://good.example.com", "https://evil.example.com", "http://good.example.com"} {
		if !strings.Contains(string(refused.body), named) || strings.Contains(string(refused.body), "hunter2") {
			t.Errorf("%s is not named: %s", named, refused.body)
		}
	}
	many := []string{}
	for i := range 9 {
		many = append(many, operation(fmt.Sprint("op", i), fmt.Sprintf("https://s%d.example.com", i)))
	}
	refused = w.importInto(agentID, `{`+document(many...)+secret+`}`, ada.auth).want(t, "to nine", 400, "invalid_request headers:invalid_value")
	if !strings.Contains(string(refused.body), "and 4 more") {
		t.Errorf("to nine: %s", refused.body)
	}
	if got := w.do("GET", "/api/agents?id="+agentID, "", ada.auth); got.json(t, "version") != 1.0 {
		t.Errorf("the agent became %s", got.body)
	}
	sent := func(what, body, want string) {
		t.Helper()
		w.importInto(agentID, body, ada.auth).want(t, what, 200, "")
		changed, err := w.store.Agents.Agent(t.Context(), ada.org, agentID)
		must(t, err)
		got := []string{}
		for _, e := range changed.Tools.HTTPRequest.Endpoints {
			got = append(got, fmt.Sprint(e.Name, " ", agent.Origin(e.URL), " ", len(e.Headers)))
		}
		if slices.Sort(got); strings.Join(got, ", ") != want {
			t.Errorf("%s: %s", what, strings.Join(got, ", "))
		}
	}
	sent("one operation", `{`+mixed+secret+`,"operations":["two"]}`, "two https://evil.example.com 1")
	sent("without headers", `{`+mixed+`,"headers":{}}`, "one https://good.example.com 0, three http://good.example.com 0, two https://evil.example.com 0")
	own := document(operation("one", "//evil.example.com/v1"), operation("two", "https://evil.example.com"), operation("three", "v2"))
	sent("to the server of the request", `{`+own+secret+`,"serverUrl":"https://mine.example.com"}`,
		"one https://mine.example.com 1, three https://mine.example.com 1, two https://mine.example.com 1")
}

func TestImportsAreRefused(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	ada, bea := w.signUp("ada@example.com"), w.signUp("bea@example.com")
	w.join(bea, ada.org, domain.RoleMember)
	agentID := w.agent(ada, smallAgent)
	pets := `"document":` + petsJSON
	many := []string{}
	for i := range 33 {
		many = append(many, fmt.Sprintf(`"/p%d":{"get":{"operationId":"op%d","responses":{"200":{"description":"x"}}}}`, i, i))
	}
	large := `{"openapi":"3.0.3","info":{"title":"x","version":"1"},"servers":[{"url":"https://a.b"}],"paths":{` + strings.Join(many, ",") + `}}`
	for name, c := range map[string]struct{ body, problems string }{
		"nothing":            {`{}`, "document:required"},
		"no document":        {`{"document":null}`, "document:invalid_type"},
		"a list":             {`{"document":[]}`, "document:invalid_type"},
		"a number":           {`{"document":1}`, "document:invalid_type"},
		"empty":              {`{"document":""}`, "document:too_short"},
		"unknown field":      {`{` + pets + `,"url":"https://a.b/openapi.json"}`, "url:unknown_field"},
		"no operations":      {`{` + pets + `,"operations":[]}`, "operations:too_short"},
		"doubled operations": {`{` + pets + `,"operations":["getPet","getPet",""]}`, "operations[1]:duplicate operations[2]:too_short"},
		"all at once": {
			`{"document":"","operations":[],"serverUrl":"ftp://x","headers":{"Host":"x"},"approval":"sometimes","version":0}`,
			"document:too_short operations:too_short serverUrl:invalid_value headers.Host:invalid_value approval:invalid_value version:invalid_value",
		},
		"too many":    {`{"document":` + large + `}`, "operations:required"},
		"old version": {`{` + pets + `,"version":7}`, "version_conflict"},
	} {
		got := w.importInto(agentID, c.body, ada.auth)
		if c.problems == "version_conflict" {
			got.want(t, name, 409, c.problems)
		} else {
			got.want(t, name, 400, "invalid_request "+c.problems)
		}
	}
	body := `{` + pets + `}`
	w.importInto(agentID, body, bea.auth, "X-Organization-Id: "+ada.org).want(t, "a member", 403, "permission_denied")
	w.importInto(agentID, body, bea.auth).want(t, "another organization", 404, "not_found")
	w.importInto(agentID, body, sayDemo).want(t, "a demo visitor", 403, "demo_restricted")
	w.importInto(agentID, body).want(t, "nobody", 401, "unauthenticated")
	w.do("POST", "/api/agents?action=import-openapi", body, ada.auth).want(t, "no agent", 400, "invalid_request id:required")
	w.importInto("tpl_support", body, ada.auth).want(t, "a template", 404, "not_found")
	if got := w.do("GET", "/api/agents?id="+agentID, "", ada.auth); got.json(t, "version") != 1.0 || got.json(t, "tools.httpRequest") != nil {
		t.Errorf("the agent became %s", got.body)
	}
	nothing := w.importInto(agentID, `{`+pets+`,"operations":["POST /photos"]}`, ada.auth).want(t, "nothing that can be imported", 200, "")
	if nothing.json(t, "agent.version") != 1.0 || mustJSON(t, nothing.json(t, "imported")) != "[]" || nothing.text(t, "skipped.0.reason") == "" {
		t.Errorf("nothing was imported, and the answer is %s", nothing.body)
	}
	w.importInto(agentID, `{`+pets+`,"version":1}`, ada.auth).want(t, "the current version", 200, "")
	maximum := `{"document":` + strings.Replace(large, many[32], `"x-more":1`, 1) + `}`
	w.importInto(agentID, maximum, ada.auth).want(t, "too many beside what there is", 400, "invalid_request operations:too_long")
	w.importInto(w.agent(ada, smallAgent), maximum, ada.auth).want(t, "as many as there may be", 200, "")
}

// An imported OpenAPI document may exceed the usual maximum size of a body. The resulting agent
// must still fit into the body of a PUT.
func TestLargeImports(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	ada := w.signUp("ada@example.com")
	agentID := w.agent(ada, smallAgent)
	sized := func(n int) string {
		const head, tail = `{"document":`, `}`
		return head + petsJSON + strings.Repeat(" ", n-len(head)-len(petsJSON)-len(tail)) + tail
	}
	w.importInto(agentID, sized(2<<20), ada.auth).want(t, "the largest body", 200, "")
	w.importInto(agentID, sized(2<<20+1), ada.auth).want(t, "one byte more", 413, "payload_too_large")
	w.do("PUT", "/api/agents?id="+agentID, `{"name":"`+strings.Repeat("x", httpx.MaxBody)+`"}`, ada.auth).want(t, "another body", 413, "payload_too_large")
	words := make([]string, 100)
	for i := range words {
		words[i] = strings.Repeat("y", 100) + fmt.Sprint(i)
	}
	wide := map[string]any{}
	for i := range 30 {
		wide[fmt.Sprintf("/p%d", i)] = map[string]any{"post": map[string]any{
			"operationId": fmt.Sprintf("op%d", i), "responses": map[string]any{"200": map[string]any{"description": "x"}},
			"requestBody": map[string]any{"content": map[string]any{"application/json": map[string]any{"schema": map[string]any{
				"type": "object", "properties": map[string]any{"x": map[string]any{"type": "string", "enum": words}},
			}}}},
		}}
	}
	document, err := json.Marshal(map[string]any{
		"openapi": "3.0.3", "info": map[string]any{"title": "x", "version": "1"}, "servers": []any{map[string]any{"url": "https://a.b"}}, "paths": wide,
	})
	must(t, err)
	w.importInto(agentID, `{"document":`+string(document)+`}`, ada.auth).want(t, "an agent too large to be sent back", 400, "invalid_request operations:too_long")
	w.importInto(agentID, `{"document":`+string(document)+`,"operations":["op1","op2"]}`, ada.auth).want(t, "some of it", 200, "")
	read := w.do("GET", "/api/agents?id="+agentID, "", ada.auth)
	w.do("PUT", "/api/agents?id="+agentID, string(read.body), ada.auth).want(t, "sending back", 200, "")
}
