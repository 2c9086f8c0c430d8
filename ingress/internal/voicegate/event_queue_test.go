package voicegate

import (
	"strings"
	"testing"
	"time"

	"parley/ingress/internal/realtime"
)

func bodies(o *eventQueue) string {
	var all []string
	for {
		event, some, how := o.next()
		if !some {
			if how != nil {
				all = append(all, how.Reason)
			}
			return strings.Join(all, " ")
		}
		all = append(all, string(event.Body))
	}
}

func spokenEvent(body, answer string) realtime.Event {
	return realtime.Event{Body: []byte(body), Answer: answer, Samples: 1}
}

func TestADroppedAnswerLeavesTheQueue(t *testing.T) {
	t.Parallel()
	o := newOutgoing()
	o.push([]realtime.Event{spokenEvent("a1", "a"), {Body: []byte("x")}, spokenEvent("b1", "b"), spokenEvent("a2", "a"), spokenEvent("c1", "c")})
	o.drop([]string{"a", "c"})
	o.push([]realtime.Event{spokenEvent("a3", "a")})
	if o.bytes != len("xb1a3") {
		t.Errorf("%d bytes are queued", o.bytes)
	}
	if got := bodies(o); got != "x b1 a3" || o.bytes != 0 {
		t.Errorf("queued: %s; %d bytes are left", got, o.bytes)
	}
}

func TestTheQueueIsBounded(t *testing.T) {
	t.Parallel()
	o := newOutgoing()
	if !o.push([]realtime.Event{{Body: make([]byte, maxQueue)}}) {
		t.Error("the queue accepts less than its limit")
	}
	if o.push([]realtime.Event{{Body: []byte("x")}}) {
		t.Error("the queue accepts more than its limit")
	}
	o.finish([]realtime.Event{{Body: []byte("why")}}, true, realtime.Close{Reason: "closed"})
	if !o.push([]realtime.Event{{Body: []byte("late")}}) {
		t.Error("a finished queue is full")
	}
	if got := bodies(o); got != "why closed" {
		t.Errorf("queued: %s", got)
	}
	o = newOutgoing()
	o.push([]realtime.Event{{Body: []byte("x")}})
	o.finish([]realtime.Event{{Body: []byte("why")}}, false, realtime.Close{Reason: "closed"})
	if got := bodies(o); got != "x why closed" {
		t.Errorf("queued: %s", got)
	}
}

func TestBucketsRefill(t *testing.T) {
	t.Parallel()
	now := time.Unix(1, 0)
	b := newBucket(10, 3, now)
	for range 3 {
		if !b.take(now) {
			t.Fatal("the burst does not pass")
		}
	}
	if b.take(now) || b.take(now.Add(99*time.Millisecond)) || !b.take(now.Add(101*time.Millisecond)) {
		t.Error("want one change every 100 ms")
	}
	b = newBucket(10, 1, now)
	for i, want := range []time.Duration{0, 100 * time.Millisecond, 200 * time.Millisecond} {
		if got := b.owe(now, 1); got != want {
			t.Errorf("message %d waits for %s, want %s", i, got, want)
		}
	}
}
