package httpapi

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/httpapi/openai"
	"parley/ingress/internal/openaiapi"
	"parley/shared/domain"
	"parley/shared/store/executiondb"
)

// respond requests a response in the background and returns its id.
func (a *runEnv) respond(body string, headers ...string) string {
	a.t.Helper()
	return a.ok("POST", "/v1/responses", body, headers...).text(a.t, "id")
}

// fails finishes an accepted run without an answer, as a worker does after a failure.
func (a *runEnv) fails(runID string, status domain.RunStatus, cause *domain.RunError) {
	a.t.Helper()
	claims, err := a.store.Executions.Claim(a.t.Context(), []string{runID})
	must(a.t, err)
	run := claims[0].Run.Run()
	run.End(status, cause, domain.At(claims[0].Run.Now), claims[0].Run.RetentionSecs)
	outcome, err := executiondb.NewOutcome(claims[0].Run.Held(), run)
	must(a.t, err)
	_, err = a.store.Executions.Finish(a.t.Context(), []executiondb.Outcome{outcome})
	must(a.t, err)
}

func runFor(responseID string) string { return "run_" + strings.TrimPrefix(responseID, "resp_") }

func TestAResponseFromItsBeginningToItsEnd(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	agentID := a.newAgent(h)
	body := `{"model":"` + agentID + `","input":"m","metadata":{"a":"b"}`
	begun := a.ok("POST", "/v1/responses", body+`,"background":true}`, h.key, "Idempotency-Key: k")
	responseID := begun.text(t, "id")
	if begun.text(t, "status") != "queued" || begun.text(t, "metadata.a") != "b" || begun.header.Get(openai.HeaderRunID) != runFor(responseID) {
		t.Errorf("%v %s", begun.header, begun.body)
	}
	a.claimAccepted(runFor(responseID))
	running := a.ok("GET", "/v1/responses/"+responseID, "", h.key)
	if running.text(t, "status") != "in_progress" || running.header.Get(openai.HeaderRunID) != runFor(responseID) {
		t.Errorf("%v %s", running.header, running.body)
	}
	second := a.respond(body+`,"background":true}`, h.key)
	a.finish("answer", runFor(second))
	for name, got := range map[string]answer{
		"read":                    a.ok("GET", "/v1/responses/"+second, "", h.key),
		"read without its events": a.ok("GET", "/v1/responses/"+second+"?stream=false", "", h.key),
		"read by its agent's id":  a.ok("GET", "/v1/responses/"+second+"?include=x&starting_after=3", "", h.owner.auth, h.header),
	} {
		if got.text(t, "status") != "completed" || got.text(t, "output.0.content.0.text") != "answer" || got.text(t, "model") != agentID {
			t.Errorf("%s: %s", name, got.body)
		}
	}
}

func TestAReplayedResponseIsTheSameInEveryForm(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	agentID := a.newAgent(h)
	body := `{"model":"` + agentID + `","input":"m"`
	responseID := a.respond(body+`,"background":true}`, h.key, "Idempotency-Key: k")
	a.finish("answer", runFor(responseID))
	for name, more := range map[string]string{"whole": "}", "in the background": `,"background":true}`} {
		got := a.ok("POST", "/v1/responses", body+more, h.key, "Idempotency-Key: k")
		if got.text(t, "id") != responseID || got.text(t, "status") != "completed" || got.header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("%s: %v %s", name, got.header, got.body)
		}
	}
	streamed := a.ok("POST", "/v1/responses", body+`,"stream":true}`, h.key, "Idempotency-Key: k")
	text := string(streamed.body)
	if !strings.HasPrefix(text, "event: response.created\n") || !strings.Contains(text, `"id":"`+responseID+`"`) ||
		!strings.Contains(text, `"delta":"answer"`) || !strings.Contains(text, "event: response.completed\n") ||
		streamed.header.Get(openai.HeaderRunID) != runFor(responseID) || streamed.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("%v\n%s", streamed.header, text)
	}
	a.from("POST", "/v1/responses", `{"model":"`+agentID+`","input":"other"}`, h.key, "Idempotency-Key: k").want(t, "another request", 422, "idempotency_key_reused")
	a.from("POST", "/v1/chat/completions", `{"model":"`+agentID+`","stream":true,"messages":[{"role":"user","content":"m"}]}`, h.key, "Idempotency-Key: k").
		want(t, "the key at the other endpoint", 200, "")
	a.ok("DELETE", "/api/sessions?agentId="+agentID+"&id="+streamedSession(t, a, h, responseID), "", h.key)
	for _, more := range []string{"}", `,"background":true}`, `,"stream":true}`} {
		a.from("POST", "/v1/responses", body+more, h.key, "Idempotency-Key: k").want(t, "erased, asked "+more, 410, "erased")
	}
	a.from("GET", "/v1/responses/"+responseID, "", h.key).want(t, "erased, read", 410, "erased")
	a.from("POST", "/v1/responses/"+responseID+"/cancel", "", h.key).want(t, "erased, cancelled", 410, "erased")
}

func streamedSession(t *testing.T, a *runEnv, h *testOrg, responseID string) string {
	t.Helper()
	return a.ok("GET", "/v1/responses/"+responseID, "", h.key).text(t, "parley.sessionId")
}

func TestResponsesContinueOneAnother(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	agentID, another := a.newAgent(h), a.newAgent(h)
	ask := func(model, more string) string {
		return `{"background":true,"model":"` + model + `","input":"m"` + more + `}`
	}
	first := a.respond(ask(agentID, ""), h.key)
	after := func(responseID string) string { return `,"previous_response_id":"` + responseID + `"` }
	second := a.ok("POST", "/v1/responses", ask(agentID, after(first)), h.key)
	if second.text(t, "parley.sessionId") != streamedSession(t, a, h, first) || second.text(t, "previous_response_id") != first {
		t.Errorf("%s", second.body)
	}
	a.finish("answer", runFor(first))
	a.finish("answer", runFor(second.text(t, "id")))
	if a.ok("GET", "/api/runs?id="+runFor(second.text(t, "id")), "", h.key).text(t, "expiresAt") == "" {
		t.Error("a session that no caller can name is kept forever")
	}
	named := a.ok("POST", "/v1/responses", ask(agentID, `,"conversation":{"id":"c"}`), h.key).text(t, "id")
	again := a.ok("POST", "/v1/responses", ask(agentID, after(named)), h.key)
	if again.text(t, "parley.sessionId") != "c" {
		t.Errorf("%s", again.body)
	}
	chat := a.newChat(h, agentID, "s", h.key)
	if got := a.ok("POST", "/v1/responses", ask(agentID, after(openaiapi.ResponseID(chat))), h.key); got.text(t, "parley.sessionId") != "s" {
		t.Errorf("%s", got.body)
	}
	a.ok("PUT", "/api/agents?id="+agentID, `{"allowedCallers":["user","system"]}`, h.key)
	triggered := a.ok("POST", "/api/internal/run-automation", `{"target":"`+agentID+`","input":{"message":"m"}}`, h.key, "Prefer: respond-async").text(t, "id")
	foreign := a.newTestOrg("away")
	for name, tc := range map[string]struct{ previous, model, who string }{
		"another model's":        {first, another, h.key},
		"another caller's":       {first, agentID, h.owner.auth},
		"one of an automation":   {openaiapi.ResponseID(triggered), agentID, h.key},
		"another organization's": {openaiapi.ResponseID(a.newChat(foreign, a.newAgent(foreign), "s", foreign.key)), agentID, h.key},
		"none":                   {"resp_01h455vb4pex5vsknk084sn02q", agentID, h.key},
		"malformed":              {"x", agentID, h.key},
		"the id of a run":        {chat, agentID, h.key},
	} {
		got := a.from("POST", "/v1/responses", ask(tc.model, after(tc.previous)), tc.who, h.header)
		if got.status != 400 || got.text(t, "error.code") != "previous_response_not_found" || got.text(t, "error.param") != "previous_response_id" {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
	}
	a.ok("DELETE", "/api/sessions?agentId="+agentID+"&id=c", "", h.key)
	a.from("POST", "/v1/responses", ask(agentID, after(named)), h.key).want(t, "an erased one", 400, "invalid_request previous_response_id")
}

func TestRunsWithoutAnAnswerAreResponsesThatSaySo(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	body := `{"model":"` + a.newAgent(h) + `","input":"m"`
	for name, tc := range map[string]struct {
		status domain.RunStatus
		cause  *domain.RunError
		want   string
	}{
		"failed":    {domain.RunFailed, &domain.RunError{Code: "model_failed", Message: "No."}, "failed, model_failed"},
		"timed out": {domain.RunTimedOut, nil, "failed, timed_out"},
		"cancelled": {domain.RunCancelled, nil, "cancelled, cancelled"},
	} {
		key := "Idempotency-Key: " + name
		responseID := a.respond(body+`,"background":true}`, h.key, key)
		a.fails(runFor(responseID), tc.status, tc.cause)
		for how, got := range map[string]answer{
			"in the background": a.ok("POST", "/v1/responses", body+`,"background":true}`, h.key, key), "read": a.ok("GET", "/v1/responses/"+responseID, "", h.key),
		} {
			if said := got.text(t, "status") + ", " + got.text(t, "error.code"); said != tc.want {
				t.Errorf("%s, %s: %s", name, how, got.body)
			}
		}
		_, code, _ := strings.Cut(tc.want, ", ")
		waited := a.from("POST", "/v1/responses", body+"}", h.key, key)
		if waited.status != 400 || waited.text(t, "error.type")+", "+waited.text(t, "error.code") != "run_error, "+code || waited.header.Get("X-Should-Retry") != "false" {
			t.Errorf("%s, waited for: %d %v %s", name, waited.status, waited.header, waited.body)
		}
		if streamed := a.ok("POST", "/v1/responses", body+`,"stream":true}`, h.key, key); !strings.Contains(string(streamed.body), "event: response.failed\n") {
			t.Errorf("%s, streamed: %s", name, streamed.body)
		}
	}
}

func TestAResponseThatWaitsForAPerson(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	body := `{"model":"` + a.newAgent(h) + `","input":"m"`
	responseID := a.respond(body+`,"background":true}`, h.key, "Idempotency-Key: k")
	a.park(runFor(responseID), "publish", domain.ActionApproval)
	got := a.from("POST", "/v1/responses", body+"}", h.key, "Idempotency-Key: k")
	if got.status != 400 || got.text(t, "error.type") != "run_error" || got.text(t, "error.code") != "requires_action" ||
		!strings.Contains(got.text(t, "error.message"), "publish") || got.header.Get("X-Should-Retry") != "false" {
		t.Errorf("%d %v %s", got.status, got.header, got.body)
	}
	for name, open := range map[string]answer{
		"read":              a.ok("GET", "/v1/responses/"+responseID, "", h.key),
		"in the background": a.ok("POST", "/v1/responses", body+`,"background":true}`, h.key, "Idempotency-Key: k"),
	} {
		if open.text(t, "status") != "in_progress" {
			t.Errorf("%s: %s", name, open.body)
		}
	}
}

func TestMissingResponses(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	agentID := a.newAgent(h)
	a.ok("PUT", "/api/agents?id="+agentID, `{"allowedCallers":["user","system"]}`, h.key)
	triggered := a.ok("POST", "/api/internal/run-automation", `{"target":"`+agentID+`","input":{"message":"m"}}`, h.key, "Prefer: respond-async").text(t, "id")
	for name, responseID := range map[string]string{
		"of an automation": openaiapi.ResponseID(triggered), "none": "resp_01h455vb4pex5vsknk084sn02q", "a run": triggered, "malformed": "x",
	} {
		a.from("GET", "/v1/responses/"+responseID, "", h.key).want(t, name, 404, "not_found")
	}
	chat := openaiapi.ResponseID(a.newChat(h, agentID, "s", h.key))
	a.from("GET", "/v1/responses/"+chat+"?stream=true", "", h.key).want(t, "with its events", 400, "invalid_request stream")
	a.from("GET", "/v1/responses/"+chat+"?stream=false&stream=false", "", h.key).want(t, "twice", 400, "invalid_request stream")
}

// A background response is not found after its run has expired. A replay may be waiting for memory
// when the run expires. The client may then repeat the request, which starts another run.
func TestAResponseThatExpiresWhileItWaitsForRoom(t *testing.T) {
	t.Parallel()
	a := newWaitingRunEnv(t, unlimited)
	h := a.newTestOrg("home")
	body := `{"model":"` + a.newAgent(h) + `","input":"m","background":true}`
	ask := func() answer { return a.from("POST", "/v1/responses", body, h.key, "Idempotency-Key: k") }
	responseID := ask().want(t, "the first", 200, "").text(t, "id")
	a.finish(strings.Repeat("x", 300<<10), runFor(responseID))

	c, _ := gin.CreateTestContext(httptest.NewRecorder())
	c.Request = httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
	httpx.StateFor(c).Large = &a.api.large
	must(t, httpx.ReserveAnswer(c, 1<<20)) // another large response takes all memory for responses
	replayed := make(chan answer, 1)
	go func() { replayed <- ask() }()
	<-time.After(2 * time.Second) // time for the replay to begin waiting for memory
	a.exec(`UPDATE runs SET expires_at = clock_timestamp() - interval '1 s' WHERE id = $1`, runFor(responseID))
	httpx.EndReservation(c)
	if got := (<-replayed).want(t, "a replay", 503, "unavailable"); got.header.Get("Retry-After") == "" {
		t.Error("a replay has no Retry-After")
	}
	a.from("GET", "/v1/responses/"+responseID, "", h.key).want(t, "an expired response", 404, "not_found")
	if again := ask().want(t, "again", 200, "").text(t, "id"); again == responseID {
		t.Error("an expired response keeps its idempotency key")
	}
}

func TestRequestsForResponsesAreRefusedByName(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	agentID := a.newAgent(h)
	for body, want := range map[string]string{
		`{"input":"m"}`:                                "invalid_request model",
		`{"model":"$"}`:                                "invalid_request input",
		`{"model":"$","input":7}`:                      "invalid_request input",
		`{"model":"$","input":null}`:                   "invalid_request input",
		`{"model":"$","input":[7]}`:                    "invalid_request input[0]",
		`{"model":"$","input":"m","input":"n"}`:        "invalid_request input",
		`{"model":"$","input":"m"} x`:                  "invalid_request body",
		`{"model":"$","input":"m","metadata":{"a":1}}`: "invalid_request metadata.a",
		`{"model":"$","input":"m","metadata":{"a":"` + strings.Repeat("x", 513) + `"}}`:                               "invalid_request metadata.a",
		`{"model":"$","input":"m","conversation":{}}`:                                                                 "invalid_request conversation.id",
		`{"model":"$","input":"m","tools":[{"type":"web_search"}]}`:                                                   "invalid_request tools[0].type",
		`{"model":"$","input":[{"role":"user","content":[{"type":"input_audio"}]}]}`:                                  "invalid_request input[0].content[0].type",
		`{"model":"$","input":[{"type":"function_call_output","call_id":"c","output":"o"},{"role":"user"}]}`:          "invalid_request input[0].call_id",
		`{"model":"$","input":"m","text":{"format":{"type":"json_schema","name":"n","schema":[]},"verbosity":"low"}}`: "invalid_request text.format.schema",
	} {
		a.from("POST", "/v1/responses", strings.ReplaceAll(body, "$", agentID), h.key).want(t, body, 400, want)
	}
	for _, model := range []string{"gpt-5", "", "tpl_none", "ag_01h455vb4pex5vsknk084sn02q", strings.Repeat("m", 5000)} {
		a.from("POST", "/v1/responses", `{"model":"`+model+`","input":"m"}`, h.key).want(t, "model "+model, 404, "not_found")
	}
	a.ok("PUT", "/api/agents?id="+agentID, `{"allowedCallers":["system"]}`, h.key)
	a.from("POST", "/v1/responses", `{"model":"`+agentID+`","input":"m"}`, h.key).want(t, "for automations only", 403, "caller_not_allowed")
}

// If a request forbids storing its response, the response cannot be read, cancelled or continued by
// its id. The run of the request remains visible in Parley's own API.
func TestAnUnstoredResponseIsNotRetrievable(t *testing.T) {
	t.Parallel()
	a := newWaitingRunEnv(t, unlimited)
	h := a.newTestOrg("home")
	agentID := a.newAgent(h)
	a.startWorker(func(runID, _ string) { a.end(runID, answers("answer")) })
	body := `{"model":"` + agentID + `","input":"m"`
	for name, more := range map[string]string{"whole": `,"store":false}`, "streamed": `,"store":false,"stream":true}`} {
		got := a.from("POST", "/v1/responses", body+more, h.key).want(t, name, 200, "")
		if !strings.Contains(string(got.body), `"store":false`) || !strings.Contains(string(got.body), "answer") {
			t.Errorf("%s: %s", name, got.body)
		}
		runID := got.header.Get(openai.HeaderRunID)
		responseID := openaiapi.ResponseID(runID)
		a.from("GET", "/v1/responses/"+responseID, "", h.key).want(t, name+", read", 404, "not_found")
		a.from("POST", "/v1/responses/"+responseID+"/cancel", "", h.key).want(t, name+", cancelled", 404, "not_found")
		a.from("POST", "/v1/responses", body+`,"previous_response_id":"`+responseID+`"}`, h.key).
			want(t, name+", continued", 400, "invalid_request previous_response_id")
		if run := a.ok("GET", "/api/runs?id="+runID, "", h.key); run.text(t, "message") != "answer" {
			t.Errorf("%s: %s", name, run.body)
		}
	}
	stored := a.ok("POST", "/v1/responses", body+`,"store":true}`, h.key)
	if got := a.ok("GET", "/v1/responses/"+stored.text(t, "id"), "", h.key); got.json(t, "store") != true {
		t.Errorf("stored: %s", got.body)
	}
	a.from("POST", "/v1/responses", body+`,"store":false,"background":true}`, h.key).want(t, "in the background", 400, "invalid_request store")
}

// The error for a path that does not exist lists the paths that exist.
func TestWrongPathsUnderV1(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	for _, path := range []string{"/v1", "/v1/", "/v1/chat/completion", "/v1/v1/responses", "/v1/embedding"} {
		got := a.from("POST", path, `{}`).want(t, path, 404, "not_found")
		var body struct {
			Error openaiapi.Error `json:"error"`
		}
		must(t, json.Unmarshal(got.body, &body))
		if body.Error.Type != "invalid_request_error" || !strings.Contains(body.Error.Message, "POST /v1/chat/completions") ||
			!strings.Contains(body.Error.Message, "GET /v1/models/{id}") {
			t.Errorf("%s: %s", path, got.body)
		}
	}
}

// Fields of the protocol that have no meaning for agents are ignored.
func TestUnusedResponseFieldsAreIgnored(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	agentID := a.newAgent(h)
	const more = `"temperature":null,"reasoning":{"summary":"auto"},"store":true,"service_tier":"auto","truncation":"auto",` +
		`"include":["web_search_call.action.sources"],"prompt_cache_key":"k","safety_identifier":"s","verbosity":"low","max_tool_calls":3,` +
		`"tool_choice":"none","tools":[],"text":{"format":{"type":"text"},"verbosity":"low"},"stream_options":{"include_obfuscation":false},"stream":null,` +
		`"instructions":null,"conversation":null,"previous_response_id":null,"user":null,"metadata":null,"prompt":null,"top_logprobs":null,"new":{"x":[1]}`
	got := a.ok("POST", "/v1/responses", `{"model":"`+agentID+`","background":true,"input":"m",`+more+`}`, h.key, "Idempotency-Key: k")
	same := a.ok("POST", "/v1/responses", `{"model":"`+agentID+`","background":true,"input":"m"}`, h.key, "Idempotency-Key: k")
	if got.text(t, "id") != same.text(t, "id") || string(got.body) != string(same.body) {
		t.Errorf("%s\n%s", got.body, same.body)
	}
}
