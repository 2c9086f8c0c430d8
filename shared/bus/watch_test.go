package bus

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"parley/shared/domain"
	"parley/shared/testkit"
)

func TestAWatchSubscribesAgainWhenThatHasFailed(t *testing.T) {
	t.Parallel()
	b, err := Dial(testkit.NATS(t), "test", zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	var fails atomic.Bool
	watch := b.NewWatch()
	subscribe := watch.subscribe
	watch.subscribe = func(subject string, messages chan *nats.Msg) (*nats.Subscription, error) {
		if fails.Load() {
			return nil, errors.New("no subscriptions")
		}
		return subscribe(subject, messages)
	}
	fails.Store(true)
	for _, runID := range []string{"run_1", "run_1", "run_2", "run_3"} {
		if err := watch.Follow(runID); err == nil {
			t.Fatal("a run was followed")
		}
	}
	watch.Unfollow("run_3")
	fails.Store(false)
	if err := watch.Follow("run_1"); err != nil { // another reader follows the run later
		t.Fatal(err)
	}
	subscribed := watch.followed["run_1"].sub
	if err := watch.Follow("run_1"); err != nil || watch.followed["run_1"].sub != subscribed {
		t.Errorf("a run that is followed was subscribed to again: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	heard, ended := make(chan RunMessage, 16), make(chan struct{})
	go func() { watch.Run(ctx, func(h RunMessage) { heard <- h }); close(ended) }()
	defer func() { cancel(); <-ended }()
	wait := func(want RunMessage) {
		t.Helper()
		for after := time.After(20 * time.Second); ; {
			select {
			case h := <-heard:
				if h.RunID == want.RunID && (h.Events == nil) == (want.Events == nil) {
					return
				}
			case <-after:
				t.Fatalf("nothing was received of %s", want.RunID)
			}
		}
	}
	wait(RunMessage{RunID: "run_2"}) // run_2 has no other reader, so its earlier events must be read from the database
	for _, runID := range []string{"run_1", "run_2"} {
		b.Events(runID, domain.EventChunk{Fence: 1, First: 2, Lines: []byte("a {}\n")})
		wait(RunMessage{RunID: runID, Events: []byte{}})
	}
	if watch.followed["run_3"] != nil {
		t.Error("a run without a follower is still subscribed")
	}
}
