package runner

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"parley/shared/store/lease"
)

// An attempt ends when its lease expires, even if the heartbeat waits for a database that does not
// respond.
func TestAnAttemptEndsWithItsLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &heldRuns{runs: map[string]*heldRun{}}
		watched, stop := context.WithCancel(t.Context())
		go h.watch(watched)

		attempt, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		run := &heldRun{Held: lease.Held{RunID: "run_1", Fence: 1}, cancel: cancel, leaseUntil: time.Now().Add(lease.Lease)}
		h.add(run)

		wait := func(d time.Duration) {
			select {
			case <-time.After(d):
			case <-attempt.Done():
			}
		}
		wait(lease.Lease - time.Second)
		h.extend(run, time.Now().Add(lease.Lease))
		wait(lease.Lease - time.Second)
		if attempt.Err() != nil {
			t.Fatal("an attempt ended within its lease")
		}
		wait(3 * time.Second)
		if !errors.Is(context.Cause(attempt), errLease) {
			t.Errorf("cause of the attempt after its lease: %v", context.Cause(attempt))
		}
		h.remove(run)
		if h.count() != 0 {
			t.Error("a removed run is still held")
		}
		stop()
		synctest.Wait()
	})
}

func TestRemoveLeavesALaterClaimOfTheSameRun(t *testing.T) {
	t.Parallel()
	h := &heldRuns{runs: map[string]*heldRun{}}
	first, second := &heldRun{Held: lease.Held{RunID: "run_1", Fence: 1}}, &heldRun{Held: lease.Held{RunID: "run_1", Fence: 2}}
	h.add(first)
	h.add(second)
	h.remove(first)
	if got := h.all(); len(got) != 1 || got[0] != second {
		t.Errorf("held %+v", got)
	}
}
