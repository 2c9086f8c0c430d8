package httpapi

import (
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"

	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/secrets"
	"parley/shared/templates"
)

const smallAgent = `{"name":"Ada","systemPrompt":"You help."}`

// fullAgent uses every field and tool.
const fullAgent = `{"name":"Full","description":"d","systemPrompt":"p","model":"openai/gpt-5-mini","fallbackModels":["anthropic/claude-sonnet-4-5","offline"],
	"allowedCallers":["system","user"],"widget":{"enabled":true,"allowedOrigins":["https://example.com","http://localhost:3000"],"attachments":true},
	"tools":{"webSearch":{"enabled":true,"approval":"never"},"codeExecution":{"enabled":false,"approval":"always"},
	"knowledge":{"enabled":true,"approval":"unsafe","documentIds":["doc_01h455vb4pex5vsknk084sn02q"]},
	"httpRequest":{"enabled":true,"approval":"unsafe","endpoints":[{"name":"crm","description":"customers","method":"POST","url":"https://crm.example.com/v1/{n}?x=1&y={m}",
		"headers":{"Authorization":"Bearer hunter2","X-Team":"red"},"inputSchema":{"type":"object","properties":{"n":{"type":"number"},"m":{"type":"string"}}},
		"sideEffect":"idempotent","signingSecret":"` + signingSecret + `"}]},
	"mcp":{"enabled":true,"approval":"always","servers":[{"name":"wiki","url":"https://wiki.example.com/mcp","headers":{"X-Token":"swordfish"},"sideEffect":"none"}]},
	"voice":{"enabled":true,"voice":"alto"}}}`

const signingSecret = "whsec_cG9yY3VwaW5lLXF1aWxsLXNpZ25pbmch"

func (w *testEnv) agent(p person, body string) string {
	w.t.Helper()
	return w.do("POST", "/api/agents", body, p.auth).want(w.t, "making an agent", 201, "").text(w.t, "id")
}

func TestCreateAgent(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	ada := w.signUp("ada@example.com")
	a := w.do("POST", "/api/agents", smallAgent, ada.auth).want(t, "small", 201, "")
	want := `{"id":"` + a.text(t, "id") + `","name":"Ada","description":"","systemPrompt":"You help.","model":"offline","fallbackModels":[],"tools":{},` +
		`"allowedCallers":["user"],"widget":{"enabled":false,"allowedOrigins":[],"attachments":false},"outputSchema":null,"appendSources":false,"suggestions":[],"version":1,"lastCheck":null,` +
		`"createdAt":"` + a.text(t, "createdAt") + `","updatedAt":"` + a.text(t, "updatedAt") + `","temperature":null,"topP":null,"maxOutputTokens":null,` +
		`"reasoningEffort":null,"seed":null,"stop":null,"parallelToolCalls":null,` +
		`"overridable":["temperature","topP","maxOutputTokens","reasoningEffort","seed","stop","parallelToolCalls"]}`
	if string(a.body) != want || !id.Valid(id.Agent, a.text(t, "id")) {
		t.Errorf("small agent\n%s\nwant\n%s", a.body, want)
	}
	long := func(n int) string { return strings.Repeat("ä", n) }
	prompt := func(field, value string) string {
		return `{"name":"x","systemPrompt":"p","` + field + `":` + value + `}`
	}
	endpoint := func(body string) string {
		return prompt("tools", `{"httpRequest":{"enabled":true,"endpoints":[`+body+`]}}`)
	}
	const e = "tools.httpRequest.endpoints[0]"
	for name, c := range map[string]struct{ body, problems string }{
		"nothing":             {`{}`, "name:required systemPrompt:required"},
		"longest":             {`{"name":"` + long(120) + `","systemPrompt":"` + long(32000) + `"}`, ""},
		"too long":            {`{"name":"` + long(121) + `","systemPrompt":"` + long(32001) + `"}`, "name:too_long systemPrompt:too_long"},
		"empty":               {`{"name":"","systemPrompt":""}`, "name:too_short systemPrompt:too_short"},
		"null":                {`{"name":null,"systemPrompt":1}`, "name:invalid_type systemPrompt:invalid_type"},
		"other case":          {`{"Name":"x","systemprompt":"p"}`, "Name:unknown_field systemprompt:unknown_field name:required systemPrompt:required"},
		"own id":              {prompt("id", `"ag_x"`), "id:unknown_field"},
		"own version":         {prompt("version", `1`), "version:unknown_field"},
		"other organization":  {prompt("organizationId", `"org_x"`), "organizationId:unknown_field"},
		"unknown model name":  {prompt("model", `"a b"`), "model:invalid_value"},
		"no provider's model": {prompt("model", `"foo"`), "model:invalid_value"},
		"unknown provider":    {prompt("model", `"foo/bar"`), "model:invalid_value"},
		"no offline model":    {prompt("model", `"offline/nope"`), "model:invalid_value"},
		"default model":       {prompt("model", `""`), ""},
		"no callers":          {prompt("allowedCallers", `[]`), "allowedCallers:too_short"},
		"unknown callers":     {prompt("allowedCallers", `["user","demo","User"]`), "allowedCallers[1]:invalid_value allowedCallers[2]:invalid_value"},
		"doubled callers":     {prompt("allowedCallers", `["user","user"]`), "allowedCallers[1]:duplicate"},
		"callers no list":     {prompt("allowedCallers", `"user"`), "allowedCallers:invalid_type"},
		"unknown tool":        {prompt("tools", `{"webSerch":{"enabled":true}}`), "tools.webSerch:unknown_field"},
		"unknown option":      {prompt("tools", `{"webSearch":{"enabled":true,"deep":1}}`), "tools.webSearch.deep:unknown_field"},
		"tool of no object":   {prompt("tools", `{"webSearch":true}`), "tools.webSearch:invalid_type"},
		"enabled of no bool":  {prompt("tools", `{"webSearch":{"enabled":"yes"}}`), "tools.webSearch.enabled:invalid_type"},
		"tool without switch": {prompt("tools", `{"webSearch":{},"voice":{"voice":"x"}}`), "tools.webSearch.enabled:required tools.voice.enabled:required"},
		"documents":           {prompt("tools", `{"knowledge":{"enabled":true,"documentIds":["ag_x"]}}`), "tools.knowledge.documentIds[0]:invalid_value"},
		"bad endpoint":        {endpoint(`{}`), e + ".name:required " + e + ".method:required " + e + ".url:required"},
		"every part is wrong": {
			endpoint(`{"name":"a b","method":"get","url":"ftp://x","headers":{"Host":"x","A":"b\nc","a":"","x y":"1"},"inputSchema":[],"sideEffect":"some"}`),
			e + ".name:invalid_value " + e + ".method:invalid_value " + e + ".url:invalid_value " + e + ".headers.A:invalid_value " +
				e + ".headers.Host:invalid_value " + e + ".headers.a:duplicate " + e + ".headers:invalid_value " + e + ".inputSchema:invalid_value " +
				e + ".sideEffect:invalid_value",
		},
		"password in address":  {endpoint(`{"name":"a","method":"GET","url":"https://u:p@example.com/"}`), e + ".url:invalid_value"},
		"nothing to keep":      {endpoint(`{"name":"a","method":"GET","url":"https://example.com/","headers":{"A":"***"}}`), e + ".headers.A:invalid_value"},
		"two of a name":        {endpoint(`{"name":"a","method":"GET","url":"https://a.b"},{"name":"a","method":"GET","url":"https://a.b"}`), "tools.httpRequest.endpoints[1].name:duplicate"},
		"schema beyond floats": {endpoint(`{"name":"a","method":"GET","url":"https://a.b","inputSchema":{"maximum":1e999}}`), e + ".inputSchema:invalid_value"},
		"fallbacks": {
			prompt("fallbackModels", `["foo","","offline","offline/echo"]`), "fallbackModels[0]:invalid_value fallbackModels[1]:invalid_value fallbackModels:too_long",
		},
		"bad fallbacks": {
			prompt("fallbackModels", `["foo","","offline"]`), "fallbackModels[0]:invalid_value fallbackModels[1]:invalid_value",
		},
		"doubled fallbacks":  {prompt("fallbackModels", `["offline","offline"]`), "fallbackModels[1]:duplicate"},
		"fallback to itself": {prompt("fallbackModels", `["offline","openai/x"],"model":"openai/x"`), "fallbackModels[1]:duplicate"},
		"three fallbacks":    {prompt("fallbackModels", `["offline","offline/echo","openai/gpt-5-mini"],"model":"openai/x"`), ""},
		"no fallbacks":       {prompt("fallbackModels", `[]`), ""},
		"suggestions":        {prompt("suggestions", `["a","b","c","d","e","`+long(200)+`"]`), ""},
		"bad suggestions": {
			prompt("suggestions", `["","`+long(201)+`","a\u202eb","x","x"]`),
			"suggestions[0]:too_short suggestions[1]:too_long suggestions[2]:invalid_value suggestions[4]:duplicate",
		},
		"seven suggestions":   {prompt("suggestions", `["a","b","c","d","e","f","g"]`), "suggestions:too_long"},
		"suggestions no list": {prompt("suggestions", `"a"`), "suggestions:invalid_type"},
		"fallbacks no list":   {prompt("fallbackModels", `"offline"`), "fallbackModels:invalid_type"},
		"approval of no kind": {
			prompt("tools", `{"webSearch":{"enabled":true,"approval":"Always"},"codeExecution":{"enabled":true,"approval":""},"knowledge":{"enabled":true,"approval":"x"},`+
				`"httpRequest":{"enabled":true,"approval":"x"},"mcp":{"enabled":true,"approval":"x"},"voice":{"enabled":true,"approval":"always"}}`),
			"tools.voice.approval:unknown_field tools.webSearch.approval:invalid_value tools.codeExecution.approval:invalid_value tools.knowledge.approval:invalid_value " +
				"tools.httpRequest.approval:invalid_value tools.mcp.approval:invalid_value",
		},
		"server's effect": {prompt("tools", `{"mcp":{"enabled":true,"servers":[{"name":"a","url":"https://a.b","sideEffect":"some"}]}}`), "tools.mcp.servers[0].sideEffect:invalid_value"},
		"a reserved name": {endpoint(`{"name":"write_final_answer","method":"GET","url":"https://a.b"}`), e + ".name:invalid_value"},
		"built-in names": {
			endpoint(`{"name":"webSearch","method":"GET","url":"https://a.b"},{"name":"knowledge","method":"GET","url":"https://a.b"},{"name":"websearch","method":"GET","url":"https://a.b"}`),
			e + ".name:conflict tools.httpRequest.endpoints[1].name:conflict",
		},
		"variable host":       {endpoint(`{"name":"a","method":"GET","url":"https://{tenant}.example.com/"}`), e + ".url:invalid_value"},
		"variable port":       {endpoint(`{"name":"a","method":"GET","url":"https://a.b:{port}/"}`), e + ".url:invalid_value"},
		"variable scheme":     {endpoint(`{"name":"a","method":"GET","url":"{scheme}://a.b/"}`), e + ".url:invalid_value"},
		"open variable":       {endpoint(`{"name":"a","method":"GET","url":"https://a.b/{x"}`), e + ".url:invalid_value"},
		"variables":           {endpoint(`{"name":"a","method":"GET","url":"https://a.b/{x}/z?q={y}"}`), ""},
		"variables described": {endpoint(`{"name":"a","method":"GET","url":"https://a.b/{x}?q={y}","inputSchema":{"type":"object","properties":{"x":{},"y":{},"z":{}}}}`), ""},
		"not described": {
			endpoint(`{"name":"a","method":"GET","url":"https://a.b/{x}?q={y}","inputSchema":{"type":"object","properties":{"X":{}}}}`),
			e + ".inputSchema.properties.x:required " + e + ".inputSchema.properties.y:required",
		},
		"no properties":       {endpoint(`{"name":"a","method":"GET","url":"https://a.b/{x}","inputSchema":{"type":"object"}}`), e + ".inputSchema.properties.x:required"},
		"schema of a list":    {endpoint(`{"name":"a","method":"GET","url":"https://a.b","inputSchema":{"type":"array"}}`), e + ".inputSchema.type:invalid_value"},
		"schema of no type":   {endpoint(`{"name":"a","method":"GET","url":"https://a.b","inputSchema":{}}`), e + ".inputSchema.type:invalid_value"},
		"two types":           {endpoint(`{"name":"a","method":"GET","url":"https://a.b","inputSchema":{"type":["object","null"]}}`), e + ".inputSchema.type:invalid_value"},
		"no schema":           {endpoint(`{"name":"a","method":"GET","url":"https://a.b","inputSchema":{"type":"object","properties":{"x":{"type":"nonsense"}}}}`), e + ".inputSchema:invalid_value"},
		"remote schema":       {endpoint(`{"name":"a","method":"GET","url":"https://a.b","inputSchema":{"type":"object","properties":{"x":{"$ref":"https://evil.example.com/s.json"}}}}`), e + ".inputSchema:invalid_value"},
		"largest schema":      {endpoint(`{"name":"a","method":"GET","url":"https://a.b","inputSchema":` + schema(16384) + `}`), ""},
		"too large a schema":  {endpoint(`{"name":"a","method":"GET","url":"https://a.b","inputSchema":` + schema(16385) + `}`), e + ".inputSchema:too_long"},
		"own idempotency key": {endpoint(`{"name":"a","method":"GET","url":"https://a.b","headers":{"Idempotency-Key":"x"}}`), e + ".headers.Idempotency-Key:invalid_value"},
		"origins": {
			prompt("widget", `{"enabled":true,"allowedOrigins":["https://a.b/","*","https://A.b","https://a.b","https://a.b","https://a.b:443","null"]}`),
			"widget.allowedOrigins[0]:invalid_value widget.allowedOrigins[1]:invalid_value widget.allowedOrigins[2]:invalid_value " +
				"widget.allowedOrigins[4]:duplicate widget.allowedOrigins[5]:invalid_value widget.allowedOrigins[6]:invalid_value",
		},
		"NUL": {`{"name":"x","systemPrompt":"a\u0000b"}`, "systemPrompt:invalid_value"},
	} {
		if c.problems == "" {
			w.do("POST", "/api/agents", c.body, ada.auth).want(t, name, 201, "")
		} else {
			w.do("POST", "/api/agents", c.body, ada.auth).want(t, name, 400, "invalid_request "+c.problems)
		}
	}
	for query, problems := range map[string]string{
		"?id=" + a.text(t, "id"): "action:required", "?template=tpl_support": "action:required", "?action=": "action:invalid_value",
		"?action=dance": "action:invalid_value", "?action=chat&action=chat": "action:invalid_value", "?action=Chat&id=x": "action:invalid_value",
	} {
		w.do("POST", "/api/agents"+query, smallAgent, ada.auth).want(t, query, 400, "invalid_request "+problems)
	}
	w.do("POST", "/api/agents?action=dance", smallAgent).want(t, "unknown action of nobody", 401, "unauthenticated")
}

// schema returns a JSON Schema of n bytes.
func schema(n int) string {
	const head, tail = `{"type":"object","description":"`, `"}`
	return head + strings.Repeat("x", n-len(head)-len(tail)) + tail
}

// fullAgent creates an agent that has every field. The body is the constant fullAgent, with the id
// of a document of the person's organization.
func (w *testEnv) fullAgent(p person) string {
	w.t.Helper()
	document := w.do("POST", "/api/knowledge", `{"name":"o","content":"known"}`, p.auth).want(w.t, "a document", 202, "").text(w.t, "id")
	return w.agent(p, strings.Replace(fullAgent, "doc_01h455vb4pex5vsknk084sn02q", document, 1))
}

func TestAgentSecrets(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	ada := w.signUp("ada@example.com")
	agentID := w.fullAgent(ada)
	a := w.do("GET", "/api/agents?id="+agentID, "", ada.auth).want(t, "reading", 200, "")
	if a.text(t, "tools.httpRequest.endpoints.0.headers.Authorization") != "***" || a.text(t, "tools.mcp.servers.0.headers.X-Token") != "***" ||
		a.text(t, "tools.httpRequest.endpoints.0.sideEffect") != "idempotent" || a.text(t, "tools.voice.voice") != "alto" ||
		a.text(t, "tools.httpRequest.endpoints.0.signingSecret") != "***" || a.text(t, "tools.mcp.servers.0.sideEffect") != "none" ||
		a.text(t, "fallbackModels.1") != "offline" || a.text(t, "tools.knowledge.approval") != "unsafe" || a.text(t, "tools.mcp.approval") != "always" {
		t.Errorf("agent %s", a.body)
	}
	var stored string
	raw, err := sql.Open("postgres", w.dsn) // a superuser's connection, which shows the stored values
	must(t, err)
	t.Cleanup(func() { _ = raw.Close() })
	must(t, raw.QueryRowContext(t.Context(), `SELECT tools::text || (SELECT string_agg(config::text, '') FROM agent_configs WHERE target_id = $1)
		FROM agents WHERE id = $1`, agentID).Scan(&stored))
	list := string(w.do("GET", "/api/agents", "", ada.auth).body)
	for _, secret := range []string{"hunter2", "swordfish", "cG9yY3"} {
		if strings.Contains(stored, secret) || strings.Contains(string(a.body), secret) || strings.Contains(list, secret) || strings.Contains(w.log.String(), secret) {
			t.Errorf("%s is stored, shown or logged", secret)
		}
	}
	secret := func() string {
		agent, err := w.store.Agents.Agent(t.Context(), ada.org, agentID)
		must(t, err)
		plain, err := w.api.Secrets.Open(agent.Tools.HTTPRequest.Endpoints[0].Headers["Authorization"], secrets.AgentHeaders(ada.org, agentID))
		must(t, err)
		return plain
	}
	// Sending the response back changes only the version of the agent.
	back := w.do("PUT", "/api/agents?id="+agentID, string(a.body), ada.auth).want(t, "sending back", 200, "")
	var one, two map[string]any
	must(t, json.Unmarshal(a.body, &one))
	must(t, json.Unmarshal(back.body, &two))
	one["version"], one["updatedAt"] = 2.0, two["updatedAt"]
	if x, y := mustJSON(t, one), mustJSON(t, two); x != y {
		t.Errorf("sent back\n%s\nbecame\n%s", x, y)
	}
	if got := secret(); got != "Bearer hunter2" {
		t.Errorf("secret became %q", got)
	}
	if got := w.signing(ada, agentID); got != signingSecret {
		t.Errorf("signing secret became %q", got)
	}
	put := func(what, endpoint, problems string) {
		t.Helper()
		body := `{"tools":{"httpRequest":{"endpoints":[` + endpoint + `]}}}`
		if problems == "" {
			w.do("PUT", "/api/agents?id="+agentID, body, ada.auth).want(t, what, 200, "")
			return
		}
		w.do("PUT", "/api/agents?id="+agentID, body, ada.auth).want(t, what, 400, "invalid_request tools.httpRequest.endpoints[0].headers."+problems)
	}
	put("another path", `{"name":"crm","method":"GET","url":"https://crm.example.com/v2","headers":{"authorization":"***"}}`, "")
	agent, err := w.store.Agents.Agent(t.Context(), ada.org, agentID)
	must(t, err)
	if len(agent.Tools.HTTPRequest.Endpoints[0].Headers) != 1 || agent.Tools.MCP == nil || !agent.Tools.HTTPRequest.Enabled {
		t.Errorf("tools %+v", agent.Tools)
	}
	put("stealing it", `{"name":"crm","method":"GET","url":"https://evil.example.com/v2","headers":{"authorization":"***"}}`, "authorization:invalid_value")
	put("another name", `{"name":"crm2","method":"GET","url":"https://crm.example.com/v2","headers":{"authorization":"***"}}`, "authorization:invalid_value")
	put("a header that was not", `{"name":"crm","method":"GET","url":"https://crm.example.com/v2","headers":{"X-Team":"***"}}`, "X-Team:invalid_value")
	put("a new one", `{"name":"crm","method":"GET","url":"https://evil.example.com/","headers":{"Authorization":"fresh"}}`, "")
	if got := secret(); got != "fresh" {
		t.Errorf("secret is %q", got)
	}
}

// signing returns the signing secret of an agent's first endpoint, decrypted, or "" if there is
// none.
func (w *testEnv) signing(p person, agentID string) string {
	w.t.Helper()
	agent, err := w.store.Agents.Agent(w.t.Context(), p.org, agentID)
	must(w.t, err)
	sealed := agent.Tools.HTTPRequest.Endpoints[0].SigningSecret
	if sealed == "" {
		return ""
	}
	plain, err := w.api.Secrets.Open(sealed, secrets.AgentHeaders(p.org, agentID))
	must(w.t, err)
	return plain
}

func TestSigningSecretStaysWithItsOrigin(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	ada := w.signUp("ada@example.com")
	agentID := w.fullAgent(ada)
	other := "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 64)))
	for _, c := range []struct{ name, endpoint, problem, want string }{
		{"kept at another path", `"name":"crm","url":"https://CRM.example.com/v2","signingSecret":"***"`, "", signingSecret},
		{"stolen", `"name":"crm","url":"https://evil.example.com/v2","signingSecret":"***"`, "invalid_value", signingSecret},
		{"stolen by a port", `"name":"crm","url":"https://crm.example.com:8443/v2","signingSecret":"***"`, "invalid_value", signingSecret},
		{"stolen by a scheme", `"name":"crm","url":"http://crm.example.com/v2","signingSecret":"***"`, "invalid_value", signingSecret},
		{"another name", `"name":"crm2","url":"https://crm.example.com/v2","signingSecret":"***"`, "invalid_value", signingSecret},
		{"no prefix", `"name":"crm","url":"https://crm.example.com/","signingSecret":"cG9yY3VwaW5lLXF1aWxsLXNpZ25pbmch"`, "invalid_value", signingSecret},
		{"no base64", `"name":"crm","url":"https://crm.example.com/","signingSecret":"whsec_!!!!"`, "invalid_value", signingSecret},
		{"too short", `"name":"crm","url":"https://crm.example.com/","signingSecret":"whsec_c2hvcnQ="`, "invalid_value", signingSecret},
		{"empty", `"name":"crm","url":"https://crm.example.com/","signingSecret":""`, "invalid_value", signingSecret},
		{"a new one", `"name":"crm","url":"https://evil.example.com/","signingSecret":"` + other + `"`, "", other},
		{"left out", `"name":"crm","url":"https://evil.example.com/"`, "", ""},
		{"nothing to keep", `"name":"crm","url":"https://evil.example.com/","signingSecret":"***"`, "invalid_value", ""},
	} {
		got := w.do("PUT", "/api/agents?id="+agentID, `{"tools":{"httpRequest":{"endpoints":[{"method":"POST",`+c.endpoint+`}]}}}`, ada.auth)
		if c.problem == "" {
			got.want(t, c.name, 200, "")
		} else {
			got.want(t, c.name, 400, "invalid_request tools.httpRequest.endpoints[0].signingSecret:"+c.problem)
		}
		if now := w.signing(ada, agentID); now != c.want {
			t.Errorf("%s: the secret is %q, want %q", c.name, now, c.want)
		}
		for _, secret := range []string{"cG9yY3", "c2hvcn", other[6:]} {
			if strings.Contains(string(got.body), secret) {
				t.Errorf("%s shows a secret: %s", c.name, got.body)
			}
		}
	}
}

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	must(t, err)
	return string(b)
}

func TestUpdateAgent(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	ada := w.signUp("ada@example.com")
	agentID := w.agent(ada, `{"name":"Ada","systemPrompt":"p","tools":{"webSearch":{"enabled":true},"voice":{"enabled":true,"voice":"alto"}}}`)
	version := 1
	for _, c := range []struct{ name, body, problems string }{
		{"nothing", `{}`, ""},
		{"callers", `{"allowedCallers":["user","system"]}`, ""},
		{"one tool", `{"tools":{"codeExecution":{"enabled":true}}}`, ""},
		{"one option", `{"tools":{"voice":{"enabled":false}}}`, ""},
		{"a tool it did not have", `{"tools":{"knowledge":{"documentIds":null}}}`, "invalid_request tools.knowledge.enabled:required"},
		{"no document", `{"tools":{"knowledge":{"documentIds":[]}}}`, "invalid_request tools.knowledge.documentIds:too_short"},
		{"unknown field", `{"nam":"x"}`, "invalid_request nam:unknown_field"},
		{"template", `{"templateId":"tpl_support"}`, "invalid_request templateId:unknown_field"},
		{"empty name", `{"name":""}`, "invalid_request name:too_short"},
		{"another id", `{"id":"ag_01h455vb4pex5vsknk084sn02q"}`, "invalid_request id:invalid_value"},
		{"own id", `{"id":"` + agentID + `"}`, ""},
		{"other times", `{"createdAt":"x","updatedAt":"y"}`, "invalid_request createdAt:invalid_value updatedAt:invalid_value"},
		{"old version", `{"name":"x","version":1}`, "version_conflict"},
		{"version 0", `{"name":"x","version":0}`, "invalid_request version:invalid_value"},
		{"version of no number", `{"name":"x","version":"1"}`, "invalid_request version:invalid_type"},
		{"approval", `{"tools":{"webSearch":{"approval":"always"}}}`, ""},
		{"fallbacks", `{"fallbackModels":["offline/echo"]}`, ""},
		{"a fallback as model", `{"model":"offline/echo"}`, "invalid_request fallbackModels[0]:duplicate"},
		{"both at once", `{"model":"offline/echo","fallbackModels":["openai/x"]}`, ""},
		{"back", `{"model":""}`, ""},
		{"widget", `{"widget":{"allowedOrigins":["https://a.b"]}}`, ""},
		{"widget again", `{"widget":{"enabled":true,"attachments":true}}`, ""},
		{"widget's attachments of no boolean", `{"widget":{"attachments":"yes"}}`, "invalid_request widget.attachments:invalid_type"},
	} {
		a := w.do("PUT", "/api/agents?id="+agentID, c.body, ada.auth)
		switch c.problems {
		case "":
			version++
			if a.want(t, c.name, 200, ""); a.json(t, "version") != float64(version) {
				t.Errorf("%s: version %v, want %d", c.name, a.json(t, "version"), version)
			}
		case "version_conflict":
			a.want(t, c.name, 409, c.problems)
		default:
			a.want(t, c.name, 400, c.problems)
		}
	}
	w.do("PUT", "/api/agents?id="+agentID, `{"name":"Bea","version":`+strconv.Itoa(version)+`}`, ada.auth).want(t, "current version", 200, "")
	a := w.do("GET", "/api/agents?id="+agentID, "", ada.auth)
	for path, want := range map[string]any{
		"name": "Bea", "tools.webSearch.enabled": true, "tools.webSearch.approval": "always", "fallbackModels.0": "openai/x", "tools.codeExecution.enabled": true, "tools.voice.enabled": false, "tools.voice.voice": "alto",
		"tools.knowledge": nil, "allowedCallers.1": "system", "widget.enabled": true, "widget.attachments": true, "widget.allowedOrigins.0": "https://a.b", "model": "offline",
	} {
		if got := a.json(t, path); got != want {
			t.Errorf("%s is %v, want %v", path, got, want)
		}
	}
	w.do("PUT", "/api/agents", `{}`, ada.auth).want(t, "no id", 400, "invalid_request id:required")
	w.do("PUT", "/api/agents?id=", `{}`, ada.auth).want(t, "empty id", 400, "invalid_request id:invalid_value")
}

func TestDefaultModelIsNotPinned(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	ada := w.signUp("ada@example.com")
	agentID := w.agent(ada, smallAgent)
	model := func(body string) string {
		w.do("PUT", "/api/agents?id="+agentID, body, ada.auth).want(t, body, 200, "")
		agent, err := w.store.Agents.Agent(t.Context(), ada.org, agentID)
		must(t, err)
		return agent.Model
	}
	for _, c := range [][2]string{
		{`{"model":"offline"}`, ""}, {`{"model":"offline/echo"}`, "offline/echo"}, {`{"model":"offline"}`, "offline"}, {`{"model":""}`, ""},
	} {
		if got := model(c[0]); got != c[1] {
			t.Errorf("%s stored %q, want %q", c[0], got, c[1])
		}
	}
}

func TestAgentsFromTemplates(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	ada := w.signUp("ada@example.com")
	a := w.do("POST", "/api/agents", `{"templateId":"tpl_researcher"}`, ada.auth).want(t, "as it is", 201, "")
	if a.text(t, "name") != "Researcher" || a.json(t, "tools.webSearch.enabled") != true || a.text(t, "systemPrompt") == "" {
		t.Errorf("agent %s", a.body)
	}
	a = w.do("POST", "/api/agents", `{"templateId":"tpl_researcher","name":"Mine","tools":{"webSearch":{},"codeExecution":{"enabled":true}},"allowedCallers":["system"]}`, ada.auth).want(t, "changed", 201, "")
	if a.text(t, "name") != "Mine" || a.json(t, "tools.webSearch.enabled") != true || a.json(t, "tools.codeExecution.enabled") != true || a.text(t, "allowedCallers.0") != "system" {
		t.Errorf("agent %s", a.body)
	}
	for body, c := range map[string]struct {
		problems string
		status   int
	}{
		`{"templateId":"tpl_none"}`:                              {"invalid_request templateId:invalid_value", 400},
		`{"templateId":"nonsense"}`:                              {"invalid_request templateId:invalid_value", 400},
		`{"templateId":""}`:                                      {"invalid_request templateId:invalid_value", 400},
		`{"templateId":5}`:                                       {"invalid_request templateId:invalid_type", 400},
		`{"templateId":"tpl_none","name":""}`:                    {"invalid_request name:too_short", 400},
		`{"templateId":"tpl_researcher","tools":{"voice":{}}}`:   {"invalid_request tools.voice.enabled:required", 400},
		`{"templateId":"tpl_researcher","suggestedMessages":[]}`: {"invalid_request suggestedMessages:unknown_field", 400},
	} {
		w.do("POST", "/api/agents", body, ada.auth).want(t, body, c.status, c.problems)
	}
}

// Every template results in a valid agent that can be read and sent back unchanged.
func TestEveryTemplateMakesAnAgent(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	ada := w.signUp("ada@example.com")
	for _, template := range templates.All() {
		made := w.do("POST", "/api/agents", `{"templateId":"`+template.ID+`"}`, ada.auth).want(t, template.ID, 201, "")
		var tools any
		must(t, json.Unmarshal([]byte(mustJSON(t, template.Tools)), &tools))
		if want, got := mustJSON(t, tools), mustJSON(t, made.json(t, "tools")); got != want {
			t.Errorf("%s has the tools %s, its agent %s", template.ID, want, got)
		}
		if want, got := mustJSON(t, template.SuggestedMessages), mustJSON(t, made.json(t, "suggestions")); got != want {
			t.Errorf("%s suggests %s, its agent %s", template.ID, want, got)
		}
		back := w.do("PUT", "/api/agents?id="+made.text(t, "id"), string(made.body), ada.auth).want(t, template.ID+" sent back", 200, "")
		if mustJSON(t, made.json(t, "tools")) != mustJSON(t, back.json(t, "tools")) || back.json(t, "version") != 2.0 {
			t.Errorf("%s became %s", made.body, back.body)
		}
	}
}

func TestListAgents(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	ada, bea := w.signUp("ada@example.com"), w.signUp("bea@example.com")
	for _, name := range []string{"Night shift", "Day shift", "Ödipus"} {
		w.agent(ada, `{"name":"`+name+`","systemPrompt":"p"}`)
	}
	for query, want := range map[string]string{
		"": "Ödipus Day shift Night shift ", "?q=SHIFT": "Day shift Night shift ", "?q=%C3%B6d": "Ödipus ", "?q=%25": "", "?q=shift+day": "Day shift ",
		"?q=shift&limit=1": "Day shift ",
	} {
		a := w.do("GET", "/api/agents"+query, "", ada.auth).want(t, query, 200, "")
		got := ""
		for _, n := range []string{"0", "1", "2"} {
			if name := a.text(t, "data."+n+".name"); name != "" {
				got += name + " "
			}
		}
		if got != want {
			t.Errorf("%q lists %q, want %q", query, got, want)
		}
	}
	w.do("GET", "/api/agents?q="+strings.Repeat("x", 121), "", ada.auth).want(t, "long q", 400, "invalid_request q:too_long")
	w.do("GET", "/api/agents?q=a&q=b", "", ada.auth).want(t, "two q", 400, "invalid_request q:duplicate")
	if a := w.do("GET", "/api/agents", "", bea.auth); string(a.body) != `{"data":[],"hasMore":false,"nextCursor":null}` {
		t.Errorf("another organization lists %s", a.body)
	}
}

func TestDeleteAgent(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	ada := w.signUp("ada@example.com")
	agentID := w.agent(ada, smallAgent)
	w.cancelRecorder.err = errors.New("the bus is away")
	w.do("DELETE", "/api/agents?id="+agentID, "", ada.auth).want(t, "cancelling fails", 500, "internal")
	w.do("GET", "/api/agents?id="+agentID, "", ada.auth).want(t, "still there", 200, "")
	w.cancelRecorder.err = nil
	a := w.do("DELETE", "/api/agents?id="+agentID, "", ada.auth).want(t, "deleting", 200, "")
	if string(a.body) != `{"id":"`+agentID+`","deleted":true}` {
		t.Errorf("answer %s", a.body)
	}
	if n := len(w.cancelRecorder.seen); n != 3 || w.cancelRecorder.seen[n-1] != ada.org+" "+agentID {
		t.Errorf("cancelled %v", w.cancelRecorder.seen)
	}
	for _, method := range []string{"GET", "DELETE"} {
		w.do(method, "/api/agents?id="+agentID, "", ada.auth).want(t, method+" after deletion", 404, "not_found")
	}
	w.do("PUT", "/api/agents?id="+agentID, `{}`, ada.auth).want(t, "PUT after deletion", 404, "not_found")
	w.do("DELETE", "/api/agents", "", ada.auth).want(t, "no id", 400, "invalid_request id:required")
}

func TestForeignAndMissingAgentsLookAlike(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	ada, bea := w.signUp("ada@example.com"), w.signUp("bea@example.com")
	gone := w.agent(bea, smallAgent)
	w.do("DELETE", "/api/agents?id="+gone, "", bea.auth)
	for _, method := range []string{"GET", "PUT", "DELETE"} {
		body := map[string]string{"PUT": smallAgent}[method]
		var first string
		for name, agentID := range map[string]string{
			"foreign": w.agent(bea, smallAgent), "deleted": gone, "missing": id.New(id.Agent), "malformed": "ag_1",
			"another kind": id.New(id.Run), "upper case": strings.ToUpper(gone), "a template": "tpl_support",
		} {
			a := w.do(method, "/api/agents?id="+agentID, body, ada.auth).want(t, method+" "+name, 404, "not_found")
			if first == "" {
				first = a.shown()
			}
			if a.shown() != first {
				t.Errorf("%s %s: %s differs from %s", method, name, a.body, first)
			}
		}
	}
}

func TestAgentRoles(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	ada, bea := w.signUp("ada@example.com"), w.signUp("bea@example.com")
	w.join(bea, ada.org, domain.RoleMember)
	agentID, at := w.agent(ada, smallAgent), "X-Organization-Id: "+ada.org
	w.do("GET", "/api/agents?id="+agentID, "", bea.auth, at).want(t, "member reads", 200, "")
	w.do("POST", "/api/agents", smallAgent, bea.auth, at).want(t, "member creates", 403, "permission_denied")
	w.do("PUT", "/api/agents?id="+agentID, `{}`, bea.auth, at).want(t, "member updates", 403, "permission_denied")
	w.do("DELETE", "/api/agents?id="+agentID, "", bea.auth, at).want(t, "member deletes", 403, "permission_denied")
	w.do("POST", "/api/agents?action=dance", smallAgent, bea.auth, at).want(t, "member dances", 400, "invalid_request action:invalid_value")
	key, _ := w.key(ada, domain.KeyScopeOrganization)
	w.do("POST", "/api/agents", smallAgent, key).want(t, "organization's key creates", 201, "")
}

func TestListTemplates(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	ada := w.signUp("ada@example.com")
	userKey, _ := w.key(ada, domain.KeyScopeUser)
	for name, headers := range map[string][]string{
		"nobody": nil, "cookie": {ada.cookie}, "user's key without organization": {userKey}, "demo": {"X-Tenant-Id: tenant_demo"},
		"foreign organization": {ada.auth, "X-Organization-Id: " + id.New(id.Organization)},
	} {
		a := w.do("GET", "/api/agents/templates", "", headers...).want(t, name, 200, "")
		if a.text(t, "data.0.id") != "tpl_support" || a.json(t, "data.5.suggestedMessages.2") == nil || a.json(t, "hasMore") != false ||
			a.json(t, "data.0.systemPrompt") != nil || a.json(t, "data.3.tools.knowledge.enabled") != true {
			t.Errorf("%s: %s", name, a.body)
		}
	}
	w.do("GET", "/api/agents/templates", "", "X-Api-Key: ak_broken").want(t, "broken key", 401, "unauthenticated")
	w.do("GET", "/api/agents/templates", "", "X-Tenant-Id: other").want(t, "other tenant", 400, "invalid_request x-tenant-id:invalid_value")
	a := w.do("GET", "/api/agents/templates?limit=4", "")
	rest := w.do("GET", "/api/agents/templates?limit=4&cursor="+a.text(t, "nextCursor"), "").want(t, "second page", 200, "")
	if rest.text(t, "data.0.id") != "tpl_triage" || rest.json(t, "data.2") != nil || rest.json(t, "nextCursor") != nil {
		t.Errorf("second page %s", rest.body)
	}
	w.do("GET", "/api/agents/templates?cursor=dHBsX25vbmU", "").want(t, "cursor of no template", 400, "invalid_request cursor:invalid_value")
	w.do("GET", "/api/agents/templates?limit=0", "").want(t, "bad limit", 400, "invalid_request limit:invalid_value")
}
