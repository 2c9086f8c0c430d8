package ingress_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"parley/shared/domain"
	"parley/shared/store"
	"parley/shared/templates"
	"parley/shared/testkit"
)

const completionsPath = "/v1/chat/completions"

// v1Error is an error response in the form that OpenAI's clients decode.
type v1Error struct {
	Error struct {
		Message, Type, Code string
		Param               *string
	}
}

// v1 checks an error response in OpenAI's form. The argument want has the form "type code param".
func (a answer) v1(status int, want string) v1Error {
	a.t.Helper()
	var e v1Error
	a.into(&e, status)
	param := "null"
	if e.Error.Param != nil {
		param = *e.Error.Param
	}
	if got := e.Error.Type + " " + e.Error.Code + " " + param; got != want || a.header.Get("Content-Type") != "application/json" {
		a.t.Errorf("an error %q of %s, want %q: %s", got, a.header.Get("Content-Type"), want, a.body)
	}
	return e
}

// completion contains the fields of a chat completion that tests check.
type completion struct {
	ID, Object, Model string
	Created           int64
	Choices           []struct {
		Index   int
		Message struct {
			Role, Content string
			Refusal       *string
			Annotations   json.RawMessage
		}
		FinishReason string `json:"finish_reason"`
	}
	Usage  json.RawMessage
	Parley struct{ RunID, SessionID string }
}

func (r *testEnv) ask(model, more string, messages ...string) string {
	return `{"model":"` + model + `","messages":[` + strings.Join(messages, ",") + `]` + more + `}`
}

func said(role, text string) string {
	content, err := json.Marshal(text)
	if err != nil {
		panic(err) // unreachable, because a string has a JSON form
	}
	return `{"role":"` + role + `","content":` + string(content) + `}`
}

// withTemplates inserts the agent templates into the database.
func (r *testEnv) withTemplates() {
	r.Helper()
	owner, err := store.OpenOwner(r.dsn, 1)
	if err != nil {
		r.Fatal(err)
	}
	if err := errors.Join(owner.Agents.SyncTemplates(r.Context(), templates.All()), owner.Close()); err != nil {
		r.Fatal(err)
	}
}

// row runs a query for a single value, and stores the result in the variable to which the argument
// value points.
func (r *testEnv) row(value any, query string, args ...any) {
	r.Helper()
	if err := testkit.SQL(r.T, r.dsn).QueryRowContext(r.Context(), query, args...).Scan(value); err != nil {
		r.Fatal(err)
	}
}

// asked returns the input of a run, as a worker would read it.
func (r *testEnv) asked(runID string) domain.Input {
	r.Helper()
	var raw string
	r.row(&raw, `SELECT input FROM runs WHERE id = $1`, runID)
	var in domain.Input
	if err := json.Unmarshal([]byte(raw), &in); err != nil {
		r.Fatal(err)
	}
	return in
}

func TestACompletionIsARun(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, defaults())
	r.withTemplates()
	r.echo()
	got := r.call("POST", completionsPath, head{"Authorization": "Bearer " + r.key}, r.ask(r.agent, "", said("user", "hi")))
	var c completion
	got.into(&c, 200)
	run := r.call("GET", "/api/runs?id="+c.Parley.RunID, r.asKey(), "").run(200)
	suffix := strings.TrimPrefix(run.ID, "run_")
	if c.ID != "chatcmpl-"+suffix || c.Object != "chat.completion" || c.Model != r.agent || c.Created != run.CreatedAt.Unix() ||
		c.Parley.SessionID != run.SessionID || run.SessionID != "auto_"+suffix || run.Trigger.Type != "chat" || run.ExpiresAt == nil {
		t.Errorf("completion %s of run %+v", got.body, run)
	}
	choice := c.Choices[0]
	if choice.Message.Role != "assistant" || choice.Message.Content != "echo: hi" || choice.FinishReason != "stop" || string(choice.Message.Annotations) != "[]" ||
		choice.Message.Refusal != nil || got.header.Get("X-Parley-Run-Id") != run.ID || !strings.Contains(got.header.Get("Ratelimit"), `"user";r=`) {
		t.Errorf("completion %s, headers %v", got.body, got.header)
	}
	var template completion
	r.call("POST", completionsPath, r.asKey(), r.ask("tpl_support", "", said("user", "hi"))).into(&template, 200)
	if template.Model != "tpl_support" || template.Choices[0].Message.Content != "echo: hi" {
		t.Errorf("template: %+v", template)
	}
}

// A request without a session id contains all messages. For a request with a session id, the
// earlier messages come from the stored session.
func TestWhatACompletionAsks(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, defaults())
	r.echo()
	whole := []string{
		said("system", "Be brief."), said("assistant", "An answer to nothing."), said("user", "one"), said("user", "two"), said("assistant", "three"),
		said("developer", "Be kind."), said("user", "four"), said("assistant", "five"), said("user", "six"),
		`{"role":"user","content":[{"type":"text","text":"seven"},{"type":"text","text":"eight"}]}`,
	}
	const instructions = "Be brief.\n\nBe kind."
	history := []domain.Exchange{{Message: "one\n\ntwo", Answer: "three"}, {Message: "four", Answer: "five"}}
	for name, tt := range map[string]struct {
		more    string
		session string // "" for a new session
		want    domain.Input
	}{
		"no session":          {"", "", domain.Input{Message: "six\n\nseven\neight", History: history, Instructions: instructions}},
		"an empty user":       {`,"user":""`, "", domain.Input{Message: "six\n\nseven\neight", History: history, Instructions: instructions}},
		"of a user":           {`,"user":"u-1"`, "", domain.Input{Message: "six\n\nseven\neight", History: history, Instructions: instructions}},
		"named by metadata":   {`,"user":"u-2","metadata":{"session_id":"m-1","a":"b"}`, "m-1", domain.Input{Message: "six\n\nseven\neight", History: history, Instructions: instructions}},
		"with much else":      {`,"presence_penalty":0.2,"verbosity":"low","logit_bias":{},"store":true,"tools":[],"n":1,"stop":null,"x":[{"x":1,"x":2}]`, "", domain.Input{Message: "six\n\nseven\neight", History: history, Instructions: instructions}},
		"with choice of none": {`,"tool_choice":"none","function_call":"auto","response_format":{"type":"text"},"modalities":["text"],"logprobs":false`, "", domain.Input{Message: "six\n\nseven\neight", History: history, Instructions: instructions}},
	} {
		var c completion
		r.call("POST", completionsPath, r.asKey(), r.ask(r.agent, tt.more, whole...)).into(&c, 200)
		want := tt.session
		if want == "" {
			want = "auto_" + strings.TrimPrefix(c.Parley.RunID, "run_")
		}
		if got := r.asked(c.Parley.RunID); fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", tt.want) || c.Parley.SessionID != want {
			t.Errorf("%s: session %s asked %+v, want %s %+v", name, c.Parley.SessionID, got, want, tt.want)
		}
	}
	run := r.call("POST", r.chatPath(), r.asKey(), `{"sessionId":"m-1","message":"hi"}`).run(200)
	turns, err := r.store.Sessions.History(t.Context(), r.org, r.sessionFor(run.ID), 100, 10)
	if err != nil || len(turns) != 2 || len(turns[0].Earlier) == 0 || turns[0].Message != "six\n\nseven\neight" {
		t.Errorf("the history of a chat in the same session is %+v, %v", turns, err)
	}
}

func (r *testEnv) sessionFor(runID string) (ref int64) {
	r.Helper()
	r.row(&ref, `SELECT session_ref FROM runs WHERE id = $1`, runID)
	return ref
}

func TestCompletionsRefuseBadRequestsNamingTheField(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, defaults())
	hi := said("user", "hi")
	const invalid, unsupported = "invalid_request_error invalid_request ", "invalid_request_error unsupported_parameter "
	for name, tt := range map[string]struct{ body, want string }{
		"no model":                {`{"messages":[` + hi + `]}`, invalid + "model"},
		"no messages":             {`{"model":"` + r.agent + `"}`, invalid + "messages"},
		"empty messages":          {r.ask(r.agent, ""), invalid + "messages"},
		"messages of no type":     {`{"model":"m","messages":{}}`, invalid + "messages"},
		"the assistant last":      {r.ask(r.agent, "", hi, said("assistant", "x")), invalid + "messages"},
		"nothing said":            {r.ask(r.agent, "", said("user", "")), invalid + "messages"},
		"only instructions":       {r.ask(r.agent, "", said("system", "x")), invalid + "messages"},
		"an unknown role":         {r.ask(r.agent, "", said("ghost", "x"), hi), invalid + "messages[0].role"},
		"no role":                 {r.ask(r.agent, "", `{"content":"x"}`, hi), invalid + "messages[0].role"},
		"content of no type":      {r.ask(r.agent, "", `{"role":"user","content":5}`), invalid + "messages[0].content"},
		"a part without text":     {r.ask(r.agent, "", `{"role":"user","content":[{"type":"text"}]}`), invalid + "messages[0].content[0].text"},
		"a name twice":            {`{"model":"m","model":"n","messages":[` + hi + `]}`, invalid + "model"},
		"text after the end":      {r.ask(r.agent, "", hi) + "x", invalid + "body"},
		"stream of no type":       {r.ask(r.agent, `,"stream":"yes"`, hi), invalid + "stream"},
		"a session of no type":    {r.ask(r.agent, `,"metadata":{"session_id":5}`, hi), invalid + "metadata.session_id"},
		"an empty session":        {r.ask(r.agent, `,"metadata":{"session_id":""}`, hi), invalid + "metadata.session_id"},
		"a long session":          {r.ask(r.agent, `,"metadata":{"session_id":"`+strings.Repeat("u", 129)+`"}`, hi), invalid + "metadata.session_id"},
		"an image":                {r.ask(r.agent, "", `{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}`), "invalid_request_error invalid_request messages[0].content[0].image_url"},
		"a tool's message":        {r.ask(r.agent, "", said("tool", "x"), hi), invalid + "messages[0].tool_call_id"},
		"a function's message":    {r.ask(r.agent, "", said("function", "x"), hi), unsupported + "messages[0].role"},
		"a call of tools":         {r.ask(r.agent, "", hi, `{"role":"assistant","tool_calls":[{"id":"c","type":"custom"}]}`, hi), unsupported + "messages[1].tool_calls[0].type"},
		"a call of a function":    {r.ask(r.agent, "", hi, `{"role":"assistant","function_call":{}}`, hi), unsupported + "messages[1].function_call"},
		"many answers":            {r.ask(r.agent, `,"n":2`, hi), unsupported + "n"},
		"tools":                   {r.ask(r.agent, `,"tools":[{"type":"web_search"}]`, hi), unsupported + "tools[0].type"},
		"functions":               {r.ask(r.agent, `,"functions":[{}]`, hi), unsupported + "functions"},
		"a choice of tools":       {r.ask(r.agent, `,"tool_choice":"required"`, hi), invalid + "tool_choice"},
		"a format of no type":     {r.ask(r.agent, `,"response_format":{"type":"xml"}`, hi), invalid + "response_format.type"},
		"a schema of no type":     {r.ask(r.agent, `,"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"x"}}}`, hi), invalid + "response_format.json_schema.schema"},
		"no schema":               {r.ask(r.agent, `,"response_format":{"type":"json_schema"}`, hi), invalid + "response_format.json_schema"},
		"probabilities":           {r.ask(r.agent, `,"logprobs":true`, hi), unsupported + "logprobs"},
		"an empty stop":           {r.ask(r.agent, `,"stop":[""]`, hi), invalid + "stop[0]"},
		"a high temperature":      {r.ask(r.agent, `,"temperature":2.5`, hi), invalid + "temperature"},
		"audio":                   {r.ask(r.agent, `,"audio":{}`, hi), unsupported + "audio"},
		"modalities":              {r.ask(r.agent, `,"modalities":["text","audio"]`, hi), unsupported + "modalities"},
		"more than one mistake":   {r.ask(r.agent, `,"n":2,"logprobs":true`, said("tool", "x"), hi), unsupported + "n"},
		"an agent that never was": {r.ask("ag_00000000000000000000000000", "", hi), "invalid_request_error model_not_found model"},
		"a model of others":       {r.ask("gpt-5", "", hi), "invalid_request_error model_not_found model"},
	} {
		status := 400
		if strings.Contains(tt.want, "model_not_found") {
			status = 404
		}
		got := r.call("POST", completionsPath, r.asKey(), tt.body)
		e := got.v1(status, tt.want)
		if got.header.Get("X-Should-Retry") != "false" {
			t.Errorf("%s: clients would retry: %v", name, got.header)
		}
		if name == "more than one mistake" && (!strings.Contains(e.Error.Message, "logprobs: ") || !strings.Contains(e.Error.Message, "messages[0].tool_call_id: ")) {
			t.Errorf("%s: %q", name, e.Error.Message)
		}
	}
	for method, path := range map[string]string{"GET": completionsPath, "POST": "/v1/models", "PUT": "/v1/nothing"} {
		status, code := 405, "method_not_allowed"
		if path == "/v1/nothing" {
			status, code = 404, "not_found"
		}
		r.call(method, path, r.asKey(), "").v1(status, "invalid_request_error "+code+" null")
	}
	r.call("POST", completionsPath, nil, r.ask(r.agent, "", hi)).v1(401, "authentication_error invalid_api_key null")
	r.call("POST", completionsPath, head{"x-tenant-id": "tenant_demo"}, r.ask("tpl_support", "", hi)).v1(403, "permission_error demo_restricted null")
	r.call("POST", completionsPath, r.asKey("Content-Type", "text/plain"), "x").v1(415, "invalid_request_error unsupported_media_type null")
	r.call("POST", completionsPath, r.asKey(), strings.Repeat(" ", 2<<20+1)).v1(413, "invalid_request_error payload_too_large null")
	systemOnly := r.newAgent(`"system"`)
	r.call("POST", completionsPath, r.asKey(), r.ask(systemOnly, "", hi)).v1(403, "permission_error caller_not_allowed null")
}

func TestACompletionIsIdempotent(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, defaults())
	r.echo()
	key := r.asKey("Idempotency-Key", "k")
	body := r.ask(r.agent, "", said("system", "s"), said("user", "a"), said("assistant", "b"), said("user", "c"))
	first := r.call("POST", completionsPath, key, body).want(200)
	again := r.call("POST", completionsPath, key, body).want(200)
	if first.body != again.body || again.header.Get("Idempotency-Replayed") != "true" || first.header.Get("Idempotency-Replayed") != "" ||
		again.header.Get("X-Parley-Run-Id") != first.header.Get("X-Parley-Run-Id") {
		t.Errorf("%s\n%s %v", first.body, again.body, again.header)
	}
	stream := r.call("POST", completionsPath, key, strings.Replace(body, `]}`, `],"stream":true}`, 1)).want(200)
	if stream.header.Get("X-Parley-Run-Id") != first.header.Get("X-Parley-Run-Id") || !strings.Contains(stream.body, `"content":"echo: c"`) ||
		!strings.HasSuffix(stream.body, "data: [DONE]\n\n") {
		t.Errorf("the replay as a stream: %s", stream.body)
	}
	for name, other := range map[string]string{
		"another message":      r.ask(r.agent, "", said("system", "s"), said("user", "a"), said("assistant", "b"), said("user", "x")),
		"another history":      r.ask(r.agent, "", said("system", "s"), said("user", "a"), said("assistant", "x"), said("user", "c")),
		"no history":           r.ask(r.agent, "", said("system", "s"), said("user", "c")),
		"another instruction":  r.ask(r.agent, "", said("system", "x"), said("user", "a"), said("assistant", "b"), said("user", "c")),
		"another session":      r.ask(r.agent, `,"metadata":{"session_id":"x"}`, said("system", "s"), said("user", "a"), said("assistant", "b"), said("user", "c")),
		"a message as history": r.ask(r.agent, "", said("user", "s"), said("assistant", ""), said("user", "c")),
	} {
		got := r.call("POST", completionsPath, key, other)
		if got.status != 422 {
			t.Errorf("%s: %d", name, got.status)
		}
		got.v1(422, "invalid_request_error idempotency_key_reused null")
	}
	// An idempotency key of a completion does not match the runs of another agent or the runs that
	// chat requests have started.
	if other := r.call("POST", completionsPath, key, strings.Replace(body, r.agent, r.newAgent(`"user"`), 1)).want(200); other.body == first.body {
		t.Error("an idempotency key matched a run of another agent")
	}
	r.call("POST", r.chatPath(), key, `{"sessionId":"s","message":"c"}`).run(200)
	r.call("DELETE", "/api/sessions?agentId="+r.agent+"&id=auto_"+strings.TrimPrefix(first.header.Get("X-Parley-Run-Id"), "run_"), r.asKey(), "").want(200)
	r.call("POST", completionsPath, key, body).v1(410, "invalid_request_error erased null")
}

func TestARunWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, defaults())
	body := r.ask(r.agent, "", said("user", "hi"))
	for name, tt := range map[string]struct {
		end  func(h *scriptedWorker)
		want string
	}{
		"failed": {func(h *scriptedWorker) {
			h.end("", func(run *domain.Run) {
				run.Status, run.Message, run.Output = domain.RunFailed, nil, nil
				run.Error = &domain.RunError{Code: "model_rejected", Message: "the provider refuses"}
			})
		}, "run_error model_rejected null"},
		"cancelled": {func(h *scriptedWorker) {
			r.call("POST", "/api/runs?action=cancel&id="+h.bell.RunID, r.asKey(), "").want(200)
			h.bell.Ack()
		}, "run_error cancelled null"},
		"waits for a person": {func(h *scriptedWorker) { h.park("call_1", false) }, "run_error requires_action null"},
	} {
		plain := r.inBackground("POST", completionsPath, r.asKey(), body)
		h := r.take()
		tt.end(h)
		got := <-plain
		e := got.v1(400, tt.want)
		if got.header.Get("X-Should-Retry") != "false" || got.header.Get("X-Parley-Run-Id") != h.bell.RunID {
			t.Errorf("%s: headers %v", name, got.header)
		}
		if name == "waits for a person" && (!strings.Contains(e.Error.Message, "publish") || !strings.Contains(e.Error.Message, h.bell.RunID)) {
			t.Errorf("%s: %q", name, e.Error.Message)
		}
		streaming := r.inBackground("POST", completionsPath, r.asKey(), r.ask(r.agent, `,"stream":true`, said("user", "hi")))
		h = r.take()
		h.say("some")
		tt.end(h)
		got = (<-streaming).want(200)
		code := strings.Fields(tt.want)[1]
		frames := strings.Split(strings.TrimSuffix(got.body, "\n\n"), "\n\n")
		if last := frames[len(frames)-1]; !strings.HasPrefix(last, `data: {"error":{`) || !strings.Contains(last, `"code":"`+code+`"`) || strings.Contains(got.body, "[DONE]") {
			t.Errorf("%s, streamed: %s", name, got.body)
		}
	}
}

// chunks returns a short text for each chunk of a stream.
func chunks(t *testing.T, body string) (out []string) {
	t.Helper()
	for frame := range strings.SplitSeq(strings.TrimSuffix(body, "\n\n"), "\n\n") {
		if strings.HasPrefix(frame, ":") {
			continue
		}
		data := strings.TrimPrefix(frame, "data: ")
		if data == "[DONE]" {
			out = append(out, data)
			continue
		}
		var c struct {
			Choices []struct {
				Delta        json.RawMessage `json:"delta"`
				FinishReason *string         `json:"finish_reason"`
			} `json:"choices"`
			Usage json.RawMessage `json:"usage"`
			Error *struct {
				Code string `json:"code"`
			} `json:"error"`
		}
		if err := json.Unmarshal([]byte(data), &c); err != nil {
			t.Fatalf("%q: %v", frame, err)
		}
		short := string(c.Usage)
		for _, choice := range c.Choices {
			short += string(choice.Delta)
			if choice.FinishReason != nil {
				short += *choice.FinishReason
			}
		}
		if c.Error != nil {
			short = "error " + c.Error.Code
		}
		out = append(out, short)
	}
	return out
}

func TestACompletionIsStreamed(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, defaults())
	for name, tt := range map[string]struct {
		more    string
		publish func(h *scriptedWorker)
		want    string
	}{
		"plain": {"", func(h *scriptedWorker) {
			h.say("Hello")
			h.publish("tool.started", `{"toolCall":{"id":"c","name":"webSearch","status":"running","input":{},"output":null,"durationMs":0}}`)
			h.say(" there")
			h.finish("Hello there")
		}, `{"role":"assistant","content":""} {"content":"Hello"} {"content":" there"} {}stop [DONE]`},
		"with usage": {`,"stream_options":{"include_usage":true}`, func(h *scriptedWorker) {
			h.say("Hello")
			h.end("Hello", func(run *domain.Run) { run.Usage = domain.Usage{InputTokens: 3, OutputTokens: 4} })
		}, `null{"role":"assistant","content":""} null{"content":"Hello"} null{}stop {"prompt_tokens":3,"completion_tokens":4,"total_tokens":7} [DONE]`},
		"citations": {"", func(h *scriptedWorker) {
			h.say("It is so.")
			h.end("It is so.", func(run *domain.Run) {
				document := "doc_01k9z9f0v4ex6t2m8r5n1p7q3w"
				run.Citations = []domain.Citation{
					{ID: 1, Type: "web", Title: "T", URL: "https://example.com/", StartIndex: 0, EndIndex: 2},
					{ID: 2, Type: "document", Title: "n.pdf", URL: "/api/knowledge?id=" + document, DocumentID: &document, StartIndex: 3, EndIndex: 9},
				}
			})
		}, `{"role":"assistant","content":""} {"content":"It is so."} {"annotations":[{"type":"url_citation","url_citation":{"start_index":0,"end_index":2,"title":"T","url":"https://example.com/"}},` +
			`{"type":"url_citation","url_citation":{"start_index":3,"end_index":9,"title":"n.pdf","url":"` + r.url + `/api/knowledge?id=doc_01k9z9f0v4ex6t2m8r5n1p7q3w"},"file_citation":{"file_id":"doc_01k9z9f0v4ex6t2m8r5n1p7q3w","filename":"n.pdf","start_index":3,"end_index":9}}]}stop [DONE]`},
		"whole answer at the end": {"", func(h *scriptedWorker) { h.finish("All") }, `{"role":"assistant","content":""} {"content":"All"} {}stop [DONE]`},
		"another attempt says the same": {"", func(h *scriptedWorker) {
			h.say("One an")
			h.checkpoint()
			h.die()
			h.say("One")
			h.say(" and two")
			h.finish("One and two")
		}, `{"role":"assistant","content":""} {"content":"One an"} {"content":"d two"} {}stop [DONE]`},
		"another attempt says something else": {"", func(h *scriptedWorker) {
			h.say("One")
			h.checkpoint()
			h.die()
			h.say("Two")
			h.finish("Two")
		}, `{"role":"assistant","content":""} {"content":"One"} error stream_restarted`},
		"another attempt says less": {"", func(h *scriptedWorker) {
			h.say("One and")
			h.checkpoint()
			h.die()
			h.say("One")
			h.finish("One")
		}, `{"role":"assistant","content":""} {"content":"One and"} error stream_restarted`},
	} {
		body := r.ask(r.agent, `,"stream":true`+tt.more, said("user", "hi"))
		f := r.follow("POST", r.url+completionsPath, r.asKey(), body)
		f.isStream()
		h := r.take()
		if f.res.Header.Get("X-Parley-Run-Id") != h.bell.RunID {
			t.Errorf("%s: headers %v", name, f.res.Header)
		}
		first, _ := f.next() // the stream is open before the worker publishes an event
		tt.publish(h)
		got := first.raw + raw(f.all())
		if joined := strings.Join(chunks(t, got), " "); joined != tt.want {
			t.Errorf("%s:\n got %s\nwant %s", name, joined, tt.want)
		}
		if strings.Contains(tt.want, "stop") && !strings.Contains(got, `"parley":{"runId":"`+h.bell.RunID+`","sessionId":"auto_`) {
			t.Errorf("%s: the last chunk does not name the run: %s", name, got)
		}
	}
}

// When the service stops, waiting requests get the status 503. A retry without an idempotency key
// would run the agent twice, so X-Should-Retry is false for such a request.
func TestStoppingEndsCompletions(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, defaults())
	url, stop := r.serve(defaults(), zerolog.Nop())
	call := func(headers head, body string) chan answer {
		out := make(chan answer, 1)
		go func() { out <- r.callAt(url, "POST", completionsPath, headers, body) }()
		return out
	}
	plain := call(r.asKey(), r.ask(r.agent, "", said("user", "hi")))
	first := r.take()
	keyed := call(r.asKey("Idempotency-Key", "k"), r.ask(r.agent, "", said("user", "hi")))
	second := r.take()
	streaming := call(r.asKey(), r.ask(r.agent, `,"stream":true`, said("user", "hi")))
	third := r.take()
	stop()
	for name, c := range map[string]struct {
		got   answer
		runID string
		again string
	}{"without a key": {<-plain, first.bell.RunID, "false"}, "with a key": {<-keyed, second.bell.RunID, "true"}} {
		c.got.v1(503, "server_error unavailable null")
		if c.got.header.Get("X-Should-Retry") != c.again || c.got.header.Get("X-Parley-Run-Id") != c.runID || c.got.header.Get("Retry-After") == "" {
			t.Errorf("%s: %v", name, c.got.header)
		}
	}
	if got := (<-streaming).want(200); !strings.HasSuffix(got.body, "\n\n") || !strings.Contains(got.body, `"code":"unavailable"`) || !strings.Contains(got.body, third.bell.RunID) {
		t.Errorf("the stream ended with %s", got.body)
	}
	second.finish("done")
	var c completion
	r.call("POST", completionsPath, r.asKey("Idempotency-Key", "k"), r.ask(r.agent, "", said("user", "hi"))).into(&c, 200)
	if c.Parley.RunID != second.bell.RunID || c.Choices[0].Message.Content != "done" {
		t.Errorf("the retry = %+v", c)
	}
}

func TestModels(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, defaults())
	r.withTemplates()
	systemOnly, newer := r.newAgent(`"system"`), r.newAgent(`"user"`)
	deleted := r.newAgent(`"user"`)
	r.call("DELETE", "/api/agents?id="+deleted, r.asKey(), "").want(200)
	var list struct {
		Object string
		Data   []struct {
			ID, Object, Name string
			OwnedBy          string `json:"owned_by"`
			Created          int64
		}
	}
	r.call("GET", "/v1/models", r.asKey(), "").into(&list, 200)
	if list.Object != "list" || len(list.Data) != 2 || list.Data[0].ID != newer || list.Data[1].ID != r.agent || list.Data[1].OwnedBy != r.org ||
		list.Data[1].Object != "model" || list.Data[1].Created == 0 || list.Data[1].Name != "a" {
		t.Errorf("models %+v", list)
	}
	for _, model := range []string{r.agent, "tpl_support"} {
		if got := r.call("GET", "/v1/models/"+model, r.asKey(), "").want(200); !strings.Contains(got.body, `"id":"`+model+`"`) {
			t.Errorf("model %s: %s", model, got.body)
		}
	}
	for _, model := range []string{systemOnly, deleted, "tpl_nothing", "gpt-5", "ag_x", "ag_00000000000000000000000000", "%2e%2e"} {
		r.call("GET", "/v1/models/"+model, r.asKey(), "").v1(404, "invalid_request_error model_not_found model")
	}
	r.call("GET", "/v1/models", nil, "").v1(401, "authentication_error invalid_api_key null")
}
