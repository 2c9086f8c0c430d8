package ingress_test

import (
	"encoding/json"
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"parley/shared/domain"
	"parley/shared/secrets"
	"parley/shared/testkit"
)

const widgetPage = "https://www.example.com"

// embed enables the agent's widget on widgetPage. It returns the headers that a visitor's browser
// sends with a message.
func (r *testEnv) embed() head {
	r.Helper()
	r.call("PUT", "/api/agents?id="+r.agent, r.asKey(), `{"widget":{"enabled":true,"allowedOrigins":["`+widgetPage+`"]}}`).want(200)
	var session struct{ Token string }
	r.call("POST", "/api/widget/sessions", head{"Origin": widgetPage}, `{"agentId":"`+r.agent+`"}`).into(&session, 201)
	return r.visitor(session.Token)
}

func (r *testEnv) visitor(token string) head {
	return head{"Authorization": "Bearer " + token, "Origin": widgetPage, "Idempotency-Key": "k"}
}

// widgetToken returns a token that is valid for the given time. The ingresses of the environment
// can decrypt it.
func (r *testEnv) widgetToken(life time.Duration) string {
	r.Helper()
	box, err := secrets.NewBox(strings.Repeat("ab", 32))
	if err != nil {
		r.Fatal(err)
	}
	over := strconv.FormatInt(time.Now().Add(life).Unix(), 10)
	return box.SealWidgetToken([]byte(`{"a":"` + r.agent + `","o":"` + widgetPage + `","v":"anonymous:x","x":` + over + `}`))
}

func TestAVisitorsAnswerIsStreamedAndResumed(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, defaults())
	other, _ := r.serve(defaults(), zerolog.Nop())
	visitor := r.embed()
	f := r.follow("POST", r.url+r.chatPath(), visitor, streamed)
	f.isStream()
	if f.res.Header.Get("Access-Control-Allow-Origin") != widgetPage {
		t.Errorf("the page cannot read its stream: %v", f.res.Header)
	}
	h := r.take()
	h.say("one ")
	seen := f.until("message.delta")
	h.checkpoint()
	f.leave() // simulates a reload of the page; the new request reaches the other ingress
	visitor["Last-Event-ID"] = seen.id
	again := r.follow("POST", other+r.chatPath(), visitor, streamed)
	again.isStream()
	h.say("two")
	if next := again.until("message.delta"); !strings.Contains(next.data, "two") {
		t.Errorf("resumed with %s", next.data)
	}
	h.finish("one two")
	again.until("run.completed")
}

// Visitors never receive the inputs and outputs of tools, costs or details of errors, neither in
// live responses nor in replays, and neither with nor without a stream. Members of the organization
// receive all of them.
func TestVisitorsDoNotSeeToolData(t *testing.T) {
	t.Parallel()
	const canary = "ceo@corp.example"
	r := newTestEnv(t, defaults())
	visitor := r.embed()
	live := r.follow("POST", r.url+r.chatPath(), visitor, streamed)
	live.isStream()
	h := r.take()
	secret := json.RawMessage(`{"` + canary + `":"` + canary + `"}`)
	calls := []domain.ToolCall{
		{ID: "call_1", Name: "httpRequest", Status: "completed", Input: secret, Output: secret, DurationMS: 12},
		{ID: "call_2", Name: "codeExecution", Status: "failed", Input: secret, Output: secret, DurationMS: 7},
	}
	for _, call := range calls {
		data, err := json.Marshal(map[string]any{"toolCall": call})
		if err != nil {
			t.Fatal(err)
		}
		h.publish(domain.EventToolStarted, string(data))
		h.publish(domain.EventToolCompleted, string(data))
	}
	h.publish(domain.EventRequiresAction, `{"requiredAction":{"kind":"approval","toolCallId":"call_1","name":"httpRequest","input":`+string(secret)+
		`,"expiresAt":"2026-11-21T09:30:00.000Z"}}`)
	h.publish(domain.EventCitationAdded, `{"citation":{"id":1,"type":"web","title":"T","url":"https://example.com/","citedText":"kept","startIndex":0,"endIndex":1,`+
		`"documentId":null,"page":null,"sourceId":null}}`)
	h.checkpoint()
	part := r.follow("POST", r.url+r.chatPath(), visitor, streamed)
	part.isStream()
	hasty := maps.Clone(visitor)
	hasty["Prefer"] = "wait=0"
	pending := r.call("POST", r.chatPath(), hasty, `{"sessionId":"s","message":"hi"}`).want(202)
	h.end("the answer", func(run *domain.Run) {
		run.ToolCalls, run.Usage = calls, domain.Usage{InputTokens: 12345, OutputTokens: 12346, CostMicros: 12347, Model: canary}
		run.Citations = []domain.Citation{{ID: 1, Type: "web", Title: "T", URL: "https://example.com/", CitedText: "kept"}}
		run.Status, run.Error = domain.RunFailed, &domain.RunError{Code: "model_not_available", Message: canary}
	})
	seen := map[string]string{"live": raw(live.all()), "joined": raw(part.all()), "accepted": pending.body}
	seen["replayed stream"] = raw(r.follow("POST", r.url+r.chatPath(), visitor, streamed).all())
	replay := r.call("POST", r.chatPath(), visitor, `{"sessionId":"s","message":"hi"}`).want(200)
	seen["replay"] = replay.body
	for name, text := range seen {
		if strings.Contains(text, canary) || strings.Contains(text, ":1234") {
			t.Errorf("%s: a visitor got %s", name, text)
		}
	}
	if seen["live"] != seen["replayed stream"] || !strings.HasSuffix(seen["live"], `"run":`+seen["replay"]+"}\n\n") {
		t.Errorf("live\n%s\nreplayed\n%s\nnot streamed\n%s", seen["live"], seen["replayed stream"], seen["replay"])
	}
	for _, want := range []string{
		`"toolCall":{"id":"call_2","name":"codeExecution","status":"failed","input":{},"output":null,"durationMs":7}`, `"citedText":"kept"`,
		`"requiredAction":{"kind":"approval","toolCallId":"call_1","name":"httpRequest","input":{},"expiresAt":"2026-11-21T09:30:00.000Z"}`,
		`"toolCalls":[{"id":"call_1","name":"httpRequest","status":"completed","input":{},"output":null,"durationMs":12}`,
		`"usage":{"inputTokens":0,"outputTokens":0,"costMicros":0,"model":""},"error":{"code":"model_not_available","message":"The agent could not answer."}`,
		`"idempotencyKey":"k"`,
	} {
		if !strings.Contains(seen["live"], want) {
			t.Errorf("the stream lacks %s: %s", want, seen["live"])
		}
	}
	for path, times := range map[string]int{"/api/runs?id=" + h.bell.RunID: 10, "/api/runs?stream=1&id=" + h.bell.RunID: 28} {
		if got := r.call("GET", path, r.asKey(), "").want(200); strings.Count(got.body, canary) != times {
			t.Errorf("%s: the organization got %s", path, got.body)
		}
	}
}

// Disabling a widget ends the streams of its visitors at every ingress.
func TestVisitorsStreamsEndWithTheWidget(t *testing.T) {
	t.Parallel()
	cfg := defaults()
	cfg.LimitWidgetVisitor, cfg.LimitWidgetAddress = 1_000_000, 1_000_000
	r := newTestEnv(t, cfg)
	other, _ := r.serve(cfg, zerolog.Nop())
	r.embed()
	short, long := r.visitor(r.widgetToken(5*time.Second)), r.visitor(r.widgetToken(time.Minute))
	f := r.follow("POST", r.url+r.chatPath(), short, streamed)
	f.isStream()
	h := r.take()
	elsewhere := r.follow("POST", other+r.chatPath(), long, streamed)
	elsewhere.isStream()
	short["Prefer"] = "respond-async"
	for began := time.Now(); r.call("POST", r.chatPath(), short, `{"sessionId":"s","message":"hi"}`).status != 401; { // until the token expires
		if testkit.Late(began, 20*time.Second) {
			t.Fatal("the token does not expire")
		}
	}
	h.say("still here")
	f.until("message.delta")
	elsewhere.until("message.delta")
	r.call("PUT", "/api/agents?id="+r.agent, r.asKey(), `{"widget":{"enabled":false}}`).want(200)
	began := time.Now()
	for name, stream := range map[string]*follower{"here": f, "on another ingress": elsewhere} {
		stream.all()
		if took := time.Since(began); took > testkit.Within(8*time.Second) { // 5 s, plus a margin for a busy machine
			t.Errorf("a stream %s continued for %s", name, took)
		}
	}
	for name, base := range map[string]string{"here": r.url, "on another ingress": other} {
		if p := r.callAt(base, "POST", r.chatPath(), long, streamed).problem(403); p.Code != "permission_denied" {
			t.Errorf("%s: %s", name, p.Code)
		}
	}
	h.finish("a")
}
