package store_test

import (
	"testing"
	"time"

	"parley/shared/store/lease"
)

// step simulates a change to the database's clock: it moves the stored times of open runs into the
// past.
func (b *testEnv) step(by time.Duration) {
	b.Helper()
	b.exec(`UPDATE open_runs SET lease_until = lease_until - make_interval(secs => $1), deadline = deadline - make_interval(secs => $1),
		next_dispatch_at = next_dispatch_at - make_interval(secs => $1), dispatched_at = dispatched_at - make_interval(secs => $1)`, by.Seconds())
}

// Setting the clock forward expires leases immediately. The workers that held the leases can no
// longer write, and each run ends exactly once.
func TestALeaseThatAStepOfTheClockEndsIsFenced(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	b.ignoreUptime()
	row := b.run("", "")
	row.Deadline = 2 * time.Hour
	runID := b.accept(wideWindow, row)[0].Run.Run.ID
	first := b.mustClaim(runID)
	b.step(time.Hour)
	if ended, err := b.s.Executions.EndOverdue(t.Context(), 10); err != nil || len(ended) != 0 {
		t.Fatalf("ended %v, %v", ended, err)
	}
	if orgs, err := b.s.Executions.RequeueLost(t.Context(), 10); err != nil || len(orgs) != 1 {
		t.Fatalf("requeued %v, %v", orgs, err)
	}
	second := b.mustClaim(runID)
	if leases, err := b.s.Executions.Extend(t.Context(), []lease.Held{first.Held()}); err != nil || leases.Extended[runID] || leases.Locked[runID] {
		t.Errorf("the first worker still holds the run: %+v, %v", leases, err)
	}
	if b.finish(first, "first").Saved[runID] {
		t.Error("the first worker has ended the run")
	}
	if !b.finish(second, "second").Saved[runID] {
		t.Error("the second worker has not ended the run")
	}
}

// Setting the clock back prolongs leases and waits. Leases and waits that become too long are
// shortened. All other leases and waits are unchanged.
func TestWaitsAreShortenedWhenTheClockIsSetBack(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	accepted := b.accept(wideWindow, b.run("", ""), b.run("", ""))
	held := b.mustClaim(accepted[0].Run.Run.ID)
	shorten := func(want int64) {
		t.Helper()
		if n, err := b.s.Executions.ShortenWaits(t.Context()); err != nil || n != want {
			t.Errorf("%d were shortened, want %d, %v", n, want, err)
		}
	}
	shorten(0)
	b.step(-time.Hour)
	shorten(2)
	shorten(0)
	if got := b.text(`SELECT bool_and(coalesce(lease_until, next_dispatch_at) BETWEEN clock_timestamp() AND clock_timestamp() + interval '30 seconds')
		FROM open_runs`); got != "true" {
		t.Error("a run waits for longer than a lease")
	}
	if !b.finish(held, "done").Saved[held.RunID] {
		t.Error("the worker has lost its run")
	}
}
