package parley

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// asked is a request that the test's service has received.
type asked struct {
	method, target, body string
	header               http.Header
}

// scripted returns a client of a service that gives the listed responses in order. It also returns
// the requests that the service has received. A response is JSON, an event stream, or "broken" for
// a broken connection.
func scripted(t *testing.T, options Options, responses ...string) (*Client, func() []asked) {
	t.Helper()
	var mu sync.Mutex
	var all []asked
	client, _ := served(t, options, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		all = append(all, asked{r.Method, r.URL.String(), string(body), r.Header})
		response := responses[min(len(all), len(responses))-1]
		mu.Unlock()
		switch {
		case response == "broken":
			breakOff(w)
		case response == "gone":
			problem(w, http.StatusNotFound, "not_found", "")
		case strings.HasPrefix(response, "id: "):
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, response)
		default:
			fmt.Fprint(w, response)
		}
	})
	return client, func() []asked {
		mu.Lock()
		defer mu.Unlock()
		return all
	}
}

func TestAMessageWaitsForItsRun(t *testing.T) {
	t.Parallel()
	client, requests := scripted(t, Options{},
		`{"id":"run_1","status":"queued"}`, `{"id":"run_1","status":"running"}`, `{"id":"run_1","status":"completed","message":"hi"}`)
	run, err := client.Chat.Send(t.Context(), ChatParams{AgentID: "ag_1", Message: "hello", IdempotencyKey: "k"})
	if err != nil {
		t.Fatal(err)
	}
	if answer, err := run.Completed(); answer != "hi" || err != nil {
		t.Errorf("%q %v", answer, err)
	}

	sent := requests()
	first := sent[0]
	if len(sent) != 3 || first.method+" "+first.target != "POST /api/agents?action=chat&id=ag_1" || first.body != `{"message":"hello","sessionId":"key-k"}` {
		t.Errorf("%+v", sent)
	}
	if first.header.Get("Prefer") != "respond-async" || first.header.Get("Idempotency-Key") != "k" || sent[2].target != "/api/runs?id=run_1&wait=55" {
		t.Errorf("%+v", sent)
	}
}

// TestVisitorsRepeatTheMessage uses the client of a visitor. Visitors may not read runs, so the
// client repeats the message instead.
func TestVisitorsRepeatTheMessage(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]Options{"demo": {Demo: true}, "widget": {Key: "wt_x"}} {
		client, requests := scripted(t, options, `{"id":"run_1","status":"running"}`, `{"id":"run_1","status":"completed","message":"hi"}`)
		if _, err := client.Chat.Send(t.Context(), ChatParams{TemplateID: "tpl_x", Message: "hello"}); err != nil {
			t.Fatal(err)
		}
		sent := requests()
		if len(sent) != 2 || sent[1].target != sent[0].target || sent[1].header.Get("Prefer") != "wait=55" ||
			sent[1].header.Get("Idempotency-Key") != sent[0].header.Get("Idempotency-Key") {
			t.Errorf("%s: %+v", name, sent)
		}
	}
}

func TestAnEndedWaitNamesTheRun(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	client, _ := served(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			cancel(enough)
		}
		fmt.Fprint(w, `{"id":"run_1","status":"running"}`)
	})

	_, err := client.Automations.Run(ctx, AutomationParams{Target: "ag_1", Message: "x"})
	if ended, is := errors.AsType[*WaitError](err); !is || ended.RunID != "run_1" || !errors.Is(err, enough) {
		t.Errorf("%v", err)
	}
}

func TestAFailedRunIsNoAnswer(t *testing.T) {
	t.Parallel()
	for status, says := range map[RunStatus]string{RunStatusFailed: "run_1 is failed: no (x)", RunStatusRequiresAction: "run_1 is requires_action"} {
		run := &Run{ID: "run_1", Status: status}
		if status == RunStatusFailed {
			run.Error = &RunError{Code: "x", Message: "no"}
		}
		_, err := run.Completed()
		if failed, is := errors.AsType[*RunFailedError](err); !is || failed.Run != run || !strings.HasSuffix(err.Error(), says) {
			t.Errorf("%v, want %s", err, says)
		}
	}
}

func frame(id, event, data string) string {
	return fmt.Sprintf("id: %s\nevent: %s\ndata: {\"runId\":\"run_1\",%s}\n\n", id, event, data)
}

// TestTextIsNotRepeated restarts a run after the client has received a part of the answer. The text
// that follows must not repeat this part.
func TestTextIsNotRepeated(t *testing.T) {
	t.Parallel()
	for second, want := range map[string]string{"hello world": "hello world", "help": "", "hel": ""} {
		stream := frame("1.1", "message.delta", `"text":"hello"`) + frame("2.1", "run.restarted", `"afterStep":0`) +
			frame("2.2", "message.delta", fmt.Sprintf(`"text":%q`, second)) + frame("2.3", "run.completed", `"run":{"id":"run_1","status":"completed"}`)
		client, _ := scripted(t, Options{}, stream)
		var got strings.Builder
		var failed error
		for text, err := range client.Runs.Stream("run_1", "").Text(t.Context()) {
			failed = err
			got.WriteString(text)
		}
		if want == "" && !errors.Is(failed, ErrRestarted) || want != "" && (failed != nil || got.String() != want) {
			t.Errorf("%q: %q %v", second, got.String(), failed)
		}
	}
}

// TestAStreamContinues leaves a loop over the events of a message. The next loop must continue
// after the last event.
func TestAStreamContinues(t *testing.T) {
	t.Parallel()
	begun := frame("0.1", "run.created", `"a":1`) + frame("1.1", "run.started", `"a":1`)
	client, requests := scripted(t, Options{}, begun, frame("1.2", "run.completed", `"run":{"id":"run_1","status":"completed","message":"hi"}`))
	stream := client.Chat.Stream(ChatParams{AgentID: "ag_1", Message: "hello"})
	for _, err := range stream.Events(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		break
	}
	if stream.RunID() != "run_1" || stream.LastEventID() != "0.1" {
		t.Errorf("%s %s", stream.RunID(), stream.LastEventID())
	}

	run, err := stream.Run(t.Context())
	if err != nil || *run.Message != "hi" {
		t.Errorf("%+v %v", run, err)
	}
	if sent := requests(); len(sent) != 2 || sent[1].header.Get("Last-Event-ID") != "0.1" || sent[1].body != sent[0].body || !strings.Contains(sent[0].body, `"stream":true`) {
		t.Errorf("%+v", sent)
	}
}

func TestListsAreReadPageByPage(t *testing.T) {
	t.Parallel()
	client, requests := scripted(t, Options{}, `{"data":[{"id":"a"},{"id":"b"}],"hasMore":true,"nextCursor":"c1"}`, `{"data":[{"id":"c"}],"hasMore":false,"nextCursor":null}`)
	agents := client.Agents.List(AgentQuery{Q: "x", Paging: Paging{Limit: 2}})
	ids := ""
	for agent, err := range agents.All(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		ids += agent.ID
	}
	if sent := requests(); ids != "abc" || len(sent) != 2 || sent[0].target != "/api/agents?limit=2&q=x" || sent[1].target != "/api/agents?cursor=c1&limit=2&q=x" {
		t.Errorf("%s %+v", ids, sent)
	}
}

// TestALostDeletionCounts breaks the connection before the response to a deletion. The retry finds
// no object, because the first request has deleted it.
func TestALostDeletionCounts(t *testing.T) {
	t.Parallel()
	client, _ := scripted(t, Options{}, "broken", "gone")
	if err := client.Agents.Delete(t.Context(), "ag_1"); err != nil {
		t.Error(err)
	}
	client, _ = scripted(t, Options{}, "gone")
	if err := client.Agents.Delete(t.Context(), "ag_1"); err == nil {
		t.Error("deleted an agent that does not exist")
	}
}

func TestInvalidArgumentsAreNotSent(t *testing.T) {
	t.Parallel()
	client, requests := scripted(t, Options{}, `{}`)
	ctx := t.Context()
	_, noID := client.Runs.Get(ctx, "")
	_, noTarget := client.Chat.Send(ctx, ChatParams{Message: "x"})
	_, twoTargets := client.Chat.Send(ctx, ChatParams{Message: "x", AgentID: "ag_1", TemplateID: "tpl_1"})
	_, longKey := client.Chat.Send(ctx, ChatParams{Message: "x", AgentID: "ag_1", IdempotencyKey: strings.Repeat("k", 125)})
	_, notText := client.Agents.Create(ctx, NewAgent{Name: new("\xff")})
	for what, err := range map[string]error{"no id": noID, "no target": noTarget, "two targets": twoTargets, "a long key": longKey, "no text": notText} {
		if err == nil {
			t.Errorf("%s was sent", what)
		}
	}
	if wrong, is := errors.AsType[*TextError](notText); !is || wrong.Field != "name" {
		t.Errorf("%v", notText)
	}
	if sent := requests(); len(sent) != 0 {
		t.Errorf("%+v", sent)
	}
}

// TestOmittedFieldsAreNotSent changes one field. Fields that are nil are not sent, but empty lists
// are, because they have a meaning.
func TestOmittedFieldsAreNotSent(t *testing.T) {
	t.Parallel()
	raw, err := json.Marshal(AgentChange{Description: new(""), FallbackModels: []string{}, Version: new(int64(3))})
	if err != nil || string(raw) != `{"description":"","fallbackModels":[],"version":3}` {
		t.Errorf("%s %v", raw, err)
	}
}

func TestCredentials(t *testing.T) {
	for name, c := range map[string]struct {
		options Options
		key     string
		header  map[string]string
	}{
		"key":            {Options{Key: "ak_1"}, "ak_env", map[string]string{"X-Api-Key": "ak_1"}},
		"environment":    {Options{Organization: "org_1"}, "ak_env", map[string]string{"X-Api-Key": "ak_env", "X-Organization-Id": "org_1"}},
		"session token":  {Options{Key: "ps_1"}, "", map[string]string{"Authorization": "Bearer ps_1"}},
		"demo":           {Options{Demo: true}, "ak_env", map[string]string{"X-Tenant-Id": "tenant_demo"}},
		"none":           {Options{}, "", nil},
		"demo and a key": {Options{Demo: true, Key: "ak_1"}, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("PARLEY_API_KEY", c.key)
			t.Setenv("PARLEY_ORGANIZATION_ID", "")
			client, err := New(c.options)
			if (err == nil) != (c.header != nil) {
				t.Fatal(err)
			}
			if err != nil {
				return
			}
			delete(client.header, "User-Agent")
			if fmt.Sprint(client.header) != fmt.Sprint(c.header) {
				t.Errorf("%v, want %v", client.header, c.header)
			}
		})
	}
}
