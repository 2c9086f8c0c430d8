package httpapi

import (
	"context"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"parley/ingress/internal/auth"
	"parley/ingress/internal/dispatch"
	"parley/ingress/internal/openaiapi"
	"parley/ingress/internal/readers"
	"parley/ingress/internal/stream"
	"parley/shared/bus"
	"parley/shared/domain"
	"parley/shared/testkit"
)

// edge is an ingress process in a test with several ingress processes.
type edge struct {
	*runEnv

	handler http.Handler
}

// edges returns two ingress processes that share a database and a bus.
func (a *runEnv) edges() (first, second edge) {
	a.t.Helper()
	b, err := bus.Dial(a.nats, "second", zerolog.Nop())
	must(a.t, err)
	a.t.Cleanup(b.Close)
	d := dispatch.New(dispatch.Config{BacklogMax: 1_000_000}, a.store, b, zerolog.Nop())
	hub := stream.New(a.store.Executions, b.NewWatch(), zerolog.Nop())
	left := newReaders(b, d, hub)
	var wg sync.WaitGroup
	for _, run := range []func(context.Context) error{d.Run, hub.Run, left.Run} {
		wg.Go(func() {
			if err := run(a.t.Context()); err != nil {
				a.t.Errorf("the second ingress ended with %v", err)
			}
		})
	}
	a.t.Cleanup(wg.Wait)
	deps := a.deps
	deps.Dispatch, deps.Runs, deps.Streams, deps.Readers = d, d, hub, left
	other, err := newAPI(deps, auth.NewPasswords(0, cheapPasswords))
	must(a.t, err)
	m, err := newMetrics(nil)
	must(a.t, err)
	return edge{a, a.handler}, edge{a, other.engine(m)}
}

// connection is a request whose client can disconnect.
type connection struct {
	cancel context.CancelFunc
	done   chan *httptest.ResponseRecorder

	mu   sync.Mutex
	text strings.Builder // the part of the response body received so far
}

// received returns the part of the response body received so far.
func (c *connection) received() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text.String()
}

// tee is a response recorder whose body can be read while the response is written.
type tee struct {
	*httptest.ResponseRecorder

	c *connection
}

// Write appends b to the body received so far.
func (w tee) Write(b []byte) (int, error) {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	w.c.text.Write(b)
	return w.ResponseRecorder.Write(b)
}

// leave disconnects the client and waits until the service has noticed the disconnection.
func (c *connection) leave() { c.cancel(); <-c.done }

// open sends a request and returns it as a connection that the test can close.
func (e edge) open(method, target, body string, headers ...string) *connection {
	e.t.Helper()
	ctx, cancel := context.WithCancel(e.t.Context())
	req := httptest.NewRequestWithContext(ctx, method, target, strings.NewReader(body))
	req.RemoteAddr = "10.0.0.1:1"
	req.Header.Set("Content-Type", "application/json")
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	c := &connection{cancel: cancel, done: make(chan *httptest.ResponseRecorder, 1)}
	e.t.Cleanup(cancel)
	go func() {
		rec := httptest.NewRecorder()
		e.handler.ServeHTTP(tee{rec, c}, req)
		c.done <- rec
	}()
	return c
}

// sessionRuns waits until n runs have the given message. It returns their ids, oldest first.
func (a *runEnv) sessionRuns(message string, n int) []string {
	a.t.Helper()
	var ids []string
	eventually(a.t, "the runs of "+message, func() bool {
		var all string
		must(a.t, a.sql.QueryRowContext(a.t.Context(),
			`SELECT coalesce(string_agg(id, ' ' ORDER BY id), '') FROM runs WHERE input->>'message' = $1`, message).Scan(&all))
		ids = strings.Fields(all)
		return len(ids) >= n
	})
	return ids
}

func (a *runEnv) runStatus(runID string) (status domain.RunStatus) {
	a.t.Helper()
	must(a.t, a.sql.QueryRowContext(a.t.Context(), `SELECT coalesce(r.status, o.status) FROM runs r
		LEFT JOIN open_runs o ON o.run_id = r.id WHERE r.id = $1`, runID).Scan(&status))
	return status
}

// runStatuses returns the status of each run.
func (a *runEnv) runStatuses() map[string]domain.RunStatus {
	a.t.Helper()
	rows, err := a.sql.QueryContext(a.t.Context(), `SELECT r.id, coalesce(r.status, o.status) FROM runs r
		LEFT JOIN open_runs o ON o.run_id = r.id`)
	must(a.t, err)
	defer func() { _ = rows.Close() }() // rows.Err has the error
	statuses := map[string]domain.RunStatus{}
	for rows.Next() {
		var runID string
		var status domain.RunStatus
		must(a.t, rows.Scan(&runID, &status))
		statuses[runID] = status
	}
	must(a.t, rows.Err())
	return statuses
}

// say claims a run and publishes parts of its answer, like a worker.
func (a *runEnv) say(runID string, pieces ...string) {
	a.t.Helper()
	held := a.claimAccepted(runID)
	var lines []byte
	for _, text := range pieces {
		lines = domain.AppendEventLine(lines, domain.EventMessageDelta, []byte(`{"text":"`+text+`"}`))
	}
	a.bus.Events(runID, domain.EventChunk{Fence: held.Fence, First: 2, Lines: lines})
}

func (a *runEnv) isCancelled(runID string, within time.Duration) {
	a.t.Helper()
	began := time.Now()
	eventually(a.t, runID+" is cancelled", func() bool { return a.runStatus(runID) == domain.RunCancelled })
	if took := time.Since(began); took > testkit.Scaled(within) {
		a.t.Errorf("the run was cancelled after %s", took)
	}
}

// pass waits until the duration d has passed.
func pass(t *testing.T, d time.Duration) {
	t.Helper()
	over := time.Now().Add(d)
	eventually(t, "time passes", func() bool { return time.Now().After(over) })
}

const (
	graceOver = readers.Grace + 2*time.Second // time after which a run without readers is cancelled
	atOnce    = 3 * time.Second               // shorter than the grace period
)

// uiBody returns a request body that is valid for both the AI SDK and AG-UI.
func uiBody(session, message string) string {
	return `{"id":"` + session + `","threadId":"` + session + `","runId":"r","messages":[{"id":"m","role":"user","content":"` + message +
		`","parts":[{"type":"text","text":"` + message + `"}]}],"tools":[],"context":[]}`
}

// toolCall returns an MCP request that calls an agent as a tool.
func (a *runEnv) toolCall(h *testOrg, agentID, requestID, message string) string {
	a.t.Helper()
	got := a.ok("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, h.ownerKey, h.header, "Accept: application/json, text/event-stream")
	name := regexp.MustCompile(`"name":"([^"]+)"`).FindStringSubmatch(string(got.body))
	if name == nil {
		a.t.Fatalf("no tool for %s in %s", agentID, got.body)
	}
	return `{"jsonrpc":"2.0","id":` + requestID + `,"method":"tools/call","params":{"name":"` + name[1] + `","arguments":{"message":"` + message + `"}}}`
}

// In some protocols, users expect that disconnecting cancels the run. With these protocols, a run
// is cancelled when its client disconnects. Background runs, runs with an idempotency key and runs
// of Parley's own protocol continue.
func TestARunEndsAfterItsLastReader(t *testing.T) {
	t.Parallel()
	a := newWaitingRunEnv(t, unlimited)
	home := a.newTestOrg("home")
	agentID := a.newAgent(home)
	here, _ := a.edges()
	chat, call := "/api/agents?action=chat&id="+agentID, a.toolCall(home, agentID, "1", "$m")
	const before = 500 * time.Millisecond // tolerance, because the clocks of test and service are read at different times
	type opened struct {
		*connection
		name, runID string
		least, most time.Duration // bounds of the time until the run is cancelled; if most is 0, the run continues
		left        time.Time
	}
	var all []*opened
	for _, tc := range []struct {
		name, target, body, header string
		least, most                time.Duration
	}{
		{"completion", "/v1/chat/completions", `{"model":"` + agentID + `","messages":[{"role":"user","content":"$m"}]}`, "", readers.Grace, graceOver},
		{"completion-stream", "/v1/chat/completions", `{"model":"` + agentID + `","stream":true,"messages":[{"role":"user","content":"$m"}]}`, "", readers.Grace, graceOver},
		{"response", "/v1/responses", `{"model":"` + agentID + `","input":"$m"}`, "", readers.Grace, graceOver},
		{"ai-sdk", chat + "&format=ai-sdk", uiBody("$m", "$m"), "", readers.Grace, graceOver},
		{"ag-ui", chat + "&format=ag-ui", uiBody("$m", "$m"), "", 0, atOnce},
		{"mcp", "/mcp", call, "", readers.Grace, graceOver},
		{"background", "/v1/responses", `{"model":"` + agentID + `","stream":true,"background":true,"input":"$m"}`, "", 0, 0},
		{"keyed", "/v1/responses", `{"model":"` + agentID + `","stream":true,"input":"$m"}`, "Idempotency-Key: k", 0, 0},
		{"own-stream", chat, `{"sessionId":"$m","message":"$m","stream":true}`, "", 0, 0},
		{"own", chat, `{"sessionId":"$m","message":"$m"}`, "", 0, 0},
	} {
		headers := []string{home.ownerKey, home.header, "Accept: application/json, text/event-stream"}
		if strings.HasPrefix(tc.target, "/api") {
			headers = headers[:2]
		}
		if tc.header != "" {
			headers = append(headers, tc.header)
		}
		c := here.open("POST", tc.target, strings.ReplaceAll(tc.body, "$m", tc.name), headers...)
		all = append(all, &opened{connection: c, name: tc.name, runID: a.sessionRuns(tc.name, 1)[0], least: tc.least, most: tc.most})
	}

	for _, o := range all {
		o.leave()
		o.left = time.Now()
	}
	// All clients have left at the same time. When the grace period of the runs that must be
	// cancelled has ended, the grace periods of the other runs would have ended, too.
	ended, due := map[string]time.Duration{}, 0
	for _, o := range all {
		if o.most > 0 {
			due++
		}
	}
	eventually(t, "the grace period has ended", func() bool {
		for runID, status := range a.runStatuses() {
			for _, o := range all {
				if _, known := ended[o.name]; !known && o.runID == runID && status == domain.RunCancelled {
					ended[o.name] = time.Since(o.left)
				}
			}
		}
		return len(ended) >= due && time.Since(all[len(all)-1].left) > graceOver
	})
	for _, o := range all {
		took, cancelled := ended[o.name]
		switch {
		case cancelled != (o.most > 0):
			t.Errorf("%s: cancelled: %v", o.name, cancelled)
		case cancelled && (took < o.least-before || took > testkit.Scaled(o.most)):
			t.Errorf("%s: cancelled after %s, not between %s and %s", o.name, took, o.least, o.most)
		}
	}
}

// A user stops a run by disconnecting. The next message in the session cancels this run, even if
// the message is sent to another ingress process. The history contains the part of the answer that
// was shown.
func TestTheNextMessageCancelsAStoppedRun(t *testing.T) {
	t.Parallel()
	a := newWaitingRunEnv(t, unlimited)
	home := a.newTestOrg("home")
	agentID := a.newAgent(home)
	here, there := a.edges()
	chat := "/api/agents?action=chat&format=ai-sdk&id=" + agentID

	stopped := here.open("POST", chat, uiBody("s", "first"), home.key)
	other := here.open("POST", chat, uiBody("other", "neighbour"), home.key)
	first, neighbour := a.sessionRuns("first", 1)[0], a.sessionRuns("neighbour", 1)[0]
	a.say(first, "Once ", "upon")
	eventually(t, "the client has received the text", func() bool { return strings.Contains(stopped.received(), "upon") })
	stopped.leave()
	next := there.open("POST", chat, uiBody("s", "second"), home.key)
	second := a.sessionRuns("second", 1)[0]
	a.isCancelled(first, atOnce)
	a.claimAccepted(second)

	shown := a.ok("GET", "/api/sessions?id=s&agentId="+agentID, "", home.key)
	if text := string(shown.body); !strings.Contains(text, `"content":"Once upon"`) || !strings.Contains(text, `"interrupted":true`) {
		t.Errorf("the session shows %s", text)
	}
	turns, err := a.store.Sessions.History(t.Context(), home.org, a.sessionRef(second), 2, 10)
	must(t, err)
	if len(turns) != 1 || turns[0].Message != "first" || turns[0].Answer != "Once upon" {
		t.Errorf("the history of the next run: %+v", turns)
	}

	// The next message also cancels the previous run if the message arrives before the client of
	// that run disconnects.
	third := here.open("POST", chat, uiBody("s", "third"), home.key)
	a.sessionRuns("third", 1)
	next.leave()
	a.isCancelled(second, atOnce)
	third.leave()
	if got := a.runStatus(neighbour); got != domain.RunQueued {
		t.Errorf("the neighbour's run is %s", got)
	}
	other.leave()
}

// After its first client has disconnected, a run continues as long as it has a reader at another
// ingress process.
func TestAReaderElsewhereKeepsTheRun(t *testing.T) {
	t.Parallel()
	a := newWaitingRunEnv(t, unlimited)
	home := a.newTestOrg("home")
	agentID := a.newAgent(home)
	here, there := a.edges()
	chat := "/api/agents?action=chat&format=ai-sdk&id=" + agentID
	c := here.open("POST", chat, uiBody("s", "kept"), home.key)
	runID := a.sessionRuns("kept", 1)[0]
	again := there.open("GET", "/api/runs?stream=1&format=ai-sdk&id="+runID, "", home.key)
	waits := here.open("POST", chat, uiBody("p", "parked"), home.key)
	parked := a.sessionRuns("parked", 1)[0]
	a.parkForApproval(parked)
	eventually(t, "the run is read again", func() bool { return again.received() != "" })
	c.leave()
	waits.leave()
	pass(t, graceOver)
	if got := a.runStatus(runID); got != domain.RunQueued {
		t.Fatalf("a run with a reader is %s", got)
	}
	if got := a.runStatus(parked); got != domain.RunRequiresAction {
		t.Errorf("a run that waits for a person is %s", got)
	}
	again.leave()
	a.isCancelled(runID, graceOver)
}

// A client that announces a retry gets the run of its first attempt.
func TestARetryIsTheSameRun(t *testing.T) {
	t.Parallel()
	a := newWaitingRunEnv(t, unlimited)
	home := a.newTestOrg("home")
	agentID := a.newAgent(home)
	here, there := a.edges()
	body := `{"model":"` + agentID + `","input":"slow"}`
	count := func(n string) string { return "X-Stainless-Retry-Count: " + n }

	// Two requests with the same content start two runs. The retry of each request finds that
	// request's run.
	first := here.open("POST", "/v1/responses", body, home.key, count("0"))
	a.sessionRuns("slow", 1)
	twin := here.open("POST", "/v1/responses", body, home.key, count("0"))
	runs := a.sessionRuns("slow", 2)
	first.leave()
	twin.leave()
	retries := map[string]*connection{}
	for n, e := range []edge{there, here} {
		pass(t, 375*time.Millisecond) // the shortest pause that clients make before a retry
		retries[runs[n]] = e.open("POST", "/v1/responses", body, home.key, count("1"))
	}
	pass(t, graceOver)
	if all := a.sessionRuns("slow", 2); len(all) != 2 {
		t.Fatalf("%d runs", len(all))
	}

	// A request starts a new run if its credential or body differs from that of the first request,
	// or if it does not announce a retry.
	for n, more := range [][]string{{body, home.ownerKey, home.header, count("1")}, {body + " ", home.key, count("1")}, {body, home.key}} {
		there.open("POST", "/v1/responses", more[0], more[1:]...)
		a.sessionRuns("slow", 3+n)
	}

	a.finish("done", runs...)
	got := map[string]bool{}
	for _, c := range retries {
		rec := <-c.done
		got[rec.Header().Get("X-Parley-Run-Id")] = true
		if rec.Code != http.StatusOK || !strings.Contains(rec.Body.String(), `"done"`) {
			t.Errorf("a retry: %d %s", rec.Code, rec.Body)
		}
	}
	if !got[runs[0]] || !got[runs[1]] {
		t.Errorf("the retries got the runs %v, not %v", got, runs)
	}
}

// A retry that arrives after its run has finished gets the finished run.
func TestARetryGetsAFinishedRun(t *testing.T) {
	t.Parallel()
	a := newWaitingRunEnv(t, unlimited)
	home := a.newTestOrg("home")
	agentID := a.newAgent(home)
	here, there := a.edges()
	body := `{"model":"` + agentID + `","messages":[{"role":"user","content":"late"}]}`
	c := here.open("POST", "/v1/chat/completions", body, home.key, "X-Stainless-Retry-Count: 1")
	runID := a.sessionRuns("late", 1)[0]
	c.leave()
	a.finish("done", runID)
	pass(t, 375*time.Millisecond) // as in TestARetryIsTheSameRun
	again := there.open("POST", "/v1/chat/completions", body, home.key, "X-Stainless-Retry-Count: 2")
	rec := <-again.done
	if rec.Code != http.StatusOK || rec.Header().Get("X-Parley-Run-Id") != runID || rec.Header().Get("Idempotency-Replayed") != "true" {
		t.Errorf("%d %v %s", rec.Code, rec.Header(), rec.Body)
	}
	if all := a.sessionRuns("late", 1); len(all) != 1 {
		t.Errorf("%d runs", len(all))
	}
}

// A response can be cancelled at any ingress process. The history then contains the part of the
// answer that was shown.
func TestAResponseIsCancelled(t *testing.T) {
	t.Parallel()
	a := newWaitingRunEnv(t, unlimited)
	home := a.newTestOrg("home")
	agentID := a.newAgent(home)
	here, there := a.edges()
	c := here.open("POST", "/v1/responses", `{"model":"`+agentID+`","stream":true,"background":true,"input":"long"}`, home.key)
	runID := a.sessionRuns("long", 1)[0]
	a.say(runID, "So far")
	eventually(t, "the client has received the text", func() bool { return strings.Contains(c.received(), "So far") })
	cancelled := there.open("POST", "/v1/responses/"+openaiapi.ResponseID(runID)+"/cancel", "{}", home.key)
	if rec := <-cancelled.done; rec.Code != http.StatusOK || !strings.Contains(rec.Body.String(), `"status":"cancelled"`) {
		t.Fatalf("%d %s", rec.Code, rec.Body)
	}
	<-c.done
	again := a.ok("POST", "/v1/responses/"+openaiapi.ResponseID(runID)+"/cancel", "", home.key)
	if again.text(t, "status") != "cancelled" {
		t.Errorf("cancelled again: %s", again.body)
	}
	turns, err := a.store.Sessions.History(t.Context(), home.org, a.sessionRef(runID), 2, 10)
	must(t, err)
	if len(turns) != 1 || turns[0].Answer != "So far" {
		t.Errorf("the history: %+v", turns)
	}
	a.from("POST", "/v1/responses/resp_x/cancel", "", home.key).want(t, "no response", 404, "not_found")
}

// A client cancels its own tool call with notifications/cancelled, at any ingress process. A call
// of another client with the same request id and the same API key continues.
func TestAToolCallIsCancelled(t *testing.T) {
	t.Parallel()
	a := newWaitingRunEnv(t, unlimited)
	home := a.newTestOrg("home")
	agentID := a.newAgent(home)
	here, there := a.edges()
	accept := "Accept: application/json, text/event-stream"
	session := func() string {
		got := a.ok("POST", "/mcp", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`,
			home.ownerKey, home.header, accept)
		return "Mcp-Session-Id: " + got.header.Get("Mcp-Session-Id")
	}
	one, two := session(), session()
	if one == two || one == "Mcp-Session-Id: " {
		t.Fatalf("the sessions are %q and %q", one, two)
	}
	call := func(message string, headers ...string) string {
		here.open("POST", "/mcp", a.toolCall(home, agentID, "7", message), append(headers, home.ownerKey, home.header, accept)...)
		return a.sessionRuns(message, 1)[0]
	}
	mine, neighbour, nameless := call("mine", one), call("neighbour", two), call("nameless")
	cancel := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7,"reason":"stop"}}`
	for _, headers := range [][]string{{one}, {}} {
		rec := <-there.open("POST", "/mcp", cancel, append(headers, home.ownerKey, home.header, accept)...).done
		if rec.Code != http.StatusAccepted {
			t.Errorf("%d %s", rec.Code, rec.Body)
		}
	}
	a.isCancelled(mine, atOnce)
	for name, runID := range map[string]string{"neighbour": neighbour, "nameless": nameless} {
		if got := a.runStatus(runID); got != domain.RunQueued {
			t.Errorf("the call of %s is %s", name, got)
		}
	}
}

// If a client disconnects during a tool call without cancelling the call, the run of the call
// continues at first. The next tool call in the session cancels this run, even at another ingress
// process. The calls of other sessions continue.
func TestTheNextToolCallCancelsAnAbandonedRun(t *testing.T) {
	t.Parallel()
	a := newWaitingRunEnv(t, unlimited)
	home := a.newTestOrg("home")
	agentID := a.newAgent(home)
	here, there := a.edges()
	call := func(at edge, session, message string) *connection {
		body := strings.Replace(a.toolCall(home, agentID, "1", message), `"arguments":{`, `"arguments":{"sessionId":"`+session+`",`, 1)
		return at.open("POST", "/mcp", body, home.ownerKey, home.header, "Accept: application/json, text/event-stream")
	}
	abandoned, other := call(here, "s", "first"), call(here, "other", "neighbour")
	first, neighbour := a.sessionRuns("first", 1)[0], a.sessionRuns("neighbour", 1)[0]
	a.claimAccepted(first)
	abandoned.leave()
	call(there, "s", "second")
	second := a.sessionRuns("second", 1)[0]
	a.isCancelled(first, atOnce)
	a.claimAccepted(second)
	if got := a.runStatus(neighbour); got != domain.RunQueued {
		t.Errorf("the neighbour's run is %s", got)
	}
	other.leave()
}

// sessionRef returns the sequence number of a run's session.
func (a *runEnv) sessionRef(runID string) (ref int64) {
	a.t.Helper()
	must(a.t, a.sql.QueryRowContext(a.t.Context(), `SELECT session_ref FROM runs WHERE id = $1`, runID).Scan(&ref))
	return ref
}
