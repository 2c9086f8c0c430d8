package ingress_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"parley/shared/domain"
	"parley/shared/store/executiondb"
	"parley/shared/testkit"
)

// park parks the run until a person approves a tool call, in the same way as a worker. It stores
// the state of the run. Unless the argument silent is set, it also publishes that state.
func (h *scriptedWorker) park(callID string, silent bool) {
	h.Helper()
	input := json.RawMessage(`{"text":"hi"}`)
	effect := domain.Effect{CallID: callID, Name: "publish", Input: input, SideEffect: domain.SideEffectUnsafe, Key: callID}
	if _, kept, err := h.store.Executions.PrepareEffect(h.Context(), h.claim.Held(), effect, true); err != nil || !kept {
		h.Fatalf("cannot prepare effect: %v, %v", kept, err)
	}
	action := domain.RequiredAction{
		Kind: domain.ActionApproval, ToolCallID: callID, Name: "publish", Input: input, ExpiresAt: domain.At(time.Now().Add(time.Hour)),
	}
	data, err := json.Marshal(map[string]any{"requiredAction": action})
	if err != nil {
		h.Fatal(err)
	}
	line := domain.AppendEventLine(nil, domain.EventRequiresAction, data)
	h.lines = append(h.lines, line...)
	h.next++
	at := domain.EventChunk{Fence: h.claim.Fence, First: h.next - 1, Lines: line}
	parked, err := h.store.Executions.Park(h.Context(), h.claim.Held(), action, h.chunk())
	if err != nil || !parked.Parked {
		h.Fatalf("cannot park: %+v, %v", parked, err)
	}
	if !silent {
		h.bus.Events(h.bell.RunID, at)
		h.bus.Done(h.bell.RunID, h.bell.ReplyTo, nil)
	}
	h.bell.Ack()
}

func (r *testEnv) decide(runID, action, callID string) domain.Run {
	r.Helper()
	return r.call("POST", "/api/runs?id="+runID+"&action="+action+"&toolCallId="+callID, r.asKey(), "").run(200)
}

// inBackground sends a request in another goroutine. The returned channel receives the response.
func (r *testEnv) inBackground(method, path string, headers head, body string) chan answer {
	out := make(chan answer, 1)
	go func() { out <- r.call(method, path, headers, body) }()
	return out
}

const waiting = `{"sessionId":"s","message":"hi"}`

// A request that waits for a run gets a response when the run begins to wait for a person. The
// worker's reply ends the wait. If the reply is lost, the worker's notification ends it. If both
// are lost, the next poll of the database ends it.
func TestAWaitEndsWhenItsRunRequiresAnAction(t *testing.T) {
	t.Parallel()
	for name, silent := range map[string]bool{"published": false, "not published": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newTestEnv(t, defaults())
			posted := r.inBackground("POST", r.chatPath(), r.asKey("Idempotency-Key", "k"), waiting)
			h := r.take()
			runID := h.bell.RunID
			attached := r.inBackground("POST", r.chatPath(), r.asKey("Idempotency-Key", "k"), waiting)
			polled := r.inBackground("GET", "/api/runs?wait=10&id="+runID, r.asKey(), "")
			r.awaitRequests(3)
			h.park("call_1", silent)
			began := time.Now()
			// A long poll that reads the run for the first time after it was parked waits for the
			// next change. The test therefore checks the long poll last and does not measure its
			// duration. The tests of package dispatch cover long polls without this race.
			for _, c := range []struct {
				what   string
				got    chan answer
				status int
			}{{"the request", posted, 202}, {"its retry", attached, 202}, {"a long poll", polled, 200}} {
				what, got := c.what, <-c.got
				if took := time.Since(began); c.status == 202 && took > testkit.Within(8*time.Second) {
					t.Errorf("%s waited for %s", what, took)
				}
				run := got.run(c.status)
				if run.ID != runID || run.Status != domain.RunRequiresAction || run.RequiredAction == nil || run.RequiredAction.ToolCallID != "call_1" ||
					run.RequiredAction.Name != "publish" || string(run.RequiredAction.Input) != `{"text":"hi"}` {
					t.Errorf("%s = %s", what, got.body)
				}
				if c.status == 202 && got.header.Get("Location") != "/api/runs?id="+runID {
					t.Errorf("%s: headers %v", what, got.header)
				}
			}
			again := r.call("POST", r.chatPath(), r.asKey("Idempotency-Key", "k"), waiting).run(202)
			if again.Status != domain.RunRequiresAction {
				t.Errorf("a later retry = %s", again.Status)
			}
		})
	}
}

// A long poll of a run that already waits for a person continues until the run finishes or requires
// a different action.
func TestALongPollWaitsForTheNextChange(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, defaults())
	runID := r.enqueued()
	r.take().park("call_1", false)
	if run := r.call("GET", "/api/runs?wait=1&id="+runID, r.asKey(), "").run(200); run.RequiredAction == nil {
		t.Errorf("the run is %+v", run)
	}
	next := r.inBackground("GET", "/api/runs?wait=10&id="+runID, r.asKey(), "")
	r.awaitRequests(1)
	if run := r.decide(runID, "approve", "call_1"); run.Status != domain.RunQueued {
		t.Errorf("after the approval the run is %s", run.Status)
	}
	r.take().park("call_2", false)
	if run := (<-next).run(200); run.RequiredAction == nil || run.RequiredAction.ToolCallID != "call_2" {
		t.Errorf("the long poll missed the next action: %+v", run)
	}
	end := r.inBackground("GET", "/api/runs?wait=10&id="+runID, r.asKey(), "")
	r.awaitRequests(1)
	if run := r.decide(runID, "deny", "call_2"); run.Status != domain.RunQueued || run.RequiredAction != nil {
		t.Errorf("after the denial the run is %+v", run)
	}
	r.take().finish("done")
	if run := (<-end).run(200); run.Status != domain.RunCompleted {
		t.Errorf("the long poll missed the end: %+v", run)
	}
}

// awaitRequests waits until n requests are in progress, not counting its own request for the
// metrics.
func (r *testEnv) awaitRequests(n int) {
	r.Helper()
	want := "requests_in_flight " + string(rune('1'+n)) + "\n" // n, plus the request for the metrics
	for deadline := time.Now().Add(10 * time.Second); !strings.Contains(r.call("GET", "/metrics", nil, "").want(200).body, want); {
		if time.Now().After(deadline) {
			r.Fatalf("there are no %d waiting requests", n)
		}
	}
}

// If a decision finishes a run, waiting requests and streams get that result like any other result.
func TestAbandoningARunAnswersWaitingRequests(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, defaults())
	runID := r.enqueued()
	h := r.take()
	effect := domain.Effect{CallID: "call_1", Name: "publish", Input: json.RawMessage(`{}`), SideEffect: domain.SideEffectUnsafe, Key: "k"}
	if _, _, err := h.store.Executions.PrepareEffect(t.Context(), h.claim.Held(), effect, false); err != nil {
		t.Fatal(err)
	}
	if began, err := h.store.Executions.BeginSend(t.Context(), h.claim.Held(), "call_1", "sender"); err != nil || !began {
		t.Fatalf("cannot send: %v, %v", began, err)
	}
	action := domain.RequiredAction{Kind: domain.ActionUnknownOutcome, ToolCallID: "call_1", Name: "publish", Input: effect.Input}
	if parked, err := h.store.Executions.Park(t.Context(), h.claim.Held(), action, executiondb.Chunk{}); err != nil || !parked.Parked {
		t.Fatalf("cannot park: %+v, %v", parked, err)
	}
	h.bell.Ack()
	f := r.events(r.url, runID, "")
	polled := r.inBackground("GET", "/api/runs?wait=10&id="+runID, r.asKey(), "")
	r.awaitRequests(2)
	run := r.decide(runID, "abandon", "call_1")
	if run.Status != domain.RunFailed || run.Error == nil || run.Error.Code != "outcome_unknown_abandoned" {
		t.Errorf("the abandoned run is %+v", run)
	}
	if got := (<-polled).run(200); got.Status != domain.RunFailed {
		t.Errorf("a long poll = %+v", got)
	}
	if frames := f.all(); len(frames) == 0 || frames[len(frames)-1].kind != "run.failed" {
		t.Errorf("the stream sent %s", summary(frames))
	}
}

// The stream of a run continues while the run waits for a person, and after the decision. A reader
// that resumes after any event, at any ingress, receives the same events.
func TestAStreamContinuesAfterADecision(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, defaults())
	second, _ := r.serve(defaults(), zerolog.Nop())
	bases := []string{r.url, second}
	whole := r.follow("POST", r.url+r.chatPath(), r.asKey(), streamed)
	whole.isStream()
	h := r.take()
	runID := h.bell.RunID
	h.say("I will publish it.")
	h.park("call_1", false)
	asked := whole.until("run.requires_action")
	var data struct {
		RunID          string                `json:"runId"`
		RequiredAction domain.RequiredAction `json:"requiredAction"`
	}
	if err := json.Unmarshal([]byte(asked.data), &data); err != nil || data.RunID != runID || data.RequiredAction.ToolCallID != "call_1" {
		t.Errorf("the event is %s, %v", asked.data, err)
	}
	// While the run waits for the decision, clients can read its log and follow it.
	cut := r.events(second, runID, "")
	parked := []frame{}
	for range 4 {
		got, ok := cut.next()
		if !ok {
			t.Fatal("the log of a waiting run has ended")
		}
		parked = append(parked, got)
	}
	if got := summary(parked); got != "0.1 run.created, 1.1 run.started, 1.2 message.delta, 1.3 run.requires_action" || parked[3].raw != asked.raw {
		t.Errorf("the log is %s", got)
	}
	behind := r.events(second, runID, asked.id)
	before := r.events(r.url, runID, parked[2].id)
	cut.leave()
	if run := r.decide(runID, "approve", "call_1"); run.Status != domain.RunQueued {
		t.Errorf("after the approval the run is %s", run.Status)
	}
	h = r.take()
	h.say("Published.")
	h.finish("Published.")
	rest := behind.all()
	if got := summary(rest); got != "3.1 run.restarted, 3.2 message.delta, 3.3 run.completed" {
		t.Errorf("after the decision the stream sent %s", got)
	}
	if got := before.all(); raw(got) != asked.raw+raw(rest) {
		t.Errorf("a reader from before the action received %s", summary(got))
	}
	if got := whole.all(); raw(got) != raw(rest) {
		t.Errorf("the first reader received\n%s\nthe others\n%s", raw(got), raw(rest))
	}
	r.sameEverywhere(bases, runID)
}
