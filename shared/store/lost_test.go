package store_test

import (
	"testing"

	"parley/shared/store/lease"
)

// A worker keeps its run until its lease expires. The next worker gets a new fence.
func TestOnlyALeaseThatIsOverIsTaken(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	b.ignoreUptime()
	runID := b.accept(wideWindow, b.run("", ""))[0].Run.Run.ID
	requeued := func(want int) {
		t.Helper()
		if orgs, err := b.s.Executions.RequeueLost(t.Context(), 10); err != nil || len(orgs) != want {
			t.Errorf("runs of %v were requeued, want %d, %v", orgs, want, err)
		}
	}
	over := func() { b.exec(`UPDATE open_runs SET lease_until = clock_timestamp() - interval '1 second'`) }

	first := b.mustClaim(runID)
	requeued(0)
	if c := b.claim(runID); c.Run != nil {
		t.Error("a run was taken from its worker, whose lease has not expired")
	}
	over()
	if kept, err := b.s.Executions.Extend(t.Context(), []lease.Held{first.Held()}); err != nil || !kept.Extended[runID] {
		t.Fatalf("extending: %v, %v", kept, err)
	}
	requeued(0)
	over()
	requeued(1)
	second := b.mustClaim(runID)
	over()
	third := b.mustClaim(runID) // claimed again immediately
	if second.Deaths != 1 || third.Deaths != 2 {
		t.Errorf("two workers were lost; counted were %d and %d", second.Deaths, third.Deaths)
	}
	b.exec(`UPDATE open_runs SET status = 'queued', dispatched = false`) // requeues the run with its old fence
	fourth := b.mustClaim(runID)
	if second.Fence <= first.Fence || third.Fence <= second.Fence || fourth.Fence <= third.Fence {
		t.Errorf("fences %d, %d, %d, %d", first.Fence, second.Fence, third.Fence, fourth.Fence)
	}
	if b.finish(third, "old").Saved[runID] || !b.finish(fourth, "new").Saved[runID] {
		t.Error("the run's result is not from its last worker")
	}
}

// If a run cannot be claimed because it must wait, the worker acknowledges the job message. The run
// therefore releases its slot until its turn comes.
func TestAVoidClaimReleasesItsSlot(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	out := b.accept(wideWindow, b.run("", "s"), b.run("", "s"))
	first, second := out[0].Run.Run.ID, out[1].Run.Run.ID
	b.exec(`UPDATE open_runs SET dispatched = true, next_dispatch_at = clock_timestamp() + interval '1 hour' WHERE run_id = $1`, second)
	if c := b.claim(second); c.Run != nil || c.Ended {
		t.Errorf("a run was claimed before its turn: %+v", c)
	}
	if got := b.text(`SELECT dispatched FROM open_runs WHERE run_id = $1`, second); got != "false" {
		t.Error("a run that waits for its turn keeps its slot")
	}
	wantIDs(t, "once it is its turn", b.finishAndNext(b.mustClaim(first), "one", 1), second)
}
