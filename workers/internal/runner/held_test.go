package runner

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"parley/shared/store/executiondb"
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

// beatingEnv records heartbeats.
type beatingEnv struct {
	*testEnv

	downUntil  time.Time            // heartbeats fail until then
	last       map[string]time.Time // each run's last heartbeat
	statements int
	largest    int           // runs of one statement
	longest    time.Duration // between two heartbeats for a run
}

func (b *beatingEnv) Extend(_ context.Context, held []lease.Held) (executiondb.Leases, error) {
	b.statements++
	if time.Now().Before(b.downUntil) {
		return executiondb.Leases{}, errors.New("down")
	}
	b.largest = max(b.largest, len(held))
	out := executiondb.Leases{Extended: make(map[string]bool, len(held))}
	for _, h := range held {
		out.Extended[h.RunID] = true
		b.longest = max(b.longest, time.Since(b.last[h.RunID]))
		b.last[h.RunID] = time.Now()
	}
	return out, nil
}

// The leases of thousands of runs are not extended in one statement, and those of a few runs are. No
// lease expires, even if the database fails for some time.
func TestHeartbeatsOfManyRunsAreSpread(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		runs, largest, statements int
		down                      time.Duration
		longest                   time.Duration
	}{
		"a few":           {runs: 200, largest: 200, statements: 12, longest: heartbeatEvery},
		"many":            {runs: 5000, largest: 500, statements: 120, longest: heartbeatLate},
		"after a failure": {runs: 5000, largest: 5000, statements: 120, down: 25 * time.Second, longest: 26 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := &beatingEnv{testEnv: &testEnv{}, last: map[string]time.Time{}, downUntil: time.Now().Add(c.down)}
				r := &Runner{runs: b, held: &heldRuns{runs: map[string]*heldRun{}}, log: zerolog.Nop()}
				ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
				defer stop()
				attempts, cancel := context.WithCancelCause(ctx)
				defer cancel(nil)
				for n := range c.runs {
					run := &heldRun{Held: lease.Held{RunID: fmt.Sprint(n)}, cancel: cancel, leaseUntil: time.Now().Add(lease.Lease)}
					r.held.add(run)
					b.last[run.RunID] = time.Now()
				}
				go r.held.watch(ctx)
				r.heartbeat(ctx)
				if cause := context.Cause(attempts); !errors.Is(cause, context.DeadlineExceeded) {
					t.Errorf("an attempt ended: %v", cause)
				}
				if b.largest > c.largest || b.statements > c.statements || b.longest > c.longest {
					t.Errorf("at most %d runs in one of %d statements, and %s between two heartbeats", b.largest, b.statements, b.longest)
				}
			})
		})
	}
}
