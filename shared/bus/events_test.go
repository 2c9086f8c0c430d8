package bus_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"parley/shared/bus"
	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/testkit"
)

// listen runs a watch until the test ends, and returns the channel of received messages.
func listen(t *testing.T, b *bus.Bus) (*bus.Watch, chan bus.RunMessage) {
	t.Helper()
	watch, heard := b.NewWatch(), make(chan bus.RunMessage, 1<<17)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		watch.Run(ctx, func(h bus.RunMessage) { heard <- h })
		close(ended)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return watch, heard
}

func handleMessage(t *testing.T, heard chan bus.RunMessage) bus.RunMessage {
	t.Helper()
	select {
	case h := <-heard:
		return h
	case <-time.After(20 * time.Second):
		t.Fatal("nothing was received")
		return bus.RunMessage{}
	}
}

func follow(t *testing.T, w *bus.Watch, runID string) {
	t.Helper()
	if err := w.Follow(runID); err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func chunk(n int, text string) domain.EventChunk {
	return domain.EventChunk{Fence: 1, First: n, Lines: domain.AppendEventLine(nil, "message.delta", []byte(`{"text":"`+text+`"}`))}
}

func TestAWatchHearsOfItsRunsOnly(t *testing.T) {
	t.Parallel()
	url := testkit.NATS(t)
	worker, ingress := dial(t, url), dial(t, url)
	watch, heard := listen(t, ingress)
	follow(t, watch, "run_1")
	worker.Events("run_2", chunk(2, "not ours"))
	worker.Events("run_1", chunk(2, "ours"))
	worker.Cancelled("run_1")
	worker.Done("run_1", "", nil)
	if h := handleMessage(t, heard); h.RunID != "run_1" || string(h.Events) != string(contract.EventMessage(chunk(2, "ours"))) {
		t.Errorf("received %s %q", h.RunID, h.Events)
	}
	if h := handleMessage(t, heard); h.RunID != "run_1" || h.Events != nil {
		t.Errorf("received %s %q", h.RunID, h.Events)
	}
	watch.Unfollow("run_1")
	watch.Unfollow("run_1")
	follow(t, watch, "run_3")
	worker.Events("run_1", chunk(3, "no more"))
	worker.Events("run_3", chunk(2, "another"))
	if h := handleMessage(t, heard); h.RunID != "run_3" {
		t.Errorf("received %s %q", h.RunID, h.Events)
	}
}

// The notice that a run finished contains the run's last event, unless the event is too large.
func TestANoticeContainsTheLastEvent(t *testing.T) {
	t.Parallel()
	b := dial(t, testkit.NATS(t))
	watch, heard := listen(t, b)
	follow(t, watch, "run_1")
	at := domain.EventID{Fence: 3, N: 7}
	b.Ended("run_1", "", []byte(`{"id":"run_1"}`), at, domain.RunFailed)
	if h := handleMessage(t, heard); h.RunID != "run_1" || string(h.Events) != "3 7\nrun.failed {\"run\":{\"id\":\"run_1\"}}\n" {
		t.Errorf("received %s %q", h.RunID, h.Events)
	}
	b.Ended("run_1", "", bytes.Repeat([]byte("x"), 33<<10), at, domain.RunFailed)
	if h := handleMessage(t, heard); string(h.Events) != "3 7\n" {
		t.Errorf("received %.100q", h.Events)
	}
}

func TestEventsTooLargeForAMessageAreAnnounced(t *testing.T) {
	t.Parallel()
	b := dial(t, testkit.NATS(t))
	watch, heard := listen(t, b)
	follow(t, watch, "run_1")
	for n, large := range []int{33 << 10, 9 << 20} {
		b.Events("run_1", chunk(7+n, strings.Repeat("x", large)))
		if h := handleMessage(t, heard); string(h.Events) != fmt.Sprintf("1 %d\n", 7+n) {
			t.Errorf("received %.100q", h.Events)
		}
	}
}

// A watch reports missed messages: messages that did not fit into its buffer because its callback
// is slow, and messages sent during an outage.
func TestAWatchReportsMissedMessages(t *testing.T) {
	t.Parallel()
	b := dial(t, testkit.NATS(t))
	watch := b.NewWatch()
	follow(t, watch, "run_1")
	const sent = 20_000 // more messages than the channel can hold while nothing receives them
	for n := range sent {
		b.Events("run_1", chunk(n+2, fmt.Sprint(n)))
	}
	if err := b.Ping(t.Context()); err != nil { // the server replies after it has delivered all earlier messages
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	events, lost := 0, false
	go func() {
		<-time.After(20 * time.Second)
		cancel()
	}()
	watch.Run(ctx, func(h bus.RunMessage) {
		if h.Events != nil {
			events++
			return
		}
		lost = h.RunID == "run_1"
		cancel()
	})
	if !lost || events == 0 || events >= sent {
		t.Errorf("%d of %d messages were received, loss reported: %v", events, sent, lost)
	}
}

func TestAWatchLooksAgainAfterAReconnection(t *testing.T) {
	t.Parallel()
	server := testkit.NATSProcess(t, t.TempDir())
	b := dial(t, server.URL)
	watch, heard := listen(t, b)
	follow(t, watch, "run_1")
	if !watch.Connected() {
		t.Error("a watch that follows is not connected")
	}
	server.Kill9()
	server.Restart()
	if h := handleMessage(t, heard); h.RunID != "run_1" || h.Events != nil {
		t.Errorf("received %s %q", h.RunID, h.Events)
	}
	b.Events("run_1", chunk(2, "as before"))
	if h := handleMessage(t, heard); string(h.Events) != string(contract.EventMessage(chunk(2, "as before"))) {
		t.Errorf("received %s %q", h.RunID, h.Events)
	}
}
