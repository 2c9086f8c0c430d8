package ingress_test

import (
	"fmt"
	"strings"
	"testing"

	"parley/shared/domain"
	"parley/shared/id"
)

type sessionEntry struct {
	ID                  string
	AgentID, TemplateID *string
	Principal           string
	Runs                int
}

type message struct {
	ID, Role, Content, RunID, Status string
	Citations                        *[]domain.Citation
}

type sessionPage struct {
	sessionEntry
	Messages   []message
	HasMore    bool
	NextCursor *string
}

func (r *testEnv) asPerson(more ...string) head {
	h := r.asKey(more...)
	delete(h, "x-api-key")
	h["Authorization"] = "Bearer " + r.token
	return h
}

// chat sends a message in the session s and returns the run of the message.
func (r *testEnv) chat(target, text string, headers head) domain.Run {
	r.Helper()
	return r.call("POST", "/api/agents?action=chat&"+target, headers, fmt.Sprintf(`{"sessionId":"s","message":%q}`, text)).run(200)
}

func (r *testEnv) sessions(query string, headers head) string {
	r.Helper()
	var list struct{ Data []sessionEntry }
	r.call("GET", "/api/sessions"+query, headers, "").into(&list, 200)
	out := ""
	for _, s := range list.Data {
		target := "-"
		if s.AgentID != nil && s.TemplateID == nil {
			target = strings.Split(*s.AgentID, "_")[0]
		} else if s.TemplateID != nil {
			target = *s.TemplateID
		}
		kind, _, _ := strings.Cut(s.Principal, "_")
		out += fmt.Sprintf("%s@%s/%s:%d ", s.ID, target, kind, s.Runs)
	}
	return strings.TrimSpace(out)
}

func TestSessionsContainTheirMessages(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, defaults())
	r.echo()
	ada := r.asPerson()
	first := r.chat("id="+r.agent, "one", ada)
	r.chat("id="+r.agent, "two", ada)
	r.chat("id="+r.newAgent(`"user"`), "three", ada) // the same session id with another agent
	r.chat("id="+r.agent, "four", r.asKey())         // the same session id from another caller
	r.call("POST", runPath, r.asKey(), trigger(r.agent, `,"sessionId":"nightly"`)).want(200)
	const all = "nightly@ag/system:1 s@ag/key:1 s@ag/usr:1 s@ag/usr:2"
	if got := r.sessions("", ada); got != all {
		t.Errorf("an owner sees %q", got)
	}
	if got := r.sessions("", r.asKey()); got != all {
		t.Errorf("the organization's key sees %q", got)
	}
	if got := r.sessions("?principal=system", ada); got != "nightly@ag/system:1" {
		t.Errorf("automations' sessions: %q", got)
	}

	var s sessionPage
	path := "/api/sessions?id=s&agentId=" + r.agent
	r.call("GET", path, ada, "").into(&s, 200)
	if s.ID != "s" || *s.AgentID != r.agent || s.TemplateID != nil || s.Runs != 2 || s.HasMore || s.NextCursor != nil || len(s.Messages) != 4 {
		t.Fatalf("session %+v", s)
	}
	q, a := s.Messages[0], s.Messages[1]
	if q.Role != "user" || q.Content != "one" || q.RunID != first.ID || q.Status != "completed" || q.Citations != nil ||
		a.Role != "assistant" || a.Content != "echo: one" || a.RunID != first.ID || a.Citations == nil || len(*a.Citations) != 0 || s.Messages[2].Content != "two" {
		t.Errorf("messages %+v", s.Messages)
	}
	seen := map[string]bool{}
	for _, m := range s.Messages {
		if !id.Valid(id.Message, m.ID) || seen[m.ID] {
			t.Errorf("message id %q is malformed or repeated", m.ID)
		}
		seen[m.ID] = true
	}
	var again, older sessionPage
	r.call("GET", path+"&limit=1", ada, "").into(&again, 200)
	if len(again.Messages) != 2 || again.Messages[0] != s.Messages[2] || !again.HasMore || again.Runs != 2 {
		t.Fatalf("newest turn %+v", again)
	}
	r.call("GET", path+"&limit=1&cursor="+*again.NextCursor, ada, "").into(&older, 200)
	if len(older.Messages) != 2 || older.Messages[0] != q || older.HasMore {
		t.Errorf("older turn %+v", older)
	}
	r.call("GET", "/api/sessions?id=s&agentId="+r.agent, r.asKey(), "").into(&s, 200)
	if s.Messages[0].Content != "four" || !strings.HasPrefix(s.Principal, "key_") {
		t.Errorf("the key's own session %+v", s)
	}
	var foreign struct{ Token string }
	r.call("POST", "/api/auth/signup", nil, `{"email":"eve@example.com","password":"correct horse battery"}`).into(&foreign, 201)
	eve := head{"Authorization": "Bearer " + foreign.Token}
	if got := r.sessions("", eve); got != "" {
		t.Errorf("another user sees %q", got)
	}
	r.call("GET", path, eve, "").problem(404)
	r.call("DELETE", path, eve, "").problem(404)
	for _, method := range []string{"GET", "DELETE"} {
		if p := r.call(method, path, head{"x-tenant-id": "tenant_demo"}, "").problem(403); p.Code != "demo_restricted" {
			t.Errorf("demo: %+v", p)
		}
	}
}

func TestErasingASessionAnswersWaitingRequests(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, defaults())
	ada := r.asPerson()
	keyed := r.asPerson("Idempotency-Key", "k")
	chat := "/api/agents?action=chat&id=" + r.agent
	path := "/api/sessions?id=s&agentId=" + r.agent
	body := `{"sessionId":"s","message":"hi"}`
	answered := make(chan answer)
	ask := func(method, path string, headers head, body string) {
		go func() { answered <- r.call(method, path, headers, body) }()
	}
	run := r.call("POST", chat, r.asPerson("Idempotency-Key", "k", "Prefer", "respond-async"), body).run(202)
	ask("POST", chat, keyed, body)                      // joins the existing run, because it has the same idempotency key
	ask("POST", chat, ada, body)                        // starts another run
	ask("GET", "/api/runs?wait=10&id="+run.ID, ada, "") // polls the run
	for !strings.Contains(r.call("GET", "/metrics", nil, "").want(200).body, "requests_in_flight 4") {
		if t.Context().Err() != nil {
			t.Fatal("no request waits")
		}
	}
	var open sessionPage
	for open.Runs < 2 {
		r.call("GET", path, ada, "").into(&open, 200)
	}
	if len(open.Messages) != 2 || open.Messages[0].Role != "user" || open.Messages[1].Role != "user" || open.Messages[0].Status != "queued" {
		t.Errorf("unfinished runs are shown as %+v", open.Messages)
	}
	if got := r.call("DELETE", path, ada, "").want(200).body; got != `{"id":"s","deleted":true}` {
		t.Errorf("erasing: %s", got)
	}
	for range 3 {
		if p := (<-answered).problem(410); p.Code != "erased" {
			t.Errorf("a waiting request got %+v", p)
		}
	}
	r.call("POST", chat, keyed, body).problem(410)
	r.call("GET", "/api/runs?id="+run.ID, ada, "").problem(410)
	r.call("POST", "/api/runs?action=cancel&id="+run.ID, ada, "").problem(410)
	r.call("GET", path, ada, "").problem(404)
	r.call("DELETE", path, ada, "").problem(404)
	var list struct{ Data []domain.RunSummary }
	if r.call("GET", "/api/runs", ada, "").into(&list, 200); len(list.Data) != 0 {
		t.Errorf("runs %+v", list.Data)
	}
	r.echo()
	fresh := r.chat("id="+r.agent, "again", ada)
	var s sessionPage
	r.call("GET", path, ada, "").into(&s, 200)
	if s.Runs != 1 || len(s.Messages) != 2 || s.Messages[0].RunID != fresh.ID {
		t.Errorf("the new session %+v", s)
	}
}
