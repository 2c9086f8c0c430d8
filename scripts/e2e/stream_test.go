package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"parley/scripts/internal/api"
)

// streaming is the HTTP client for streams. It has no timeout, because a stream lasts as long as
// its run.
var streaming = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// event is one server-sent event: its bytes and its fields.
type event struct{ raw, id, kind, data string }

// stream is an open event stream.
type stream struct {
	res *http.Response
	in  *bufio.Reader
}

// openStream sends a request whose response must be a stream of server-sent events. The stream is
// closed when the test ends.
func openStream(t *testing.T, method, url string, header map[string]string, body any) *stream {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*lease+api.Timeout)
	t.Cleanup(cancel)
	req, err := api.NewRequest(ctx, method, url, header, body)
	if err != nil {
		t.Fatal(err)
	}

	res, err := streaming.Do(req)
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { _ = res.Body.Close() })
	if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("no stream: %d %v", res.StatusCode, res.Header)
	}
	return &stream{res: res, in: bufio.NewReader(res.Body)}
}

// watch opens a run's stream. The stream begins after the event whose ID is the argument last. If
// this argument is empty, the stream begins with the first event.
func (a account) watch(t *testing.T, runID, last string) *stream {
	t.Helper()
	header := map[string]string{"x-api-key": a.key}
	if last != "" {
		header["Last-Event-ID"] = last
	}
	return openStream(t, http.MethodGet, a.url+"/api/runs?stream=1&id="+runID, header, nil)
}

// changes opens the stream of change notifications of the organization. It returns when the service
// has confirmed the subscription.
func (a account) changes(t *testing.T) *stream {
	t.Helper()
	s := openStream(t, http.MethodGet, a.url+"/api/events", map[string]string{"x-api-key": a.key}, nil)
	s.until(t, "anything is heard", ofKind("ready"))
	return s
}

// shows reads the newest run after each change notification, as web pages do. It returns when this
// run has the given status.
func (s *stream) shows(t *testing.T, owner account, status string) {
	t.Helper()
	s.until(t, "the newest run was "+status, func(e event) bool {
		var page struct{ Data []api.Run }
		if e.kind == "runs" {
			owner.get(t.Context(), "/api/runs?limit=1").Want(t, http.StatusOK).Into(t, &page)
		}
		return len(page.Data) == 1 && page.Data[0].Status == status
	})
}

// next returns the next event, or the error that ended the stream.
func (s *stream) next() (event, error) {
	var e event
	for {
		line, err := s.in.ReadString('\n')
		if err != nil {
			return e, err
		}
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch name {
		case "id":
			e.id = value
		case "event":
			e.kind = value
		case "data":
			e.data = value
		}
		if e.raw == "" && e.id == "" && e.kind == "" {
			continue // a comment, or the blank line after it
		}
		if e.raw += line; line == "\n" {
			return e, nil
		}
	}
}

// until reads and returns events up to the first one for which found returns true.
func (s *stream) until(t *testing.T, what string, found func(event) bool) (events []event) {
	t.Helper()
	for {
		e, err := s.next()
		if err != nil {
			t.Fatalf("the stream ended before %s: %v", what, err)
		}
		if events = append(events, e); found(e) {
			return events
		}
	}
}

// rest reads a run's stream to its end, and returns the events. The last event must report the
// run's end.
func (s *stream) rest(t *testing.T) (events []event) {
	t.Helper()
	for {
		e, err := s.next()
		if errors.Is(err, io.EOF) {
			return events
		}
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, e)
	}
}

func ofKind(kind string) func(event) bool { return func(e event) bool { return e.kind == kind } }

func bytesFor(events []event) string {
	var out strings.Builder
	for _, e := range events {
		out.WriteString(e.raw)
	}
	return out.String()
}

// answerIn concatenates the pieces of the answer that the events contain.
func answerIn(t *testing.T, events []event) string {
	t.Helper()
	var out strings.Builder
	for _, e := range events {
		var data struct {
			Text string `json:"text"`
		}
		if err := json.Unmarshal([]byte(e.data), &data); err != nil {
			t.Fatal(err)
		}
		out.WriteString(data.Text)
	}
	return out.String()
}

// eventsAfter returns the events after the first one for which found returns true.
func eventsAfter(events []event, found func(event) bool) []event {
	for i, e := range events {
		if found(e) {
			return events[i+1:]
		}
	}
	return nil
}

// TestChaosWorkerKilledMidAnswerNotifiesItsReaders kills a worker in the middle of a streamed
// answer. Readers must get the event run.restarted and then the complete answer of the second
// attempt, on any ingress.
func TestChaosWorkerKilledMidAnswerNotifiesItsReaders(t *testing.T) {
	t.Parallel()
	c := newCluster(t, sandboxed)
	here, there := c.ingress(t), c.ingress(t)
	victim := c.worker(t)
	owner := signUp(t, here.url)
	// The first model call stops in the middle of its answer, so that the test can kill the worker
	// during the call. The second call completes.
	const text = "one two three four five six seven eight nine ten"
	message := "fault stall*1: " + text
	header := map[string]string{"x-api-key": owner.key, "Idempotency-Key": "k"}
	chat := map[string]any{"sessionId": "s", "message": message, "stream": true}
	whole := openStream(t, http.MethodPost, here.url+"/api/agents?action=chat&id="+owner.agent, header, chat)
	runID := strings.TrimPrefix(whole.res.Header.Get("Location"), "/api/runs?id=")
	before := whole.until(t, "the middle of the answer", func(e event) bool { return strings.Contains(e.data, "four") })
	c.model.awaitCalls(t, message, 1)
	eventually(t, 10*time.Second, "a checkpoint is stored", func() bool { return c.number(t, "SELECT count(*) FROM run_events") > 0 })
	victim.Kill9()
	// A client that resumes while no worker executes the run must get the same events as a client
	// that stayed connected.
	resumed := owner.at(there).watch(t, runID, before[len(before)-1].id)
	late := owner.at(there).watch(t, runID, "")
	c.worker(t)

	after := whole.rest(t)
	if len(after) < 3 || after[len(after)-1].kind != "run.completed" {
		t.Fatalf("the stream ended with %q", bytesFor(after))
	}

	again := eventsAfter(after, ofKind("run.restarted"))
	if got := answerIn(t, again); got != echoed(text) {
		t.Fatalf("after run.restarted the stream contains %q", got)
	}
	if !strings.Contains(bytesFor(after), `"afterStep":0`) {
		t.Errorf("no step was recorded, but the stream contains %q", bytesFor(after))
	}
	if got := bytesFor(resumed.rest(t)); got != bytesFor(after) {
		t.Errorf("stream resumed on the other ingress =\n%s\nwant that of the client that stayed connected\n%s", got, bytesFor(after))
	}
	if got := answerIn(t, eventsAfter(late.rest(t), ofKind("run.restarted"))); got != echoed(text) {
		t.Errorf("stream of a late client = %q", got)
	}

	checkFinalLog(t, owner, there, runID, again)
	replay := openStream(t, http.MethodPost, there.url+"/api/agents?action=chat&id="+owner.agent, header, chat)
	if final := owner.watch(t, runID, "").rest(t); bytesFor(replay.rest(t)) != bytesFor(final) || replay.res.Header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("the replay differs from the log; headers: %v", replay.res.Header)
	}
	if calls := c.model.count(message); calls != 2 {
		t.Errorf("%d model calls, want 2: one for each attempt", calls)
	}
}

// checkFinalLog reads the event log of a finished run on two ingresses: completely, and starting
// after each event.
func checkFinalLog(t *testing.T, owner account, there *edge, runID string, ending []event) {
	t.Helper()
	final := owner.watch(t, runID, "").rest(t)
	if got := bytesFor(eventsAfter(final, ofKind("run.restarted"))); got != bytesFor(ending) {
		t.Errorf("end of the log =\n%s\nwant the live events\n%s", got, bytesFor(ending))
	}
	for i, e := range final[:len(final)-1] {
		if got := bytesFor(owner.at(there).watch(t, runID, e.id).rest(t)); got != bytesFor(final[i+1:]) {
			t.Errorf("resumed after %s, the stream is\n%s", e.id, got)
		}
	}
	last := map[string]string{"x-api-key": owner.key, "Last-Event-ID": final[len(final)-1].id}
	api.Send(t.Context(), http.MethodGet, there.url+"/api/runs?stream=1&id="+runID, last, nil).Want(t, http.StatusNoContent)
}

// Events normally arrive through the bus as they happen. While the bus is down, they come from
// checkpoints in the database, and no stream breaks.
func TestChaosNATSKilledMidStream(t *testing.T) {
	t.Parallel()
	c := newCluster(t, sandboxed)
	in := c.ingress(t)
	owner := signUp(t, in.url)
	page := owner.changes(t)
	const text = "one two three four"
	message := "sleep 10s: " + text
	header := map[string]string{"x-api-key": owner.key}
	s := openStream(t, http.MethodPost, in.url+"/api/agents?action=chat&id="+owner.agent, header, map[string]any{"sessionId": "s", "message": message, "stream": true})
	page.shows(t, owner, "queued")
	c.worker(t)
	s.until(t, "the start", ofKind("run.started"))
	page.shows(t, owner, "running") // the worker has published this status
	c.model.awaitCalls(t, message, 1)
	c.nats.Kill9()
	events := s.rest(t)
	if got := answerIn(t, events); got != echoed(text) || events[len(events)-1].kind != "run.completed" {
		t.Errorf("answer without the bus = %q: %s", got, bytesFor(events))
	}

	c.nats.Restart()
	page.until(t, "everything was told after the outage", ofKind("documents"))
	next := map[string]any{"sessionId": "s", "message": "sleep 10s: after", "stream": true}
	after := openStream(t, http.MethodPost, in.url+"/api/agents?action=chat&id="+owner.agent, header, next)
	page.shows(t, owner, "running")
	if got := answerIn(t, after.rest(t)); got != echoed("after") {
		t.Errorf("answer after the bus came back = %q", got)
	}

	page.shows(t, owner, "completed")
}
