package ingress_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"parley/ingress/internal/openapi/openapitest"
	"parley/shared/bus"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/store"
	"parley/shared/store/executiondb"
	"parley/shared/templates"
	"parley/shared/testkit"
)

// frame is a server-sent event with its bytes and its parsed fields.
type frame struct{ raw, id, kind, data string }

// follower is a client that reads a stream.
type follower struct {
	*testing.T
	res    *http.Response
	in     *bufio.Reader
	cancel context.CancelFunc
}

// follow sends a request for a stream. It returns when the response has begun.
func (r *testEnv) follow(method, url string, headers head, body string) *follower {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), time.Minute)
	r.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewBufferString(body))
	if err != nil {
		r.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, value := range headers {
		req.Header.Set(name, value)
	}
	res, err := openapitest.Do(r.T, loopback, req) //nolint:bodyclose // closed by leave
	if err != nil {
		r.Fatalf("%s %s: %v", method, url, err)
	}
	f := &follower{T: r.T, res: res, in: bufio.NewReader(res.Body), cancel: cancel}
	r.Cleanup(f.leave)
	return f
}

// events opens the event stream of a run at the ingress with the URL base. If last is not empty,
// the stream begins after the event with that id.
func (r *testEnv) events(base, runID, last string) *follower {
	r.Helper()
	headers := r.asKey()
	if last != "" {
		headers["Last-Event-ID"] = last
	}
	f := r.follow("GET", base+"/api/runs?stream=1&id="+runID, headers, "")
	f.isStream()
	return f
}

func (f *follower) isStream() {
	f.Helper()
	h := f.res.Header
	if f.res.StatusCode != http.StatusOK || h.Get("Content-Type") != "text/event-stream" || h.Get("Cache-Control") != "no-store" ||
		h.Get("X-Accel-Buffering") != "no" || h.Get("Content-Length") != "" {
		f.Fatalf("no stream: %d %v", f.res.StatusCode, h)
	}
}

// leave closes the connection. It may be called several times.
func (f *follower) leave() {
	f.cancel()
	_ = f.res.Body.Close()
}

// next returns the next event, or false at the end of the stream.
func (f *follower) next() (frame, bool) {
	f.Helper()
	var out frame
	for {
		line, err := f.in.ReadString('\n')
		if errors.Is(err, io.EOF) && line == "" && out.raw == "" {
			return out, false
		}
		if err != nil {
			f.Fatalf("reading stream: %v after %q", err, out.raw+line)
		}
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch {
		case strings.HasPrefix(line, ":"), line == "\n" && out.raw == "":
			continue
		case line == "\n":
			out.raw += line
			return out, true
		case name == "id":
			out.id = value
		case name == "event":
			out.kind = value
		case name == "data":
			out.data = value
		default:
			f.Fatalf("line %q", line)
		}
		out.raw += line
	}
}

// until reads events up to the next one of the given kind, and returns that event.
func (f *follower) until(kind string) frame {
	f.Helper()
	for {
		got, ok := f.next()
		if !ok {
			f.Fatalf("the stream ended before %s", kind)
		}
		if got.kind == kind {
			return got
		}
	}
}

// all reads the stream to its end.
func (f *follower) all() (frames []frame) {
	f.Helper()
	for {
		got, ok := f.next()
		if !ok {
			return frames
		}
		frames = append(frames, got)
	}
}

func raw(frames []frame) string {
	var out strings.Builder
	for _, f := range frames {
		out.WriteString(f.raw)
	}
	return out.String()
}

// summary lists the ids and types of frames.
func summary(frames []frame) string {
	out := make([]string, len(frames))
	for i, f := range frames {
		out[i] = f.id + " " + f.kind
	}
	return strings.Join(out, ", ")
}

// scriptedWorker is a worker that the test controls step by step.
type scriptedWorker struct {
	*testEnv
	bell  *bus.JobMessage
	claim *executiondb.Claimed
	next  int
	first int
	lines []byte
}

// take claims the next chat run.
func (r *testEnv) take() *scriptedWorker {
	r.Helper()
	h := &scriptedWorker{testEnv: r}
	for lane, tries := r.bus.Lane(domain.LaneChat), 0; h.bell == nil; tries++ {
		if err := lane.Fetch(r.Context(), 1, time.Second, func(d *bus.JobMessage) { h.bell = d }); err != nil || tries > 20 {
			r.Fatalf("no job message: %v", err)
		}
	}
	h.begin()
	return h
}

// begin claims the run for its first attempt, or for the next attempt after the run was requeued.
func (h *scriptedWorker) begin() {
	h.Helper()
	claims, err := h.store.Executions.Claim(h.Context(), []string{h.bell.RunID})
	if err != nil || claims[0].Run == nil {
		h.Fatalf("cannot claim: %+v, %v", claims, err)
	}
	h.claim, h.next, h.first, h.lines = claims[0].Run, 1, 1, nil
	if h.claim.Fence == 1 {
		started := domain.StartedEvent(domain.At(h.claim.StartedAt))
		h.bus.Events(h.bell.RunID, domain.EventChunk{Fence: 1, First: 1, Lines: domain.AppendEventLine(nil, started.Type, started.Data)})
		h.next, h.first = 2, 2
		return
	}
	h.publish(domain.EventRunRestarted, string(domain.RestartedData(0)))
}

func (h *scriptedWorker) publish(kind, data string) {
	line := domain.AppendEventLine(nil, kind, []byte(data))
	h.bus.Events(h.bell.RunID, domain.EventChunk{Fence: h.claim.Fence, First: h.next, Lines: line})
	h.lines = append(h.lines, line...)
	h.next++
}

func (h *scriptedWorker) say(text string) {
	h.Helper()
	data, err := domain.DeltaData(text)
	if err != nil {
		h.Fatal(err)
	}
	h.publish(domain.EventMessageDelta, string(data))
}

func (h *scriptedWorker) chunk() executiondb.Chunk {
	if h.first == h.next {
		return executiondb.Chunk{}
	}
	c := executiondb.Chunk{FirstN: h.first, LastN: h.next - 1, Events: string(h.lines)}
	h.first, h.lines = h.next, nil
	return c
}

func (h *scriptedWorker) checkpoint() {
	h.Helper()
	kept, err := h.store.Executions.SaveEvents(h.Context(), []executiondb.Checkpoint{{Held: h.claim.Held(), Chunk: h.chunk()}})
	if err != nil || !kept.Saved[h.bell.RunID] {
		h.Fatalf("cannot save events: %v", err)
	}
}

// die requeues the run, as if its worker had died, and claims it for the next attempt.
func (h *scriptedWorker) die() {
	h.Helper()
	if back, err := h.store.Executions.Requeue(h.Context(), []executiondb.Requeue{{Held: h.claim.Held()}}); err != nil || !back[0].Done {
		h.Fatalf("requeued = %+v, %v", back, err)
	}
	h.begin()
}

func (h *scriptedWorker) finish(answer string) {
	h.Helper()
	h.end(answer, func(*domain.Run) {})
}

// end finishes the run. The function more may change the result before that.
func (h *scriptedWorker) end(answer string, more func(*domain.Run)) {
	h.Helper()
	run := h.claim.Run()
	run.Message, run.Output = &answer, &domain.Output{Message: answer}
	run.End(domain.RunCompleted, nil, domain.At(h.claim.Now), h.claim.RetentionSecs)
	more(&run)
	outcome, err := executiondb.NewOutcome(h.claim.Held(), run)
	if err != nil {
		h.Fatal(err)
	}
	outcome.Events, outcome.EndN = h.chunk(), h.next
	done, err := h.store.Executions.Finish(h.Context(), []executiondb.Outcome{outcome})
	if err != nil || !done.Saved[h.bell.RunID] {
		h.Fatalf("cannot finish: %+v, %v", done, err)
	}
	h.bus.Ended(h.bell.RunID, h.bell.ReplyTo, outcome.Result, domain.EventID{Fence: outcome.Fence, N: outcome.EndN}, run.Status)
	h.bell.Ack()
}

func (r *testEnv) chatPath() string { return "/api/agents?action=chat&id=" + r.agent }

const streamed = `{"sessionId":"s","message":"hi","stream":true}`

// enqueued starts a chat without waiting for the answer. It returns the id of the run.
func (r *testEnv) enqueued() string {
	r.Helper()
	return r.call("POST", r.chatPath(), r.asKey("Prefer", "respond-async"), `{"sessionId":"`+id.New(id.Message)+`","message":"hi"}`).run(202).ID
}

func TestAChatIsStreamedAsItIsAnswered(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, defaults())
	f := r.follow("POST", r.url+r.chatPath(), r.asKey("Idempotency-Key", "k", "Prefer", "respond-async"), streamed)
	f.isStream()
	h := r.take()
	runID := h.bell.RunID
	if f.res.Header.Get("Location") != "/api/runs?id="+runID || f.res.Header.Get("Idempotency-Replayed") != "" {
		t.Errorf("headers %v", f.res.Header)
	}
	var seen []frame
	expect := func(want string) {
		t.Helper()
		got, ok := f.next()
		if !ok || got.id+" "+got.kind+" "+got.data != want {
			t.Fatalf("got  %s %s %s\nwant %s", got.id, got.kind, got.data, want)
		}
		seen = append(seen, got)
	}
	created, _ := f.next()
	seen = append(seen, created)
	var data struct {
		RunID     string         `json:"runId"`
		AgentID   string         `json:"agentId"`
		SessionID string         `json:"sessionId"`
		Trigger   domain.Trigger `json:"trigger"`
		CreatedAt string         `json:"createdAt"`
	}
	if err := json.Unmarshal([]byte(created.data), &data); err != nil || created.id != "0.1" || data.RunID != runID || data.AgentID != r.agent ||
		data.SessionID != "s" || data.Trigger.Type != "chat" || data.CreatedAt == "" || !strings.HasPrefix(created.data, `{"runId":"`+runID+`",`) {
		t.Errorf("created %+v, %v", created, err)
	}
	expect(fmt.Sprintf(`1.1 run.started {"runId":"%s","startedAt":"%s"}`, runID, h.claim.StartedAt.UTC().Format("2006-01-02T15:04:05.000Z")))
	for n, text := range []string{"Hello", " <there>", "\nand ☾"} {
		h.say(text)
		shown, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		expect(fmt.Sprintf(`1.%d message.delta {"runId":"%s","text":%s}`, n+2, runID, shown))
	}
	const call = `{"id":"c","name":"webSearch","status":"running","input":{},"output":null,"durationMs":0}`
	h.publish("tool.started", `{"toolCall":`+call+`}`)
	expect(`1.5 tool.started {"runId":"` + runID + `","toolCall":` + call + `}`)
	h.finish("Hello <there>\nand ☾")
	result := r.call("GET", "/api/runs?id="+runID, r.asKey(), "").want(200).body
	expect(`1.6 run.completed {"runId":"` + runID + `","run":` + result + `}`)
	if rest := f.all(); len(rest) > 0 {
		t.Errorf("after the end the stream sent %s", summary(rest))
	}
	again := r.follow("POST", r.url+r.chatPath(), r.asKey("Idempotency-Key", "k", "Accept", "text/event-stream"), `{"sessionId":"s","message":"hi"}`)
	if got := again.all(); raw(got) != raw(seen) || again.res.Header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("the replay differs:\n%s\n%s", raw(got), raw(seen))
	}
	if got := r.events(r.url, runID, "").all(); raw(got) != raw(seen) {
		t.Errorf("the log differs:\n%s\n%s", raw(got), raw(seen))
	}
}

// A reader disconnects after every event and resumes at the other ingress. It misses no event, even
// across attempts.
func TestAStreamResumesOnAnotherIngress(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, defaults())
	second, _ := r.serve(defaults(), zerolog.Nop())
	bases := []string{r.url, second}
	runID := r.enqueued()
	whole := r.events(r.url, runID, "")
	var received []frame // events of a reader that disconnects and resumes after each event
	last := ""
	hop := func(want int) {
		t.Helper()
		for range want {
			f := r.events(bases[len(received)%2], runID, last)
			got, ok := f.next()
			if !ok {
				t.Fatalf("the stream ended after %q", last)
			}
			f.leave()
			received, last = append(received, got), got.id
		}
	}
	hop(1)
	h := r.take()
	hop(1)
	for n := range 6 {
		h.say(fmt.Sprint("first ", n))
		if n%2 == 1 {
			h.checkpoint()
			hop(2)
		}
	}
	h.die()
	h.checkpoint()
	hop(1)
	for n := range 5 {
		h.say(fmt.Sprint("second ", n))
	}
	h.checkpoint()
	hop(5)
	h.say("rest")
	h.finish("answer")
	hop(2)
	const want = "0.1 run.created, 1.1 run.started, 1.2 message.delta, 1.3 message.delta, 1.4 message.delta, 1.5 message.delta, 1.6 message.delta, 1.7 message.delta, " +
		"3.1 run.restarted, 3.2 message.delta, 3.3 message.delta, 3.4 message.delta, 3.5 message.delta, 3.6 message.delta, 3.7 message.delta, 3.8 run.completed"
	if got := summary(received); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if live := whole.all(); raw(live) != raw(received) {
		t.Errorf("a connected reader received\n%s\na resuming reader\n%s", raw(live), raw(received))
	}
	r.sameEverywhere(bases, runID)
}

// sameEverywhere reads the log of a finished run at all ingresses, from the start and after every
// event.
func (r *testEnv) sameEverywhere(bases []string, runID string) {
	r.Helper()
	final := r.events(bases[0], runID, "").all()
	for i, cut := range final {
		here, there := bases[i%2], bases[(i+1)%2]
		if got := raw(r.events(here, runID, "").all()); got != raw(final) {
			r.Errorf("the log differs:\n%s\n%s", got, raw(final))
		}
		if i == len(final)-1 {
			r.callAt(there, "GET", "/api/runs?stream=true&id="+runID, r.asKey("Last-Event-ID", cut.id), "").want(204)
			break
		}
		if got := raw(r.events(there, runID, cut.id).all()); got != raw(final[i+1:]) {
			r.Errorf("resumed after %s:\n%s", cut.id, got)
		}
	}
}

// Many readers of a fast run are disconnected several times. Each receives the complete log,
// although most events are published long before they are checkpointed.
func TestManyReadersOfARunMissNothing(t *testing.T) {
	t.Parallel()
	const readers, events = 20, 300
	r := newTestEnv(t, defaults())
	second, _ := r.serve(defaults(), zerolog.Nop())
	bases := []string{r.url, second}
	runID := r.enqueued()
	var wg sync.WaitGroup
	transcripts := make([]string, readers)
	for n := range readers {
		f := r.events(bases[n%2], runID, "")
		wg.Go(func() {
			var got []frame
			for hops := 0; ; {
				next, ok := f.next()
				if !ok {
					break
				}
				got = append(got, next)
				if len(got)%(40+n) == 0 && !strings.HasPrefix(next.kind, "run.") {
					f.leave()
					hops++
					f = r.events(bases[(n+hops)%2], runID, next.id)
				}
			}
			transcripts[n] = raw(got)
		})
	}
	h := r.take()
	var answer strings.Builder
	for n := range events {
		text := fmt.Sprint("word ", n, " ")
		answer.WriteString(text)
		h.say(text)
		if n%50 == 49 {
			h.checkpoint()
		}
	}
	h.finish(answer.String())
	wg.Wait()
	final := r.events(second, runID, "").all()
	for n, got := range transcripts {
		if got != raw(final) {
			t.Errorf("reader %d received %d bytes, the log has %d", n, len(got), len(raw(final)))
		}
	}
	r.sameEverywhere(bases, runID)
}

func TestAnAnswerWithoutCheckpointsIsStreamed(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, defaults())
	r.echo()
	got := r.follow("POST", r.url+r.chatPath(), r.asKey(), streamed).all()
	if summary(got) != "0.1 run.created, 1.1 run.started, 1.2 message.delta, 1.3 run.completed" || !strings.HasSuffix(got[2].data, `,"text":"echo: hi"}`) {
		t.Errorf("got %s", raw(got))
	}
}

func TestAStalledReaderDoesNotDelayOthers(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, defaults())
	runID := r.enqueued()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(r.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := fmt.Fprintf(conn, "GET /api/runs?stream=1&id=%s HTTP/1.1\r\nHost: x\r\nX-Api-Key: %s\r\n\r\n", runID, r.key); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); err != nil { // the response has begun; the test does not read the rest
		t.Fatal(err)
	}
	f := r.events(r.url, runID, "")
	h := r.take()
	f.until("run.started")
	piece, began := strings.Repeat("x", 24<<10), time.Now()
	const pieces = 1000 // more than the socket buffers can hold
	for n := range pieces {
		h.say(piece)
		if n%20 == 0 {
			h.checkpoint()
		}
		if got, ok := f.next(); !ok || got.kind != "message.delta" {
			t.Fatalf("another reader received %.100s", got.raw)
		}
	}
	h.finish("done")
	if got, ok := f.next(); !ok || got.kind != "run.completed" {
		t.Fatalf("another reader received %.100s", got.raw)
	}
	if took := time.Since(began); took > testkit.Within(20*time.Second) {
		t.Errorf("the run took %s", took)
	}
}

func TestCancellingEndsStreamsAndLeavingAStreamDoesNotEndTheRun(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, defaults())
	second, _ := r.serve(defaults(), zerolog.Nop())
	f := r.follow("POST", r.url+r.chatPath(), r.asKey(), streamed)
	h := r.take()
	runID := h.bell.RunID
	h.say("kept")
	h.checkpoint()
	f.until("message.delta")
	f.leave()
	other := r.events(second, runID, "")
	other.until("message.delta")
	if run := r.call("GET", "/api/runs?id="+runID, r.asKey(), "").run(200); run.Status != domain.RunRunning {
		t.Fatalf("a client that disconnected ended its run: %s", run.Status)
	}
	began := time.Now()
	result := r.call("POST", "/api/runs?action=cancel&id="+runID, r.asKey(), "").want(200).body
	got := other.until("run.cancelled")
	if took := time.Since(began); took > testkit.Within(2*time.Second) || got.id != "2.1" || got.data != `{"runId":"`+runID+`","run":`+result+`}` {
		t.Errorf("after %s the stream sent %s", took, got.raw)
	}
	if rest := other.all(); len(rest) > 0 {
		t.Errorf("after the end the stream sent %s", summary(rest))
	}
	if log := r.events(r.url, runID, "").all(); summary(log) != "0.1 run.created, 1.1 run.started, 1.2 message.delta, 2.1 run.cancelled" {
		t.Errorf("the log is %s", summary(log))
	}
}

func TestStoppingEndsStreamsThatResumeElsewhere(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, defaults())
	second, stop := r.serve(defaults(), zerolog.Nop())
	f := r.follow("POST", second+r.chatPath(), r.asKey(), streamed)
	h := r.take()
	h.say("a")
	last := f.until("message.delta")
	ended := make(chan struct{})
	go func() { stop(); close(ended) }()
	if rest := f.all(); len(rest) > 0 {
		t.Errorf("a stopping ingress sent %s", summary(rest))
	}
	<-ended
	other := r.events(r.url, h.bell.RunID, last.id)
	h.say("b")
	h.finish("ab")
	if got := other.all(); summary(got) != "1.3 message.delta, 1.4 run.completed" {
		t.Errorf("resumed with %s", summary(got))
	}
}

func TestAnErasedRunHasNoEvents(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, defaults())
	r.echo()
	f := r.follow("POST", r.url+r.chatPath(), r.asKey("Idempotency-Key", "k"), streamed)
	runID := strings.TrimPrefix(f.res.Header.Get("Location"), "/api/runs?id=")
	f.until("run.completed")
	r.call("DELETE", "/api/sessions?id=s&agentId="+r.agent, r.asKey(), "").want(200)
	for _, a := range []answer{
		r.call("GET", "/api/runs?stream=1&id="+runID, r.asKey(), ""),
		r.call("POST", r.chatPath(), r.asKey("Idempotency-Key", "k"), streamed),
	} {
		if p := a.problem(410); p.Code != "erased" {
			t.Errorf("an erased run = %s", a.body)
		}
	}
}

func TestAnErasureEndsStreams(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, defaults())
	f := r.follow("POST", r.url+r.chatPath(), r.asKey(), streamed)
	h := r.take()
	h.say("a")
	f.until("message.delta")
	r.call("DELETE", "/api/sessions?id=s&agentId="+r.agent, r.asKey(), "").want(200)
	for _, e := range f.all() {
		if e.kind != "run.cancelled" {
			t.Errorf("the stream of an erased run sent %s", e.raw)
		}
	}
}

func TestEventsTooLargeForAMessageAreReadFromTheLog(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, defaults())
	runID := r.enqueued()
	f := r.events(r.url, runID, "")
	h := r.take()
	f.until("run.started")
	large := strings.Repeat("y", 3<<20)
	h.say("a")
	h.say(large)
	h.say("b")
	h.checkpoint()
	f.until("message.delta")
	if got, ok := f.next(); !ok || len(got.data) < len(large) || got.id != "1.3" {
		t.Errorf("got %s of %d bytes", got.id, len(got.data))
	}
	if got, ok := f.next(); !ok || got.id != "1.4" {
		t.Errorf("got %s", got.id)
	}
	h.finish("z")
	f.until("run.completed")
}

func TestADemoVisitorResumesWithItsIdempotencyKey(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, defaults())
	owner, err := store.OpenOwner(r.dsn, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(owner.Agents.SyncTemplates(t.Context(), templates.All()), owner.Close()); err != nil {
		t.Fatal(err)
	}
	path := "/api/agents?action=chat&template=" + templates.All()[0].ID
	visitor := func(more ...string) head {
		h := head{"x-tenant-id": "tenant_demo", "Idempotency-Key": "k"}
		for i := 0; i+1 < len(more); i += 2 {
			h[more[i]] = more[i+1]
		}
		return h
	}
	f := r.follow("POST", r.url+path, visitor(), streamed)
	h := r.take()
	h.say("a")
	last := f.until("message.delta")
	f.leave()
	again := r.follow("POST", r.url+path, visitor("Last-Event-ID", last.id), streamed)
	if again.res.Header.Get("Idempotency-Replayed") != "" {
		t.Error("a resumed run was marked as a replay")
	}
	h.say("b")
	h.finish("ab")
	if got := again.all(); summary(got) != "1.3 message.delta, 1.4 run.completed" {
		t.Errorf("resumed with %s", summary(got))
	}
	r.call("GET", "/api/runs?stream=1&id="+h.bell.RunID, visitor(), "").problem(403)
	r.call("GET", "/api/runs?stream=1&id="+h.bell.RunID, r.asKey(), "").problem(404)
}

func (r *testEnv) exec(query string) {
	r.Helper()
	if _, err := testkit.SQL(r.T, r.dsn).ExecContext(r.Context(), query); err != nil {
		r.Fatal(err)
	}
}

func TestAnAcceptedChatIsStreamedWhileItsLogCannotBeRead(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, defaults())
	r.exec(`ALTER FUNCTION event_logs_that_fit RENAME TO away`)
	f := r.follow("POST", r.url+r.chatPath(), r.asKey(), streamed)
	f.isStream()
	h := r.take()
	if f.res.Header.Get("Location") != "/api/runs?id="+h.bell.RunID {
		t.Errorf("headers %v", f.res.Header)
	}
	f.until("run.created")
	h.say("a")
	f.until("message.delta")
	h.finish("a")
	r.exec(`ALTER FUNCTION away RENAME TO event_logs_that_fit`)
	f.until("run.completed")
}

// When a key is revoked, its streams end at every ingress. At the ingress that revokes the key,
// they end immediately.
func TestARevokedKeyEndsItsStreamsEverywhere(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, defaults())
	second, _ := r.serve(defaults(), zerolog.Nop())
	var key struct{ ID, Key string }
	r.call("POST", "/api/keys", head{"Authorization": "Bearer " + r.token}, `{"name":"k","scope":"organization"}`).into(&key, 201)
	f := r.follow("POST", second+r.chatPath(), head{"x-api-key": key.Key}, streamed)
	h := r.take()
	h.say("a")
	h.checkpoint()
	other := r.events(second, h.bell.RunID, "")
	other.until("message.delta")
	f.until("message.delta")
	r.call("DELETE", "/api/keys?id="+key.ID, head{"Authorization": "Bearer " + r.token}, "").want(200)
	began := time.Now()
	if rest := f.all(); len(rest) > 0 || time.Since(began) > testkit.Within(8*time.Second) { // 5 s, plus a margin for a busy machine
		t.Errorf("the stream of a revoked key continued for %s: %s", time.Since(began), summary(rest))
	}
	h.finish("a")
	if rest := other.all(); summary(rest) != "1.3 run.completed" {
		t.Errorf("a stream of another key ended with %s", summary(rest))
	}
}

func TestOpenStreamsAreLimitedByCredential(t *testing.T) {
	t.Parallel()
	cfg := defaults()
	cfg.StreamsPerCredential = 1
	r := newTestEnv(t, cfg)
	runID := r.enqueued()
	f := r.events(r.url, runID, "")
	for _, a := range []answer{
		r.call("GET", "/api/runs?stream=1&id="+runID, r.asKey(), ""),
		r.call("POST", r.chatPath(), r.asKey(), streamed),
	} {
		if p := a.problem(429); p.Code != "rate_limited" || a.header.Get("Retry-After") == "" || a.header.Get("Ratelimit") == "" {
			t.Errorf("a stream over the limit got %s, %v", a.body, a.header)
		}
	}
	if page := r.call("GET", "/api/runs?limit=10", r.asKey(), "").want(200).body; strings.Count(page, `"id":"run_`) != 1 {
		t.Errorf("the run of a refused stream was accepted: %s", page)
	}
	r.follow("GET", r.url+"/api/runs?stream=1&id="+runID, head{"Authorization": "Bearer " + r.token}, "").isStream()
	f.leave()
	for began := time.Now(); ; {
		again := r.follow("GET", r.url+"/api/runs?stream=1&id="+runID, r.asKey(), "")
		if again.res.StatusCode == http.StatusOK {
			return
		}
		again.leave()
		if testkit.Late(began, 20*time.Second) {
			t.Fatal("a closed stream still counts")
		}
	}
}

func TestStreamsRefuseBadRequestsBeforeTheirFirstByte(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, defaults())
	r.echo()
	run := r.call("POST", r.chatPath(), r.asKey("Idempotency-Key", "k"), `{"sessionId":"s","message":"hi"}`).run(200)
	get := "/api/runs?id=" + run.ID
	for name, tc := range map[string]struct {
		method, path string
		headers      head
		body         string
		status       int
		field        string
	}{
		"stream=0":          {"GET", get + "&stream=0", r.asKey(), "", 400, "stream"},
		"stream=yes":        {"GET", get + "&stream=yes", r.asKey(), "", 400, "stream"},
		"stream twice":      {"GET", get + "&stream=1&stream=1", r.asKey(), "", 400, "stream"},
		"stream and wait":   {"GET", get + "&stream=1&wait=3", r.asKey(), "", 400, "wait"},
		"bad id":            {"GET", get + "&stream=1", r.asKey("Last-Event-ID", "abc"), "", 400, "Last-Event-ID"},
		"bad id on POST":    {"POST", r.chatPath(), r.asKey("Last-Event-ID", "1"), streamed, 400, "Last-Event-ID"},
		"stream no boolean": {"POST", r.chatPath(), r.asKey(), `{"sessionId":"s","message":"hi","stream":"yes"}`, 400, "stream"},
		"no message":        {"POST", r.chatPath(), r.asKey(), `{"sessionId":"s","stream":true}`, 400, "message"},
		"no such run":       {"GET", "/api/runs?stream=1&id=" + id.New(id.Run), r.asKey(), "", 404, ""},
		"no run":            {"GET", "/api/runs?stream=1&id=run_x", r.asKey(), "", 404, ""},
		"no such agent":     {"POST", "/api/agents?action=chat&id=" + id.New(id.Agent), r.asKey(), streamed, 404, ""},
		"key of another":    {"POST", r.chatPath(), r.asKey("Idempotency-Key", "k"), strings.Replace(streamed, "hi", "ho", 1), 422, ""},
		"no credential":     {"GET", get + "&stream=1", head{}, "", 401, ""},
	} {
		a := r.call(tc.method, tc.path, tc.headers, tc.body)
		if p := a.problem(tc.status); tc.field != "" && (len(p.Errors) != 1 || p.Errors[0].Field != tc.field) {
			t.Errorf("%s: %s", name, a.body)
		}
	}
	for _, odd := range []string{"0.0", "0.1", "1.2", "2.9", "1.9999999999", "9223372036854775807.9223372036854775807"} {
		a := r.call("GET", get+"&stream=1", r.asKey("Last-Event-ID", odd), "")
		if ended := odd == "2.9" || len(odd) > 5; ended != (a.status == 204) || !ended && !strings.Contains(a.body, "run.completed") {
			t.Errorf("%q: %d %s", odd, a.status, a.body)
		}
		if a := r.call("POST", r.chatPath(), r.asKey("Idempotency-Key", "k", "Last-Event-ID", odd), streamed); a.status != 200 {
			t.Errorf("%q on POST: %d %s", odd, a.status, a.body)
		}
	}
	for _, odd := range []string{"", "-1.1", "1.-1", "9223372036854775808.1", "1.1.1", "☾", "1.1, 1.2", "null", "1e9.1", strings.Repeat("1", 5000) + ".1"} {
		r.call("GET", get+"&stream=1", r.asKey("Last-Event-ID", odd), "").problem(400)
	}
	for accept, want := range map[string]string{
		"text/event-stream": "text/event-stream", "application/json;q=0.4, text/Event-Stream;q=0.5": "text/event-stream", "application/json, text/event-stream;q=0.5": "application/json", "*/*": "application/json",
		"text/event-stream;q=0": "application/json", "text/event-streams": "application/json",
	} {
		if a := r.call("POST", r.chatPath(), r.asKey("Idempotency-Key", "k", "Accept", accept), `{"sessionId":"s","message":"hi"}`).want(200); a.header.Get("Content-Type") != want {
			t.Errorf("Accept %s gave %s", accept, a.header.Get("Content-Type"))
		}
	}
}
