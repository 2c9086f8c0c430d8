package httpapi

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"parley/ingress/internal/openaiapi"
	"parley/shared/domain"
)

// allSettings has a value for each model setting.
const allSettings = `"temperature":0.5,"topP":0.25,"maxOutputTokens":100,"reasoningEffort":"low","seed":7,"stop":["END"],"parallelToolCalls":false`

// modelSettings returns the model settings in a response, as JSON.
func modelSettings(t *testing.T, a answer) string {
	t.Helper()
	shown := map[string]any{}
	for _, name := range domain.ModelSettingNames {
		shown[string(name)] = a.json(t, string(name))
	}
	return mustJSON(t, shown)
}

func TestAgentsHaveModelSettings(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	ada := w.signUp("ada@example.com")
	var all, none map[string]any
	must(t, json.Unmarshal([]byte("{"+allSettings+"}"), &all))
	must(t, json.Unmarshal([]byte(`{"temperature":null,"topP":null,"maxOutputTokens":null,"reasoningEffort":null,"seed":null,"stop":null,"parallelToolCalls":null}`), &none))

	made := w.do("POST", "/api/agents", `{"name":"a","systemPrompt":"p","model":"offline",`+allSettings+`,"overridable":["seed"]}`, ada.auth).want(t, "all", 201, "")
	if got := modelSettings(t, made); got != mustJSON(t, all) || mustJSON(t, made.json(t, "overridable")) != `["seed"]` {
		t.Errorf("settings %s, overridable %v", got, made.json(t, "overridable"))
	}
	agentID := made.text(t, "id")
	put := func(body string) answer {
		return w.do("PUT", "/api/agents?id="+agentID, body, ada.auth)
	}
	back := put(string(made.body)).want(t, "sent back as read", 200, "")
	if modelSettings(t, back) != mustJSON(t, all) || mustJSON(t, back.json(t, "overridable")) != `["seed"]` {
		t.Errorf("became %s", back.body)
	}
	one := put(`{"seed":null}`).want(t, "one removed", 200, "")
	if one.json(t, "seed") != nil || one.json(t, "topP") != 0.25 {
		t.Errorf("became %s", one.body)
	}
	cleared := put(`{"temperature":null,"topP":null,"maxOutputTokens":null,"reasoningEffort":null,"stop":null,"parallelToolCalls":null,"overridable":null}`).want(t, "removed", 200, "")
	names := mustJSON(t, domain.ModelSettingNames)
	if got := modelSettings(t, cleared); got != mustJSON(t, none) || mustJSON(t, cleared.json(t, "overridable")) != names {
		t.Errorf("settings %s, overridable %v", got, cleared.json(t, "overridable"))
	}
	if got := put(`{"overridable":[]}`).want(t, "none overridable", 200, ""); mustJSON(t, got.json(t, "overridable")) != "[]" {
		t.Errorf("overridable %v", got.json(t, "overridable"))
	}
	put(`{"overridable":`+names+`}`).want(t, "all named", 200, "")
	stored, err := w.store.Agents.Agent(t.Context(), ada.org, agentID)
	must(t, err)
	if stored.Overridable != nil { // nil means all settings, including those of later releases
		t.Errorf("overridable is stored as %v", *stored.Overridable)
	}
	if list := w.do("GET", "/api/agents", "", ada.auth).want(t, "list", 200, ""); mustJSON(t, list.json(t, "data.0.overridable")) != names {
		t.Errorf("list %s", list.body)
	}
}

func TestModelSettingsAreChecked(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	ada := w.signUp("ada@example.com")
	for fields, problems := range map[string]string{
		`"temperature":2.1,"topP":-0.1`:                          "temperature:invalid_value topP:invalid_value",
		`"temperature":"0.5"`:                                    "temperature:invalid_type",
		`"temperature":1e999`:                                    "temperature:invalid_type",
		`"maxOutputTokens":0`:                                    "maxOutputTokens:invalid_value",
		`"maxOutputTokens":1.5`:                                  "maxOutputTokens:invalid_type",
		`"reasoningEffort":"max"`:                                "reasoningEffort:invalid_value",
		`"seed":9007199254740992`:                                "seed:invalid_value",
		`"stop":[]`:                                              "stop:too_short",
		`"stop":["a","b","c","d","e"]`:                           "stop:too_long",
		`"stop":["a",""]`:                                        "stop[1]:too_short",
		`"stop":"a"`:                                             "stop:invalid_type",
		`"stop":["` + strings.Repeat("x", 257) + `"]`:            "stop[0]:too_long",
		`"overridable":["seed","seed","tools"]`:                  "overridable[1]:duplicate overridable[2]:invalid_value",
		`"overridable":["` + strings.Repeat(`x","`, 5000) + `"]`: "",

		// Settings that the model or a fallback model does not accept.
		`"model":"openai/gpt-5-mini","temperature":0.2,"stop":["x"]`:                                       "temperature:invalid_value stop:invalid_value",
		`"model":"anthropic/claude-sonnet-4-5","seed":1,"temperature":1.5`:                                 "temperature:invalid_value seed:invalid_value",
		`"model":"openai/gpt-4o","seed":1,"fallbackModels":["anthropic/claude-sonnet-4-5"]`:                "seed:invalid_value",
		`"model":"anthropic/claude-sonnet-4-5","temperature":0.1,"topP":0.1`:                               "topP:invalid_value",
		`"model":"openai/gpt-4o","reasoningEffort":"low","fallbackModels":["offline","openai/gpt-5-mini"]`: "reasoningEffort:invalid_value",
	} {
		got := w.do("POST", "/api/agents", `{"name":"a","systemPrompt":"p",`+fields+`}`, ada.auth)
		if problems == "" { // the list of problems is limited
			if got.status != 400 || len(got.body) > 32<<10 {
				t.Errorf("%.40s: %d, %d bytes", fields, got.status, len(got.body))
			}
			continue
		}
		got.want(t, fields, 400, "invalid_request "+problems)
	}

	agentID := w.agent(ada, `{"name":"a","systemPrompt":"p","model":"openai/gpt-4o","temperature":0.2,"stop":["x"]}`)
	put := func(body string) answer { return w.do("PUT", "/api/agents?id="+agentID, body, ada.auth) }
	got := put(`{"model":"openai/gpt-5-mini"}`).want(t, "a model that does not accept the kept settings", 400, "invalid_request temperature:invalid_value stop:invalid_value")
	if !strings.Contains(string(got.body), "openai/gpt-5-mini") {
		t.Errorf("the model is not named: %s", got.body)
	}
	put(`{"fallbackModels":["openai/o3"]}`).want(t, "such a fallback model", 400, "invalid_request temperature:invalid_value stop:invalid_value")
	put(`{"model":"openai/gpt-5-mini","temperature":null,"stop":null}`).want(t, "without these settings", 200, "")
	put(`{"temperature":1}`).want(t, "the only accepted value", 200, "")

	// A model may cease to accept a setting. Then other fields of the agent can still be changed.
	w.exec(`UPDATE agents SET answer_settings = '{"temperature":0.3}' WHERE id = $1`, agentID)
	put(`{"name":"b"}`).want(t, "another field", 200, "")
	put(`{"topP":1}`).want(t, "a setting", 400, "invalid_request temperature:invalid_value")

	w.rebuild(func(d *Deps) { d.OpenAICompatible = true })
	put(`{"topP":0.1}`).want(t, "with another server than OpenAI's", 200, "")
}

// storedSettings returns the settings that are stored with an accepted run.
func (a *runEnv) storedSettings(runID string) string {
	a.t.Helper()
	var settings string
	must(a.t, a.sql.QueryRowContext(a.t.Context(), `SELECT coalesce((input -> 'settings')::text, '') FROM runs WHERE id = $1`, runID).Scan(&settings))
	return settings
}

func TestRequestsOverrideModelSettings(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	agentID := a.newAgent(h)
	put := func(body string) { a.ok("PUT", "/api/agents?id="+agentID, body, h.adminKey, h.header) }
	put(`{"temperature":0.1,"seed":3}`)
	doors := map[string]func(fields string, headers ...string) answer{
		"chat": func(fields string, headers ...string) answer {
			headers = append(headers, h.memberKey, h.header, "Prefer: respond-async")
			return a.from("POST", "/api/agents?action=chat&id="+agentID, `{"sessionId":"`+a.fresh()+`","message":"m"`+fields+`}`, headers...)
		},
		"trigger": func(fields string, headers ...string) answer {
			return a.from("POST", "/api/internal/run-automation", `{"target":"`+agentID+`","input":{"message":"m"}`+fields+`}`,
				append(headers, h.key, "Prefer: respond-async")...)
		},
	}
	for door, send := range doors {
		run := send(","+allSettings).want(t, door, 202, "")
		var want map[string]any
		must(t, json.Unmarshal([]byte("{"+allSettings+"}"), &want))
		var got map[string]any
		must(t, json.Unmarshal([]byte(a.storedSettings(run.text(t, "id"))), &got))
		if mustJSON(t, got) != mustJSON(t, want) {
			t.Errorf("%s stores %v", door, got)
		}
		if timeline := a.ok("GET", "/api/runs?timeline=1&id="+run.text(t, "id"), "", h.adminKey, h.header); timeline.json(t, "input.settings.seed") != 7.0 {
			t.Errorf("%s: timeline %s", door, timeline.body)
		}
		run = send(`,"temperature":null,"seed":null`).want(t, door+" with null", 202, "")
		if got := a.storedSettings(run.text(t, "id")); got != `{"cleared":["temperature","seed"]}` {
			t.Errorf("%s stores %s", door, got)
		}
		if run = send("").want(t, door+" without settings", 202, ""); a.storedSettings(run.text(t, "id")) != "" {
			t.Errorf("%s stores settings that the request does not have", door)
		}
		send(`,"temperature":3,"stop":[""]`).want(t, door+" out of range", 400, "invalid_request temperature:invalid_value stop[0]:too_short")

		put(`{"overridable":["temperature"]}`)
		send(`,"temperature":1.5`).want(t, door+" with what the agent allows", 202, "")
		send(`,"temperature":1,"seed":1,"topP":null`).want(t, door+" with what it does not allow", 400, "invalid_request topP:invalid_value seed:invalid_value")
		put(`{"overridable":null,"model":"openai/gpt-4o"}`)
		send(`,"temperature":0,"reasoningEffort":"low"`).want(t, door+" with what the model does not accept", 400, "invalid_request reasoningEffort:invalid_value")
		put(`{"model":null}`)
	}

	// The settings are part of the request, so a request with the same idempotency key but other
	// settings is rejected.
	key := "Idempotency-Key: " + a.fresh()
	first := doors["trigger"](`,"seed":1`, key).want(t, "first", 202, "")
	if again := doors["trigger"](`,"seed":1`, key).want(t, "again", 202, ""); again.text(t, "id") != first.text(t, "id") {
		t.Error("a retry started another run")
	}
	doors["trigger"](`,"seed":2`, key).want(t, "another seed", 422, "idempotency_key_reused")
	put(`{"overridable":[]}`)
	doors["trigger"](`,"seed":1`, key).want(t, "a retry after a change of the agent", 202, "")

	a.from("POST", "/api/agents?action=chat&template=tpl_support", `{"sessionId":"s","message":"m","temperature":0}`,
		h.memberKey, h.header, "Prefer: respond-async").want(t, "a template", 202, "")
	a.from("POST", "/api/agents?action=chat&template=tpl_support", `{"sessionId":"s","message":"m","temperature":0}`,
		sayDemo).want(t, "a visitor of the demo", 400, "invalid_request temperature:invalid_value")
}

// A chat request in the format of a user interface library can also contain model settings.
func TestConversationsOverrideModelSettings(t *testing.T) {
	t.Parallel()
	a, h, agentID := newFormatEnv(t)
	a.ok("PUT", "/api/agents?id="+agentID, `{"overridable":["temperature","topP"]}`, h.key)
	for format, body := range map[string]string{
		"ai-sdk": `{"id":"sdk","messages":[{"id":"1","role":"user","parts":[{"type":"text","text":"m"}]}]`,
		"ag-ui":  `{"threadId":"agui","runId":"r","messages":[{"id":"1","role":"user","content":"m"}]`,
	} {
		path := "/api/agents?action=chat&id=" + agentID + "&format=" + format
		stored := func(fields string) string {
			t.Helper()
			got := a.from("POST", path, body+fields+`}`, h.key).want(t, format+fields, 200, "")
			return a.storedSettings(strings.TrimPrefix(got.header.Get("Location"), "/api/runs?id="))
		}
		if got := stored(`,"temperature":0.5,"topP":null`); got != `{"temperature":0.5,"cleared":["topP"]}` {
			t.Errorf("%s stores %s", format, got)
		}
		if got := stored(`,"attachments":[]`); got != "" {
			t.Errorf("%s stores %s without settings", format, got)
		}
		a.from("POST", path, body+`,"seed":1}`, h.key).want(t, format+" with what the agent does not allow", 400, "invalid_request seed:invalid_value")
	}
}

// In OpenAI's protocol, some settings have different names. Requests and errors use these names.
func TestOpenAIClientsSendModelSettings(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	agentID := a.newAgent(h)
	put := func(body string) { a.ok("PUT", "/api/agents?id="+agentID, body, h.adminKey, h.header) }
	send := func(path, fields string, headers ...string) answer {
		body := `{"model":"` + agentID + `","messages":[{"role":"user","content":"m"}],"stream":true` + fields + `}`
		if path == "/v1/responses" {
			body = `{"model":"` + agentID + `","input":"m","background":true` + fields + `}`
		}
		return a.from("POST", path, body, append(headers, h.key)...)
	}
	const completions, responses = "/v1/chat/completions", "/v1/responses"
	for _, c := range []struct{ path, fields, want string }{
		{
			completions, `,"temperature":0,"top_p":0.5,"max_completion_tokens":9,"reasoning_effort":"low","seed":7,"stop":["a","b"],"parallel_tool_calls":false`,
			`{"temperature":0,"topP":0.5,"maxOutputTokens":9,"reasoningEffort":"low","seed":7,"stop":["a","b"],"parallelToolCalls":false}`,
		},
		{completions, `,"max_tokens":5,"stop":"END"`, `{"maxOutputTokens":5,"stop":["END"]}`},
		{completions, `,"max_tokens":5,"max_completion_tokens":6`, `{"maxOutputTokens":6}`},
		{completions, `,"temperature":null,"stop":null,"max_tokens":null,"seed":null`, ``},
		{completions, `,"stop":"","frequency_penalty":1`, ``},
		{completions, `,"stop":[]`, ``},
		{
			responses, `,"temperature":0.5,"top_p":1,"max_output_tokens":9,"reasoning":{"effort":"high","summary":"auto"},"parallel_tool_calls":true`,
			`{"temperature":0.5,"topP":1,"maxOutputTokens":9,"reasoningEffort":"high","parallelToolCalls":true}`,
		},
		{responses, `,"reasoning":null,"temperature":null`, ``},
		{responses, `,"reasoning":{}`, ``},
	} {
		got := send(c.path, c.fields).want(t, c.fields, 200, "")
		if stored := a.storedSettings(got.header.Get("X-Parley-Run-Id")); stored != c.want {
			t.Errorf("%s%s stores %s, want %s", c.path, c.fields, stored, c.want)
		}
	}

	refused := func(path, fields, param, code string) {
		t.Helper()
		var body struct {
			Error openaiapi.Error `json:"error"`
		}
		got := send(path, fields)
		must(t, json.Unmarshal(got.body, &body))
		if got.status != 400 || body.Error.Param == nil || *body.Error.Param != param || body.Error.Code != code || body.Error.Type != "invalid_request_error" {
			t.Errorf("%s%s: %d %s, want %s %s", path, fields, got.status, got.body, param, code)
		}
	}
	refused(completions, `,"temperature":2.5`, "temperature", "invalid_request")
	refused(completions, `,"max_tokens":0`, "max_tokens", "invalid_request")
	refused(completions, `,"max_completion_tokens":0`, "max_completion_tokens", "invalid_request")
	refused(completions, `,"reasoning_effort":"much"`, "reasoning_effort", "invalid_request")
	refused(completions, `,"stop":["a","b","c","d","e"]`, "stop", "invalid_request")
	refused(completions, `,"stop":["a",""]`, "stop[1]", "invalid_request")
	refused(completions, `,"top_p":"x"`, "top_p", "invalid_request")
	refused(responses, `,"reasoning":{"effort":"much"}`, "reasoning.effort", "invalid_request")
	refused(responses, `,"max_output_tokens":0`, "max_output_tokens", "invalid_request")

	put(`{"overridable":["seed"]}`)
	refused(completions, `,"top_p":0.1,"seed":1`, "top_p", "unsupported_parameter")
	refused(completions, `,"max_tokens":5`, "max_tokens", "unsupported_parameter")
	refused(completions, `,"parallel_tool_calls":true`, "parallel_tool_calls", "unsupported_parameter")
	refused(responses, `,"max_output_tokens":5`, "max_output_tokens", "unsupported_parameter")
	refused(responses, `,"reasoning":{"effort":"low"}`, "reasoning.effort", "unsupported_parameter")
	put(`{"overridable":null,"model":"openai/gpt-4o"}`)
	refused(completions, `,"reasoning_effort":"low"`, "reasoning_effort", "unsupported_parameter")
	put(`{"model":"openai/gpt-5-mini"}`)
	refused(completions, `,"temperature":0.2`, "temperature", "invalid_request")

	// If a setting in the request conflicts with a setting of the agent, the error names the
	// setting as the request does.
	put(`{"model":"anthropic/claude-sonnet-4-6","topP":0.5}`)
	refused(completions, `,"temperature":0.5`, "temperature", "invalid_request")
	put(`{"model":"openai/gpt-5.1","topP":null,"temperature":0.3}`)
	refused(completions, `,"reasoning_effort":"low"`, "reasoning_effort", "invalid_request")
}

// A finished run and its response show the settings that were used.
func TestRunsShowTheirModelSettings(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	agentID := a.newAgent(h)
	began := a.ok("POST", "/v1/responses", `{"model":"`+agentID+`","input":"m","background":true,"temperature":0.5,"reasoning":{"effort":"low"}}`, h.memberKey, h.header)
	if began.json(t, "temperature") != 0.5 || began.json(t, "reasoning.effort") != "low" || began.json(t, "top_p") != nil || began.json(t, "parallel_tool_calls") != true {
		t.Errorf("began as %s", began.body)
	}
	runID := began.text(t, "parley.runId")
	if run := a.ok("GET", "/api/runs?id="+runID, "", h.memberKey, h.header); strings.Contains(string(run.body), "settings") {
		t.Errorf("before the end: %s", run.body)
	}
	a.end(runID, func(run *domain.Run) {
		run.Message, run.Output = new("m"), &domain.Output{Message: "m"}
		run.Settings = &domain.ModelSettings{Temperature: new(0.5), TopP: new(0.25), MaxOutputTokens: new(int64(9)), ReasoningEffort: new("low"), ParallelToolCalls: new(false)}
	})
	run := a.ok("GET", "/api/runs?id="+runID, "", h.memberKey, h.header)
	if got := mustJSON(t, run.json(t, "settings")); got != `{"maxOutputTokens":9,"parallelToolCalls":false,"reasoningEffort":"low","temperature":0.5,"topP":0.25}` {
		t.Errorf("settings %s", got)
	}
	ended := a.ok("GET", "/v1/responses/"+began.text(t, "id"), "", h.memberKey, h.header)
	if ended.json(t, "top_p") != 0.25 || ended.json(t, "max_output_tokens") != 9.0 || ended.json(t, "parallel_tool_calls") != false {
		t.Errorf("ended as %s", ended.body)
	}
}

func TestSystemPromptsHaveVariables(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	ada := w.signUp("ada@example.com")
	create := func(prompt string) answer {
		return w.do("POST", "/api/agents", `{"name":"a","systemPrompt":`+mustJSON(t, prompt)+`}`, ada.auth)
	}
	for _, prompt := range []string{"{{customer}}", "{{input}}", "{{now", "{{input.a b}}"} {
		create(prompt).want(t, prompt, 400, "invalid_request systemPrompt:invalid_value")
	}
	const valid = `{{organization.name}} {{ now }} {{session.id}} {{input.a.b}} \{{x}}`
	agentID := create(valid).want(t, valid, 201, "").text(t, "id")
	put := func(body string) answer { return w.do("PUT", "/api/agents?id="+agentID, body, ada.auth) }
	put(`{"systemPrompt":"{{y}}"}`).want(t, "a change", 400, "invalid_request systemPrompt:invalid_value")

	// If an agent was stored before prompt variables existed, its prompt may contain any text, as
	// long as the prompt does not change.
	w.exec(`UPDATE agents SET system_prompt = 'Dear {{customer}}' WHERE id = $1`, agentID)
	put(`{"name":"b"}`).want(t, "another field of an old agent", 200, "")
	put(`{"name":"c","systemPrompt":"Dear {{customer}}"}`).want(t, "an old agent as it was read", 200, "")
	put(`{"systemPrompt":"Dear {{customer}}!"}`).want(t, "an old agent's prompt", 400, "invalid_request systemPrompt:invalid_value")
	put(`{"systemPrompt":`+mustJSON(t, valid)+`}`).want(t, "a valid one", 200, "")

	preview := func(body string) answer {
		return w.do("POST", "/api/agents?action=preview&id="+agentID, body, ada.auth)
	}
	got := preview(`{"input":{"a":{"b":"{{now}}"},"message":"hi"},"sessionId":"s-1"}`).want(t, "preview", 200, "").text(t, "systemPrompt")
	name := w.do("GET", "/api/organizations?id="+ada.org, "", ada.auth).text(t, "name")
	if before, after, _ := strings.Cut(got, " 20"); before != name || !strings.HasSuffix(after, "Z s-1 {{now}} {{x}}") {
		t.Errorf("preview %q of the organization %q", got, name)
	}
	for body, want := range map[string]string{
		`{"systemPrompt":"[{{input.n}}][{{input.message}}][{{session.id}}]","input":{"n":9007199254740993,"message":"m"}}`: "[9007199254740993][m][(session id)]",
		`{"systemPrompt":"[{{input.n}}]"}`:                            "[]",
		`{"systemPrompt":"plain","input":{}}`:                         "plain",
		`{"systemPrompt":"{{input.o}}","input":{"o":{"a":[1, "<"]}}}`: `{"a":[1,"<"]}`,
	} {
		if got := preview(body).want(t, body, 200, "").text(t, "systemPrompt"); got != want {
			t.Errorf("%s is previewed as %q", body, got)
		}
	}
	for body, problems := range map[string]string{
		`{"systemPrompt":"{{x}}"}`: "systemPrompt:invalid_value",
		`{"systemPrompt":""}`:      "systemPrompt:too_short",
		`{"input":[]}`:             "input:invalid_type",
		`{"input":{"message":1}}`:  "input.message:invalid_type",
		`{"sessionId":""}`:         "sessionId:too_short",
		`{"prompt":"x"}`:           "prompt:unknown_field",
		fmt.Sprintf(`{"systemPrompt":%q,"input":{"a":%q}}`, strings.Repeat("{{input.a}}", 100), strings.Repeat("x", 1000)): "systemPrompt:too_long",
	} {
		preview(body).want(t, body[:min(len(body), 60)], 400, "invalid_request "+problems)
	}
}
