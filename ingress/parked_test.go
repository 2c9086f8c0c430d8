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

// park lets the run wait for a person, as a worker does that must ask for leave to make a call: written first, told then.
// Nobody is told when it is silent.
func (h *hand) park(callID string, silent bool) {
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

// answered sends a request in the background.
func (r *testEnv) answered(method, path string, headers head, body string) chan answer {
	out := make(chan answer, 1)
	go func() { out <- r.call(method, path, headers, body) }()
	return out
}

const waiting = `{"sessionId":"s","message":"hi"}`

// Whoever waits for a run is answered when it comes to wait for a person itself: by the worker's reply, by its notice to
// others, and, when both are lost, by the poll.
func TestAWaitEndsWhenItsRunRequiresAnAction(t *testing.T) {
	t.Parallel()
	for name, silent := range map[string]bool{"told": false, "not told": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newTestEnv(t, defaults())
			posted := r.answered("POST", r.chatPath(), r.asKey("Idempotency-Key", "k"), waiting)
			h := r.take()
			runID := h.bell.RunID
			attached := r.answered("POST", r.chatPath(), r.asKey("Idempotency-Key", "k"), waiting)
			polled := r.answered("GET", "/api/runs?wait=10&id="+runID, r.asKey(), "")
			r.pollsWaiting(3)
			h.park("call_1", silent)
			began := time.Now()
			// A poll may have begun with what there is to tell, and goes on then: it comes last, for the others' times are
			// taken when they are read. Package dispatch has a test without that chance.
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
					t.Errorf("%s gave %s", what, got.body)
				}
				if c.status == 202 && got.header.Get("Location") != "/api/runs?id="+runID {
					t.Errorf("%s: headers %v", what, got.header)
				}
			}
			again := r.call("POST", r.chatPath(), r.asKey("Idempotency-Key", "k"), waiting).run(202)
			if again.Status != domain.RunRequiresAction {
				t.Errorf("a later retry gave %s", again.Status)
			}
		})
	}
}

// A long poll of a run that waits for a person already goes on until it ends, or asks for something else.
func TestALongPollWaitsBeyondWhatItKnew(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, defaults())
	runID := r.enqueued()
	r.take().park("call_1", false)
	if run := r.call("GET", "/api/runs?wait=1&id="+runID, r.asKey(), "").run(200); run.RequiredAction == nil {
		t.Errorf("the run is %+v", run)
	}
	next := r.answered("GET", "/api/runs?wait=10&id="+runID, r.asKey(), "")
	r.pollsWaiting(1)
	if run := r.decide(runID, "approve", "call_1"); run.Status != domain.RunQueued {
		t.Errorf("approved it is %s", run.Status)
	}
	r.take().park("call_2", false)
	if run := (<-next).run(200); run.RequiredAction == nil || run.RequiredAction.ToolCallID != "call_2" {
		t.Errorf("the next action is not told: %+v", run)
	}
	end := r.answered("GET", "/api/runs?wait=10&id="+runID, r.asKey(), "")
	r.pollsWaiting(1)
	if run := r.decide(runID, "deny", "call_2"); run.Status != domain.RunQueued || run.RequiredAction != nil {
		t.Errorf("denied it is %+v", run)
	}
	r.take().finish("done")
	if run := (<-end).run(200); run.Status != domain.RunCompleted {
		t.Errorf("the end is not told: %+v", run)
	}
}

// pollsWaiting returns once that many requests beside its own are in hand.
func (r *testEnv) pollsWaiting(n int) {
	r.Helper()
	want := "requests_in_flight " + string(rune('1'+n)) + "\n" // the question counts itself
	for deadline := time.Now().Add(10 * time.Second); !strings.Contains(r.call("GET", "/metrics", nil, "").want(200).body, want); {
		if time.Now().After(deadline) {
			r.Fatalf("no %d requests wait", n)
		}
	}
}

// A run that a decision ends is told like any other end.
func TestAbandoningEndsWaits(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, defaults())
	runID := r.enqueued()
	h := r.take()
	effect := domain.Effect{CallID: "call_1", Name: "publish", Input: json.RawMessage(`{}`), SideEffect: domain.SideEffectUnsafe, Key: "k"}
	if _, _, err := h.store.Executions.PrepareEffect(t.Context(), h.claim.Held(), effect, false); err != nil {
		t.Fatal(err)
	}
	if began, err := h.store.Executions.BeginSend(t.Context(), h.claim.Held(), "call_1"); err != nil || !began {
		t.Fatalf("cannot send: %v, %v", began, err)
	}
	action := domain.RequiredAction{Kind: domain.ActionUnknownOutcome, ToolCallID: "call_1", Name: "publish", Input: effect.Input}
	if parked, err := h.store.Executions.Park(t.Context(), h.claim.Held(), action, executiondb.Chunk{}); err != nil || !parked.Parked {
		t.Fatalf("cannot park: %+v, %v", parked, err)
	}
	h.bell.Ack()
	f := r.events(r.url, runID, "")
	polled := r.answered("GET", "/api/runs?wait=10&id="+runID, r.asKey(), "")
	r.pollsWaiting(2)
	run := r.decide(runID, "abandon", "call_1")
	if run.Status != domain.RunFailed || run.Error == nil || run.Error.Code != "outcome_unknown_abandoned" {
		t.Errorf("abandoned it is %+v", run)
	}
	if got := (<-polled).run(200); got.Status != domain.RunFailed {
		t.Errorf("a long poll gave %+v", got)
	}
	if frames := f.all(); len(frames) == 0 || frames[len(frames)-1].kind != "run.failed" {
		t.Errorf("the stream told %s", summary(frames))
	}
}

// A stream goes on while its run waits for a person and after that; and a reader that was cut off behind any event, at
// any ingress, sees the same.
func TestAStreamGoesOnThroughADecision(t *testing.T) {
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
		t.Errorf("told was %s, %v", asked.data, err)
	}
	// While it waits its log can be read, and waited for.
	cut := r.events(second, runID, "")
	parked := []frame{}
	for range 4 {
		got, ok := cut.next()
		if !ok {
			t.Fatal("the log of a run that waits has ended")
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
		t.Errorf("approved it is %s", run.Status)
	}
	h = r.take()
	h.say("Published.")
	h.finish("Published.")
	rest := behind.all()
	if got := summary(rest); got != "3.1 run.restarted, 3.2 message.delta, 3.3 run.completed" {
		t.Errorf("behind the decision came %s", got)
	}
	if got := before.all(); raw(got) != asked.raw+raw(rest) {
		t.Errorf("a reader from before it saw %s", summary(got))
	}
	if got := whole.all(); raw(got) != raw(rest) {
		t.Errorf("the first reader saw\n%s\nthe others\n%s", raw(got), raw(rest))
	}
	r.sameEverywhere(bases, runID)
}
