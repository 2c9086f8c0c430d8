package httpapi

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"parley/shared/domain"
)

const lampSchema = `{"type":"object","required":["name","watts"],"properties":{"name":{"type":"string"},"watts":{"type":"integer"}}}`

// answersJSON returns a function that gives a run the result of a worker: an answer in JSON that
// matches lampSchema, with a citation.
func answersJSON(data string) func(*domain.Run) {
	return func(run *domain.Run) {
		run.Message, run.Output = &data, &domain.Output{Message: data, Data: json.RawMessage(data)}
		run.Citations = []domain.Citation{{ID: 1, Type: "web", Title: "Lamps", URL: "https://example.com", CitedText: "7", StartIndex: 24, EndIndex: 25, Path: "/watts"}}
	}
}

// mismatches gives a run the result of a worker: an answer that does not match its schema.
func mismatches(run *domain.Run) {
	run.Status, run.Error = domain.RunFailed, &domain.RunError{
		Code: "output_invalid", Message: "The answer does not match the output schema: /watts: got string, want integer.",
		Errors: []domain.OutputMismatch{{Path: "/watts", Message: "got string, want integer"}},
	}
}

// newOutputEnv returns an environment with an organization, an agent, and a worker that answers in
// JSON. The answer to the message "fail" does not match the schema.
func newOutputEnv(t *testing.T) (a *runEnv, h *testOrg, agentID string) {
	t.Helper()
	a = newWaitingRunEnv(t, unlimited)
	h = a.newTestOrg("home")
	a.startWorker(func(runID, message string) {
		if message == "fail" {
			a.end(runID, mismatches)
			return
		}
		a.endAfter(runID, `message.delta {"text":"{\"name\":\"Luna\",\"watts\":7}"}`+"\n"+`output.delta {"data":{"name":"Luna","watts":7}}`+"\n",
			answersJSON(`{"name":"Luna","watts":7}`))
	})
	return a, h, a.newAgent(h)
}

// callInput returns the stored input of a run.
func (a *runEnv) callInput(runID string) (in domain.Input) {
	a.t.Helper()
	var raw []byte
	must(a.t, a.sql.QueryRowContext(a.t.Context(), `SELECT input FROM runs WHERE id = $1`, runID).Scan(&raw))
	must(a.t, json.Unmarshal(raw, &in))
	return in
}

// TestAnswersMatchASchema requests JSON answers at every endpoint that runs agents.
func TestAnswersMatchASchema(t *testing.T) {
	t.Parallel()
	a, h, agentID := newOutputEnv(t)
	output := `,"output":{"schema":` + lampSchema + `}`
	chat, trigger := "/api/agents?action=chat&id="+agentID, "/api/internal/run-automation"
	v1 := `{"model":"` + agentID + `",`
	format := `"json_schema","json_schema":{"name":"lamp","strict":true,"schema":` + lampSchema + `}`
	textFormat := `"text":{"format":{"type":"json_schema","name":"lamp","strict":true,"schema":` + lampSchema + `}}`
	for name, c := range map[string]struct{ path, body, want string }{
		"chat":            {chat, `{"sessionId":"s","message":"m"` + output + `}`, `"data":{"name":"Luna","watts":7}`},
		"chat, streamed":  {chat, `{"sessionId":"s","message":"m","stream":true` + output + `}`, `","data":{"name":"Luna","watts":7}}`},
		"in AI SDK":       {chat + "&format=ai-sdk", `{"sessionId":"s","message":"m"` + output + `}`, `{"type":"data-output","id":"run_`},
		"in AG-UI":        {chat + "&format=ag-ui", `{"sessionId":"s","message":"m"` + output + `}`, `{"type":"CUSTOM","name":"output","value":{"runId":"run_`},
		"AI SDK's body":   {chat + "&format=ai-sdk", `{"id":"sdk","messages":[{"id":"1","role":"user","parts":[{"type":"text","text":"m"}]}]` + output + `}`, `{"type":"data-output","id":"run_`},
		"AG-UI's body":    {chat + "&format=ag-ui", `{"threadId":"agui","runId":"r","messages":[{"id":"1","role":"user","content":"m"}]` + output + `}`, `{"type":"CUSTOM","name":"output","value":{"runId":"run_`},
		"trigger":         {trigger, `{"target":"` + agentID + `","input":{"message":"m"}` + output + `}`, `"path":"/watts"`},
		"completions":     {"/v1/chat/completions", v1 + `"messages":[{"role":"user","content":"m"}],"response_format":{"type":` + format + `}}`, `"content":"{\"name\":\"Luna\",\"watts\":7}"`},
		"streamed":        {"/v1/chat/completions", v1 + `"stream":true,"messages":[{"role":"user","content":"m"}],"response_format":{"type":` + format + `}}`, `"content":"{\"name\":\"Luna\",\"watts\":7}"`},
		"with sources":    {"/v1/chat/completions", v1 + `"metadata":{"append_sources":"true"},"messages":[{"role":"user","content":"m"}],"response_format":{"type":` + format + `}}`, `"content":"{\"name\":\"Luna\",\"watts\":7}"`},
		"responses":       {"/v1/responses", v1 + `"input":"m",` + textFormat + `}`, `"text":{"format":{"type":"json_schema","name":"lamp","schema":{"type":"object"`},
		"response events": {"/v1/responses", v1 + `"stream":true,"input":"m",` + textFormat + `}`, `"text":"{\"name\":\"Luna\",\"watts\":7}"`},
	} {
		got := a.from("POST", c.path, c.body, h.key).want(t, name, 200, "")
		if !strings.Contains(string(got.body), c.want) {
			t.Errorf("%s: %s", name, got.body)
		}
		if strings.HasPrefix(c.path, "/v1/responses") && strings.Contains(name, "events") {
			continue
		}
		runID := got.header.Get("X-Parley-Run-Id")
		if runID == "" {
			runID = strings.TrimPrefix(got.header.Get("Location"), "/api/runs?id=")
		}
		if runID == "" {
			runID = got.text(t, "id")
		}
		if in := a.callInput(runID); in.Output == nil || string(in.Output.Schema) != lampSchema {
			t.Errorf("%s: the input is %+v", name, in)
		}
	}

	// A response that is read later contains the requested format, too.
	made := a.from("POST", "/v1/responses", v1+`"input":"m",`+textFormat+`}`, h.key)
	if again := a.from("GET", "/v1/responses/"+made.text(t, "id"), "", h.key); !strings.Contains(string(again.body), `"name":"lamp"`) {
		t.Errorf("read later: %s", again.body)
	}
	object := a.from("POST", "/v1/chat/completions", v1+`"messages":[{"role":"user","content":"m"}],"response_format":{"type":"json_object"}}`, h.key)
	if in := a.callInput(object.header.Get("X-Parley-Run-Id")); string(in.Output.Schema) != `{"type":"object"}` {
		t.Errorf("json_object: %+v", in)
	}
}

// TestAnAnswerThatMatchesNoSchema checks, at every endpoint that runs agents, that the error lists
// the paths of the mismatches.
func TestAnAnswerThatMatchesNoSchema(t *testing.T) {
	t.Parallel()
	a, h, agentID := newOutputEnv(t)
	chat := a.from("POST", "/api/agents?action=chat&id="+agentID, `{"sessionId":"s","message":"fail","output":{"schema":`+lampSchema+`}}`, h.key).want(t, "chat", 200, "")
	if chat.text(t, "status") != "failed" || chat.text(t, "error.code") != "output_invalid" || chat.text(t, "error.errors.0.path") != "/watts" {
		t.Errorf("chat: %s", chat.body)
	}
	v1 := `{"model":"` + agentID + `",`
	for path, body := range map[string]string{
		"/v1/chat/completions": v1 + `"messages":[{"role":"user","content":"fail"}],"response_format":{"type":"json_object"}}`,
		"/v1/responses":        v1 + `"input":"fail","text":{"format":{"type":"json_object"}}}`,
	} {
		got := a.from("POST", path, body, h.key)
		if !strings.Contains(string(got.body), `"code":"output_invalid"`) || !strings.Contains(string(got.body), "/watts: got string") ||
			strings.HasSuffix(path, "completions") && (got.status != 400 || !strings.Contains(string(got.body), "run_error")) {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
}

// TestFaultsOfSchemasNameTheirField sends invalid schemas. The error names the field.
func TestFaultsOfSchemasNameTheirField(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	agentID := a.newAgent(h)
	hook := strings.TrimSuffix(hookBody(agentID, "github", `"keyId":"`+h.keyID+`"`), "}")
	for _, schema := range []string{
		`[]`, `7`, `{"type":"strin"}`, `{"$ref":"https://example.com/x"}`, `{"$ref":"#/$defs/x"}`, `{"$ref":"#"}`, `{"type":"string","pattern":"("}`,
		`{"description":"` + strings.Repeat("x", 64<<10) + `"}`, nestedSchema(17),
	} {
		for _, c := range []struct{ method, path, body, field string }{
			{"POST", "/api/agents?action=chat&id=" + agentID, `{"sessionId":"s","message":"m","output":{"schema":` + schema + `}}`, "output.schema"},
			{"POST", "/api/internal/run-automation", `{"target":"` + agentID + `","input":{"message":"m"},"output":{"schema":` + schema + `}}`, "output.schema"},
			{"POST", "/api/agents", `{"name":"n","systemPrompt":"p","outputSchema":` + schema + `}`, "outputSchema"},
			{"PUT", "/api/agents?id=" + agentID, `{"outputSchema":` + schema + `}`, "outputSchema"},
			{"POST", "/api/hooks", hook + `,"outputSchema":` + schema + `}`, "outputSchema"},
		} {
			a.from(c.method, c.path, c.body, h.key).want(t, c.path+" "+schema[:min(len(schema), 40)], 400, "invalid_request "+c.field+":invalid_value")
		}
	}
	for body, field := range map[string]string{
		`{}`: "output.schema:required", `{"schema":null}`: "output.schema:invalid_value", `7`: "output:invalid_type",
		`{"schema":{},"strict":true}`: "output.strict:unknown_field",
	} {
		a.from("POST", "/api/agents?action=chat&id="+agentID, `{"sessionId":"s","message":"m","output":`+body+`}`, h.key).want(t, body, 400, "invalid_request "+field)
	}
}

// nestedSchema returns a schema of an object with the given number of levels.
func nestedSchema(levels int) string {
	return strings.Repeat(`{"type":"object","properties":{"a":`, levels-1) + `{"type":"object"}` + strings.Repeat(`}}`, levels-1)
}

// TestNestedSchemas sends a schema with the maximum number of levels to every endpoint that accepts
// a schema.
func TestNestedSchemas(t *testing.T) {
	t.Parallel()
	a, h, agentID := newOutputEnv(t)
	schema, v1 := nestedSchema(16), `{"model":"`+agentID+`",`
	hook := strings.TrimSuffix(hookBody(agentID, "github", `"keyId":"`+h.keyID+`"`), "}")
	for _, c := range []struct {
		path, body string
		status     int
	}{
		{"/api/agents?action=chat&id=" + agentID, `{"sessionId":"s","message":"m","output":{"schema":` + schema + `}}`, 200},
		{"/api/internal/run-automation", `{"target":"` + agentID + `","input":{"message":"m"},"output":{"schema":` + schema + `}}`, 200},
		{"/v1/chat/completions", v1 + `"messages":[{"role":"user","content":"m"}],"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":` + schema + `}}}`, 200},
		{"/v1/responses", v1 + `"input":"m","text":{"format":{"type":"json_schema","name":"n","schema":` + schema + `}}}`, 200},
		{"/api/agents", `{"name":"n","systemPrompt":"p","outputSchema":` + schema + `}`, 201},
		{"/api/hooks", hook + `,"outputSchema":` + schema + `}`, 201},
	} {
		a.from("POST", c.path, c.body, h.key).want(t, c.path, c.status, "")
	}
}

// TestAgentsAndHooksHaveSchemas stores, reads, changes and removes the schemas of an agent and of a
// hook.
func TestAgentsAndHooksHaveSchemas(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	agent := a.ok("POST", "/api/agents", `{"name":"n","systemPrompt":"p","allowedCallers":["system"],"outputSchema":`+lampSchema+`}`, h.key)
	agentID := agent.text(t, "id")
	hook := a.ok("POST", "/api/hooks", strings.TrimSuffix(hookBody(agentID, "github", `"keyId":"`+h.keyID+`"`), "}")+`,"outputSchema":`+lampSchema+`}`, h.key)
	// The run of a delivery gets the schema of the hook.
	delivered := a.deliver(hook.text(t, "id"), "github", "d1", "push", `{"a":"⟧{{b}}"}`).want(t, "delivered", 202, "")
	if in := a.callInput(delivered.text(t, "runId")); in.Output == nil || string(in.Output.Schema) != lampSchema {
		t.Errorf("the input of a delivery's run is %+v", in)
	}

	for _, path := range []string{"/api/agents?id=" + agentID, "/api/hooks?id=" + hook.text(t, "id")} {
		read := a.ok("GET", path, "", h.key)
		if read.text(t, "outputSchema.properties.watts.type") != "integer" {
			t.Errorf("%s: %s", path, read.body)
		}
		if kept := a.ok("PUT", path, `{"name":"other"}`, h.key); kept.text(t, "outputSchema.type") != "object" {
			t.Errorf("%s, after a change of the name: %s", path, kept.body)
		}
		if again := a.ok("PUT", path, string(a.ok("GET", path, "", h.key).body), h.key); again.text(t, "outputSchema.type") != "object" {
			t.Errorf("%s, sent back as it was read: %s", path, again.body)
		}
		if removed := a.ok("PUT", path, `{"outputSchema":null}`, h.key); removed.json(t, "outputSchema") != nil {
			t.Errorf("%s, removed: %s", path, removed.body)
		}
		if kept := a.ok("PUT", path, `{"name":"third"}`, h.key); kept.json(t, "outputSchema") != nil {
			t.Errorf("%s, after the removal: %s", path, kept.body)
		}
	}

	// The stored configuration contains no schema, and in particular not null as the schema.
	var config string
	must(t, a.sql.QueryRowContext(t.Context(), `SELECT config FROM agent_configs WHERE target_id = $1 ORDER BY version DESC LIMIT 1`, agentID).Scan(&config))
	if strings.Contains(config, "outputSchema") {
		t.Errorf("configuration %s", config)
	}
}

// TestToolsHaveTheSchemasOfTheirAgents calls an agent that has a schema through MCP.
func TestToolsHaveTheSchemasOfTheirAgents(t *testing.T) {
	t.Parallel()
	a, h, agentID := newOutputEnv(t)
	a.ok("PUT", "/api/agents?id="+agentID, `{"name":"lamps","outputSchema":`+lampSchema+`}`, h.key)
	session := a.toolClient(h.key)
	tool := toolFor(t, session, "lamps")
	shown, err := json.Marshal(tool.OutputSchema)
	must(t, err)
	if !strings.Contains(string(shown), `"watts":{"type":"integer"}`) {
		t.Errorf("schema %s", shown)
	}
	result := call(t, session, &mcp.CallToolParams{Name: tool.Name, Arguments: map[string]any{"message": "m"}})
	fields, _ := result.StructuredContent.(map[string]any)
	data, _ := fields["data"].(map[string]any)
	if data["watts"] != 7.0 || result.IsError {
		t.Errorf("result %+v", fields)
	}
}

// TestOutputNull requests text from an agent that has a schema.
func TestOutputNull(t *testing.T) {
	t.Parallel()
	a, h, agentID := newOutputEnv(t)
	for name, c := range map[string]struct{ path, body string }{
		"chat":    {"/api/agents?action=chat&id=" + agentID, `{"sessionId":"s","message":"m","output":null}`},
		"trigger": {"/api/internal/run-automation", `{"target":"` + agentID + `","input":{"message":"m"},"output":null}`},
	} {
		got := a.from("POST", c.path, c.body, h.key).want(t, name, 200, "")
		if in := a.callInput(got.text(t, "id")); in.Output == nil || in.Output.Schema != nil {
			t.Errorf("%s: the input is %+v", name, in)
		}
	}

	// A request with output null differs from a request without output, so the two cannot have the
	// same idempotency key.
	key := "Idempotency-Key: one"
	chat := "/api/agents?action=chat&id=" + agentID
	a.from("POST", chat, `{"sessionId":"s","message":"m","output":null}`, h.key, key).want(t, "null", 200, "")
	a.from("POST", chat, `{"sessionId":"s","message":"m","output":null}`, h.key, key).want(t, "null again", 200, "")
	a.from("POST", chat, `{"sessionId":"s","message":"m"}`, h.key, key).want(t, "without output", 422, "idempotency_key_reused")
}

// A schema may name an older draft of JSON Schema, in every field that contains a schema. The error
// for an unknown dialect names the field and the keyword.
func TestDialectsOfSchemas(t *testing.T) {
	t.Parallel()
	a, h, agentID := newOutputEnv(t)
	v1 := `{"model":"` + agentID + `",`
	for name, c := range map[string]struct{ method, path, body, field string }{
		"chat":    {"POST", "/api/agents?action=chat&id=" + agentID, `{"sessionId":"s","message":"m","output":{"schema":%}}`, "output.schema:invalid_value"},
		"trigger": {"POST", "/api/internal/run-automation", `{"target":"` + agentID + `","input":{"message":"m"},"output":{"schema":%}}`, "output.schema:invalid_value"},
		"agent":   {"PUT", "/api/agents?id=" + agentID, `{"outputSchema":%}`, "outputSchema:invalid_value"},
		"completion": {
			"POST", "/v1/chat/completions", v1 + `"messages":[{"role":"user","content":"m"}],"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":%}}}`,
			"response_format.json_schema.schema",
		},
		"response": {"POST", "/v1/responses", v1 + `"input":"m","text":{"format":{"type":"json_schema","name":"n","schema":%}}}`, "text.format.schema"},
	} {
		with := func(dialect string) string {
			return strings.Replace(c.body, "%", `{"$schema":"`+dialect+`",`+lampSchema[1:], 1)
		}
		for _, dialect := range []string{
			"http://json-schema.org/draft-04/schema#", "http://json-schema.org/draft-06/schema#", "http://json-schema.org/draft-07/schema#",
			"http://json-schema.org/draft-07/schema", "https://json-schema.org/draft/2019-09/schema", "https://json-schema.org/draft/2020-12/schema",
		} {
			a.from(c.method, c.path, with(dialect), h.key).want(t, name+", "+dialect, 200, "")
		}
		for _, dialect := range []string{"http://json-schema.org/draft-03/schema#", "https://example.com/own"} {
			got := a.from(c.method, c.path, with(dialect), h.key).want(t, name+", "+dialect, 400, "invalid_request "+c.field)
			if !strings.Contains(string(got.body), "/$schema: unknown dialect; supported are the drafts 04, 06, 07, 2019-09 and 2020-12") {
				t.Errorf("%s: %s", name, got.body)
			}
		}
	}
}
