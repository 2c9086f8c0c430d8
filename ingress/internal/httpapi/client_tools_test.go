package httpapi

import (
	"encoding/json"
	"strings"
	"testing"

	"parley/ingress/internal/openaiapi"
	"parley/shared/domain"
)

// storedInput returns the input that is stored for a run.
func (a *runEnv) storedInput(runID string) (in domain.Input) {
	a.t.Helper()
	var raw []byte
	must(a.t, a.sql.QueryRowContext(a.t.Context(), `SELECT input FROM runs WHERE id = $1`, runID).Scan(&raw))
	must(a.t, json.Unmarshal(raw, &in))
	return in
}

const chatTools = `"tools":[{"name":"weather","description":"Looks out.","inputSchema":{"type":"object","properties":{"city":{"type":"string"}}}},{"name":"clock"}]`

// Requests for chats and automations may contain tools. The run waits until the client sends all
// results in one request.
func TestToolsOfTheClient(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	agentID := a.newAgent(h)
	a.ok("PUT", "/api/agents?id="+agentID, `{"allowedCallers":["user","system"]}`, h.key)
	chat := a.ok("POST", "/api/agents?action=chat&id="+agentID, `{"sessionId":"s","message":"m",`+chatTools+`}`, h.key, "Prefer: respond-async")
	trigger := a.ok("POST", "/api/internal/run-automation", `{"target":"`+agentID+`","input":{"message":"m"},`+chatTools+`}`, h.key, "Prefer: respond-async")
	for name, runID := range map[string]string{"chat": chat.text(t, "id"), "trigger": trigger.text(t, "id")} {
		tools := a.storedInput(runID).ClientTools
		if tools == nil || len(tools.Tools) != 2 || tools.Return || tools.Tools[0].Description != "Looks out." ||
			string(tools.Tools[1].InputSchema) != `{"type":"object","properties":{}}` {
			t.Errorf("%s: the worker reads %+v", name, tools)
		}
	}

	runID := chat.text(t, "id")
	results := func(body, problem string, status int) answer {
		t.Helper()
		return a.from("POST", "/api/runs?id="+runID+"&action=tool-results", body, h.key).want(t, body, status, problem)
	}
	const one = `{"results":[{"toolCallId":"call_1","output":{"degrees":7}}]}`
	results(one, "invalid_request results[0].toolCallId:invalid_value", 400)
	a.park(runID, "weather", domain.ActionClientTools)
	waits := a.ok("GET", "/api/runs?id="+runID, "", h.key)
	want := `"requiredAction":{"kind":"client_tools","calls":[{"toolCallId":"call_1","name":"weather","input":{"weather":"weather"}}],"expiresAt":"`
	if !strings.Contains(string(waits.body), want) || waits.text(t, "status") != "requires_action" {
		t.Errorf("the run is %s", waits.body)
	}
	if list := a.ok("GET", "/api/runs?status=requires_action", "", h.key); !strings.Contains(string(list.body), want) {
		t.Errorf("the list is %s", list.body)
	}

	decision := a.newChat(h, agentID, "decision", h.key)
	a.park(decision, "publish", domain.ActionApproval)
	for query, want := range map[string]any{
		"waitsFor=client": runID, "waitsFor=client&status=requires_action": runID, "waitsFor=client&status=failed": nil, "waitsFor=person": decision,
	} {
		list := a.ok("GET", "/api/runs?"+query, "", h.key)
		if list.json(t, "data.0.id") != want || list.json(t, "data.1") != nil {
			t.Errorf("%s: %s", query, list.body)
		}
	}
	a.from("GET", "/api/runs?waitsFor=nobody", "", h.key).want(t, "an unknown wait", 400, "invalid_request waitsFor:invalid_value")
	a.from("GET", "/api/runs?waitsFor=person&q=m", "", h.key).want(t, "a wait and words", 400, "invalid_request waitsFor:invalid_value")
	for body, problem := range map[string]string{
		``:                 "invalid_request body:required",
		`{}`:               "invalid_request results:required",
		`{"results":[]}`:   "invalid_request results:too_short",
		`{"results":[{}]}`: "invalid_request results[0].toolCallId:required results[0].output:required",
		`{"results":[{"toolCallId":"call_2","output":1}]}`:                                                         "invalid_request results[0].toolCallId:invalid_value",
		`{"results":[{"toolCallId":"call_1","output":1},{"toolCallId":"call_2","output":1}]}`:                      "invalid_request results[1].toolCallId:invalid_value",
		`{"results":[{"toolCallId":"call_1","output":1},{"toolCallId":"call_1","output":1}]}`:                      "invalid_request results[1].toolCallId:duplicate",
		`{"results":[{"toolCallId":"call_1","output":1}],"x":1}`:                                                   "invalid_request x:unknown_field",
		`{"results":[` + strings.Repeat(`{"toolCallId":"c","output":1},`, 128) + `{"toolCallId":"c","output":1}]}`: "",
	} {
		got := a.from("POST", "/api/runs?id="+runID+"&action=tool-results", body, h.key)
		if problem == "" {
			if got.status != 400 || !strings.Contains(string(got.body), `"results"`) {
				t.Errorf("too many results: %d %s", got.status, got.body)
			}
			continue
		}
		got.want(t, body, 400, problem)
	}
	a.decide(runID, "approve", "call_1", h.key).want(t, "approving", 400, "invalid_request toolCallId:invalid_value")

	first := results(one, "", 200)
	if again := results(one, "", 200); first.text(t, "status") != "queued" || string(again.body) != string(first.body) {
		t.Errorf("%s, and again %s", first.body, again.body)
	}
	results(`{"results":[{"toolCallId":"call_1","output":{"degrees":8}}]}`, "version_conflict", 409)
	a.finish("7 degrees", runID)
	if again := results(one, "", 200); again.text(t, "status") != "completed" {
		t.Errorf("after the end: %s", again.body)
	}
	results(`{"results":[{"toolCallId":"call_1","output":1,"isError":true}]}`, "version_conflict", 409)
}

// In every API, the error for an invalid tool names the field of the tool.
func TestInvalidToolsOfTheClient(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	agentID := a.newAgent(h)
	a.ok("PUT", "/api/agents?id="+agentID, `{"tools":{"webSearch":{"enabled":true},"httpRequest":{"enabled":true,"endpoints":[{"name":"order","method":"GET","url":"https://example.com/"}]}}}`, h.key)
	many := strings.TrimSuffix(strings.Repeat(`{"name":"n"},`, 129), ",")
	for tools, want := range map[string]string{
		`[{}]`:             "name:required",
		`[{"name":"a b"}]`: "name:invalid_value",
		`[{"name":"` + strings.Repeat("n", 65) + `"}]`:                            "name:invalid_value",
		`[{"name":"none"}]`:                                                       "name:invalid_value",
		`[{"name":"write_final_answer"}]`:                                         "name:invalid_value",
		`[{"name":"webSearch"}]`:                                                  "name:conflict",
		`[{"name":"order"}]`:                                                      "name:conflict",
		`[{"name":"f","description":"` + strings.Repeat("d", 4097) + `"}]`:        "description:too_long",
		`[{"name":"f","inputSchema":{"type":"string"}}]`:                          "inputSchema:invalid_value",
		`[{"name":"f","inputSchema":{"type":"object","$ref":"https://x.test/"}}]`: "inputSchema:invalid_value",
		`[{"name":"f","inputSchema":{"type":"objekt"}}]`:                          "inputSchema:invalid_value",
		`[` + many + `]`:                                                          "",
	} {
		got := a.from("POST", "/api/agents?action=chat&id="+agentID, `{"sessionId":"s","message":"m","tools":`+tools+`}`, h.key)
		if want == "" {
			got.want(t, "many tools", 400, "invalid_request tools:too_long")
			continue
		}
		got.want(t, tools, 400, "invalid_request tools[0]."+want)
	}
	a.from("POST", "/api/agents?action=chat&id="+agentID, `{"sessionId":"s","message":"m","tools":[{"name":"f"},{"name":"f"}]}`, h.key).
		want(t, "a name twice", 400, "invalid_request tools[1].name:duplicate")

	message := `"messages":[{"role":"user","content":"m"}],"tools":[{"type":"function",`
	for body, want := range map[string]string{
		message + `"function":{}}]`:                                                                     "invalid_request tools[0].function.name",
		message + `"function":{"name":"order"}}]`:                                                       "invalid_request tools[0].function.name",
		message + `"function":{"name":"f","parameters":{"type":"array"}}}]`:                             "invalid_request tools[0].function.parameters",
		message + `"function":{"name":"f"}}],"tool_choice":{"type":"function","function":{"name":"g"}}`: "invalid_request tool_choice",
	} {
		a.from("POST", "/v1/chat/completions", `{"model":"`+agentID+`",`+body+`}`, h.key).want(t, body, 400, want)
	}
	a.from("POST", "/v1/responses", `{"model":"`+agentID+`","input":"m","tools":[{"type":"function","name":"webSearch"}]}`, h.key).
		want(t, "a taken name", 400, "invalid_request tools[0].name")
	a.from("POST", "/api/agents?action=chat&template=tpl_support", `{"sessionId":"s","message":"m","tools":[{"name":"f"}]}`, "x-tenant-id: tenant_demo").
		want(t, "a visitor", 400, "invalid_request tools:invalid_value")
}

// callsWeather returns a function that changes a run as a worker would: the run gets a call of one
// of the agent's tools, and then a call of one of the client's tools.
func callsWeather(runID string) func(*domain.Run) {
	return func(run *domain.Run) {
		run.Message, run.Output, run.FinishReason = new(""), &domain.Output{}, new(domain.FinishToolCalls)
		run.ToolCalls = []domain.ToolCall{
			{ID: "own", Name: "order", Status: "completed", Input: json.RawMessage(`{}`), Output: json.RawMessage(`1`)},
			{ID: domain.ClientCallPrefix(runID) + "1", Name: "weather", Status: domain.CallPending, Input: json.RawMessage(`{"city":"Bern"}`), Client: true},
		}
	}
}

// In /v1/chat/completions, a call of the client's tool finishes the run. The next request contains
// the call and the call's result. The run of this request continues the finished run.
func TestFunctionsOfACompletion(t *testing.T) {
	t.Parallel()
	a := newWaitingRunEnv(t, unlimited)
	h := a.newTestOrg("home")
	agentID := a.newAgent(h)
	first := true
	a.startWorker(func(runID, _ string) {
		if !first {
			a.end(runID, answers("7 degrees"))
			return
		}
		first = false
		a.end(runID, callsWeather(runID))
	})
	tools := `"tools":[{"type":"function","function":{"name":"weather","parameters":{"type":"object"}}}],"tool_choice":"required"`
	got := a.ok("POST", "/v1/chat/completions", `{"model":"`+agentID+`","messages":[{"role":"user","content":"Weather?"}],`+tools+`}`, h.key)
	if got.text(t, "choices.0.finish_reason") != "tool_calls" || got.json(t, "choices.0.message.content") != nil {
		t.Fatalf("%s", got.body)
	}
	callID, runID := got.text(t, "choices.0.message.tool_calls.0.id"), got.text(t, "parley.runId")
	if shown := a.ok("GET", "/api/runs?timeline=1&id="+runID, "", h.key); shown.text(t, "input.clientTools.choice") != "required" ||
		shown.text(t, "input.clientTools.tools.0.name") != "weather" {
		t.Errorf("timeline: %s", shown.body)
	}
	if in := a.storedInput(runID); !in.ClientTools.Return || in.ClientTools.Choice != "required" {
		t.Errorf("the worker reads %+v", in.ClientTools)
	}

	call := `{"role":"assistant","content":null,"tool_calls":[{"id":"` + callID + `","type":"function","function":{"name":"weather","arguments":"{\"city\":\"Bern\"}"}}]}`
	other := strings.ReplaceAll(call, callID, "call_x")
	result := func(id string) string {
		return `{"role":"tool","tool_call_id":"` + id + `","content":"{\"degrees\":7}"}`
	}
	messages := `{"role":"user","content":"Before?"},` + other + `,` + result("call_x") + `,{"role":"assistant","content":"Fine."},{"role":"user","content":"Weather?"},` + call
	got = a.ok("POST", "/v1/chat/completions", `{"model":"`+agentID+`","messages":[`+messages+`,`+result(callID)+`]}`, h.key)
	if got.text(t, "choices.0.message.content") != "7 degrees" {
		t.Errorf("%s", got.body)
	}
	shown := a.ok("GET", "/api/runs?timeline=1&id="+got.text(t, "parley.runId"), "", h.key)
	if shown.text(t, "input.history.0.rounds.0.calls.0.toolCallId") != "call_x" || shown.json(t, "input.history.0.rounds.0.runId") != nil ||
		shown.text(t, "input.history.1.rounds.0.runId") != runID || shown.json(t, "input.history.1.rounds.0.results.0.output.degrees") == nil {
		t.Errorf("timeline: %s", shown.body)
	}
	in := a.storedInput(got.text(t, "parley.runId"))
	earlier, open := in.OpenRounds()
	if in.Message != "Weather?" || len(earlier) != 1 || len(open) != 1 || earlier[0].Answer != "Fine." || earlier[0].Rounds[0].RunID != "" ||
		open[0].RunID != runID || string(open[0].Results[0].Output) != `{"degrees":7}` {
		t.Errorf("the worker reads %+v", in)
	}

	for name, tt := range map[string]struct{ messages, param string }{
		"no result":          {messages, "messages[5].tool_calls"},
		"another result":     {messages + "," + result("call_y"), "messages[6].tool_call_id"},
		"a result too early": {`{"role":"user","content":"m"},` + result(callID), "messages[1].tool_call_id"},
	} {
		a.from("POST", "/v1/chat/completions", `{"model":"`+agentID+`","messages":[`+tt.messages+`]}`, h.key).want(t, name, 400, "invalid_request "+tt.param)
	}

	// A request of another caller or to another agent cannot refer to the finished run.
	body := `{"model":"%","messages":[{"role":"user","content":"Weather?"},` + call + `,` + result(callID) + `]}`
	for name, got := range map[string]answer{
		"another caller": a.ok("POST", "/v1/chat/completions", strings.ReplaceAll(body, "%", agentID), h.member.auth, h.header),
		"another agent":  a.ok("POST", "/v1/chat/completions", strings.ReplaceAll(body, "%", a.newAgent(h)), h.key),
	} {
		in := a.storedInput(got.text(t, "parley.runId"))
		if _, open := in.OpenRounds(); len(open) != 1 || open[0].RunID != "" {
			t.Errorf("%s: %+v", name, open)
		}
	}
}

// A request to /v1/responses may contain tool results together with their calls, with references to
// the calls, or with only the id of the previous response.
func TestFunctionsOfAResponse(t *testing.T) {
	t.Parallel()
	a := newWaitingRunEnv(t, unlimited)
	h := a.newTestOrg("home")
	agentID := a.newAgent(h)
	a.startWorker(func(runID, message string) {
		if message == "Weather?" && a.storedInput(runID).History == nil {
			a.end(runID, callsWeather(runID))
			return
		}
		a.end(runID, answers("7 degrees"))
	})
	got := a.ok("POST", "/v1/responses", `{"model":"`+agentID+`","input":"Weather?","tools":[{"type":"function","name":"weather"}]}`, h.key)
	callID, itemID, previous := got.text(t, "output.1.call_id"), got.text(t, "output.1.id"), got.text(t, "id")
	if got.text(t, "status") != "completed" || got.text(t, "output.1.type") != "function_call" || got.json(t, "output.2") != nil {
		t.Fatalf("%s", got.body)
	}
	runID := runFor(previous)

	output := `{"type":"function_call_output","call_id":"` + callID + `","output":"warm"}`
	ask := func(items, more string) string {
		return `{"model":"` + agentID + `","input":[` + items + `]` + more + `}`
	}
	continued := `,"previous_response_id":"` + previous + `"`
	for name, body := range map[string]string{
		"the previous response": ask(output, continued),
		"with its call":         ask(`{"role":"user","content":"Weather?"},{"type":"function_call","id":"`+itemID+`","call_id":"`+callID+`","name":"weather","arguments":"{\"city\":\"Bern\"}","status":"completed"},`+output, ""),
		"a reference":           ask(`{"role":"user","content":"Weather?"},{"type":"item_reference","id":"`+itemID+`"},`+output, ""),
		"text after its call":   ask(`{"role":"user","content":"Weather?"},{"type":"function_call","call_id":"`+callID+`","name":"weather","arguments":"{\"city\":\"Bern\"}"},{"role":"assistant","content":"Let me look."},`+output, ""),
	} {
		got := a.from("POST", "/v1/responses", body, h.key).want(t, name, 200, "")
		in := a.storedInput(runFor(got.text(t, "id")))
		_, open := in.OpenRounds()
		if in.Message != "Weather?" || len(open) != 1 || open[0].RunID != runID || open[0].Calls[0].Name != "weather" ||
			string(open[0].Calls[0].Input) != `{"city":"Bern"}` || string(open[0].Results[0].Output) != `"warm"` {
			t.Errorf("%s: the worker reads %+v", name, in)
		}
	}

	got = a.ok("POST", "/v1/responses", ask(output+`,{"role":"user","content":"And now?"}`, continued), h.key)
	in := a.storedInput(runFor(got.text(t, "id")))
	if in.Message != "And now?" || len(in.History) != 1 || in.History[0].Message != "Weather?" || in.History[0].Rounds[0].RunID != runID {
		t.Errorf("with a message: the worker reads %+v", in)
	}
	for name, tt := range map[string]struct{ body, problem string }{
		"no result":           {ask(`{"role":"user","content":"m"}`, continued), "invalid_request input"},
		"no call":             {ask(strings.ReplaceAll(output, callID, "call_x"), continued), "invalid_request input[0].call_id"},
		"a result twice":      {ask(output+","+output, continued), "invalid_request input[1].call_id"},
		"another session":     {ask(output, `,"conversation":"c"`), "invalid_request input[0].call_id"},
		"an unknown item":     {ask(`{"role":"user","content":"m"},{"type":"item_reference","id":"`+itemID+`0"},`+strings.ReplaceAll(output, callID, callID+"0"), ""), "item_not_found input"},
		"a call without name": {ask(`{"role":"user","content":"m"},{"type":"function_call","call_id":"c"},{"type":"function_call_output","call_id":"c","output":""}`, ""), "invalid_request input[1].name"},
	} {
		a.from("POST", "/v1/responses", tt.body, h.key).want(t, name, 400, tt.problem)
	}
	a.from("POST", "/v1/responses", ask(output, continued), h.member.auth, h.header).want(t, "another caller", 400, "invalid_request previous_response_id")
	if got := openaiapi.ResponseID(runID); got != previous {
		t.Errorf("%s is the response of %s", got, runID)
	}
}

// The tools of a request are part of its idempotency fingerprint, in every API. A retry may write
// the JSON of the same tools in another form.
func TestToolsAreInTheFingerprint(t *testing.T) {
	t.Parallel()
	a := newWaitingRunEnv(t, unlimited)
	h := a.newTestOrg("home")
	agentID := a.newAgent(h)
	a.ok("PUT", "/api/agents?id="+agentID, `{"allowedCallers":["user","system"]}`, h.key)
	a.startWorker(func(runID, _ string) { a.end(runID, answers("fine")) })

	const (
		tools   = `[{"name":"weather","description":"Looks out.","#":{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"}}}},{"name":"clock"}]`
		rewrite = `[ {"#":{"properties":{"days":{"type":"integer"},"city":{"type":"string"}},"type":"object"}, "name":"weather", "description":"Looks out\u002e"}, {"name":"clock"} ]`
	)
	others := map[string]string{
		"another name":        strings.Replace(tools, "clock", "watch", 1),
		"another description": strings.Replace(tools, "out.", "in.", 1),
		"another schema":      strings.Replace(tools, "integer", "number", 1),
		"another order":       `[{"name":"clock"},` + strings.TrimSuffix(strings.TrimPrefix(tools, "["), `,{"name":"clock"}]`) + `]`,
		"a tool less":         strings.Replace(tools, `,{"name":"clock"}`, "", 1),
		"no tools":            `[]`,
	}

	// The descriptions of tools have the form of Parley's own API, except that # stands for the
	// name of the field that contains the schema.
	native := func(tools string) string { return strings.ReplaceAll(tools, `"#"`, `"inputSchema"`) }
	functions := func(tools, function string) string {
		var list []map[string]json.RawMessage
		must(t, json.Unmarshal([]byte(strings.ReplaceAll(tools, `"#"`, `"parameters"`)), &list))
		out := make([]string, len(list))
		for i, tool := range list {
			fields := ""
			for name, value := range tool { // in a random order
				fields += `,"` + name + `":` + string(value)
			}
			out[i] = strings.Replace(function, "#", strings.TrimPrefix(fields, ","), 1)
		}
		return "[" + strings.Join(out, ",") + "]"
	}
	for name, api := range map[string]struct {
		path string
		body func(tools string) string
	}{
		"chat": {"/api/agents?action=chat&id=" + agentID, func(tools string) string {
			return `{"sessionId":"s","message":"m","tools":` + native(tools) + `}`
		}},
		"trigger": {"/api/internal/run-automation", func(tools string) string {
			return `{"target":"` + agentID + `","input":{"message":"m"},"tools":` + native(tools) + `}`
		}},
		"completion": {"/v1/chat/completions", func(tools string) string {
			return `{"model":"` + agentID + `","messages":[{"role":"user","content":"m"}],"tools":` +
				functions(tools, `{"type":"function","function":{#}}`) + `}`
		}},
		"response": {"/v1/responses", func(tools string) string {
			return `{"model":"` + agentID + `","input":"m","tools":` + functions(tools, `{"type":"function",#}`) + `}`
		}},
	} {
		key := "Idempotency-Key: " + name
		a.ok("POST", api.path, api.body(tools), h.key, key)
		if again := a.ok("POST", api.path, api.body(rewrite), h.key, key); again.header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("%s: the same tools in another form began a run: %s", name, again.body)
		}
		for change, tools := range others {
			a.from("POST", api.path, api.body(tools), h.key, key).want(t, name+", "+change, 422, "idempotency_key_reused")
		}
	}

	// On /v1, the field tool_choice is also part of the fingerprint.
	body := `{"model":"` + agentID + `","messages":[{"role":"user","content":"m"}],"tools":` + functions(tools, `{"type":"function","function":{#}}`)
	a.ok("POST", "/v1/chat/completions", body+`,"tool_choice":"required"}`, h.key, "Idempotency-Key: choice")
	a.from("POST", "/v1/chat/completions", body+`,"tool_choice":"none"}`, h.key, "Idempotency-Key: choice").want(t, "another choice", 422, "idempotency_key_reused")
	var runs int
	must(t, a.sql.QueryRowContext(t.Context(), `SELECT count(*) FROM runs WHERE org_id = $1`, h.org).Scan(&runs))
	if runs != 5 {
		t.Errorf("%d runs, want 5", runs)
	}
}
