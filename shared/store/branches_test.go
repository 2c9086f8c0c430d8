package store_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/store/executiondb"
	"parley/shared/store/queuedb"
	"parley/shared/store/rundb"
	"parley/shared/store/sessiondb"
	"parley/shared/testkit"
)

// branch returns a run of the session "s" that continues the run previous. An empty previous means
// that the run continues no run.
func (b *testEnv) branch(previous string) queuedb.NewRun {
	r := b.run("", "s")
	r.Previous = &previous
	return r
}

// waits checks that the runs cannot be claimed yet. The error message contains the argument why,
// which is the reason for which they must wait.
func (b *testEnv) waits(why string, runs ...string) {
	b.Helper()
	for _, id := range runs {
		if c := b.claim(id); c.Run != nil || c.Ended {
			b.Errorf("%s: %s can be claimed: %+v", why, id, c)
		}
	}
}

// Runs that continue the same run do not wait for each other, even if one of them waits for a
// person or is cancelled. A run without a named previous run continues the session's last run, and
// waits for all branches.
func TestBranchesDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	root := b.say("q", "a", nil)
	accepted := b.accept(wideWindow, b.branch(root), b.branch(root), b.run("", "s"), b.branch(""))
	left, right, last, other := accepted[0].Run.Run.ID, accepted[1].Run.Run.ID, accepted[2].Run.Run.ID, accepted[3].Run.Run.ID
	for i, want := range []bool{true, true, false, true} {
		if got := accepted[i].Job != nil; got != want {
			t.Errorf("run %d is dispatched: %v", i, got)
		}
	}
	held := b.mustClaim(left)
	continued, another := b.mustClaim(right), b.mustClaim(other)
	b.waits("the session's end", last)

	b.prepare(held.Held(), effect("c", domain.SideEffectUnsafe), true)
	b.park(held.Held(), domain.ActionApproval, executiondb.Chunk{})
	b.finish(continued, "right")
	b.finish(another, "other")
	more := b.accept(wideWindow, b.branch(right), b.branch(left))
	b.finish(b.mustClaim(more[0].Run.Run.ID), "further right")
	after := more[1].Run.Run.ID
	b.waits("a run waits for a person", last, after)

	if _, _, err := b.s.Executions.Cancel(t.Context(), b.org, "", left); err != nil {
		t.Fatal(err)
	}
	b.mustClaim(last)
	b.mustClaim(after)
}

// Branches of an open run wait for this run, and are all dispatched when it has finished.
func TestBranchesWaitForTheRunThatTheyContinue(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	root := b.accept(wideWindow, b.run("", "s"))[0].Run.Run.ID
	accepted := b.accept(wideWindow, b.branch(root), b.branch(root))
	left, right := accepted[0].Run.Run.ID, accepted[1].Run.Run.ID
	further := b.accept(wideWindow, b.branch(left))[0].Run.Run.ID
	if dispatched(accepted) != 0 {
		t.Errorf("dispatched %+v", accepted)
	}
	c := b.mustClaim(root)
	b.waits("the run that it continues is open", left, right, further)
	if got := ids(b.finishAndNext(c, "a", wideWindow)); !slices.Equal(slices.Sorted(slices.Values(got)), []string{left, right}) {
		t.Errorf("dispatched %v", got)
	}
	b.waits("the run that it continues is open", further)
	b.finish(b.mustClaim(left), "left")
	b.mustClaim(further)
	b.mustClaim(right)
}

// When a run finishes, the runs that waited only for it are counted, and no more slots are freed
// than exist. The same is true for a cancellation, even of a run without a slot.
func TestAFinishCountsTheBranchesThatWaitForIt(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	root := b.accept(wideWindow, b.run("", "s"))[0].Run.Run.ID
	branches := b.accept(wideWindow, b.branch(root), b.branch(root), b.branch(root))
	left := branches[0].Run.Run.ID
	b.accept(wideWindow, b.branch(left), b.branch(left), b.run("", "s"))
	done := b.finish(b.mustClaim(root), "a")
	if freed := done.Freed[automationsFor(b.org)]; freed.Followers != 3 || freed.Slots != 1 || !freed.Waiting {
		t.Errorf("freed %+v", freed)
	}
	b.setSlots(2)
	next, err := b.s.Queue.DispatchNext(t.Context(), done.Freed)
	if err != nil || len(next) != 2 {
		t.Errorf("dispatched %v into 2 slots, %v", ids(next), err)
	}

	_, ended, err := b.s.Executions.Cancel(t.Context(), b.org, "", left)
	if err != nil || len(ended) != 1 || ended[0].Followers != 2 {
		t.Errorf("cancelled %+v, %v", ended, err)
	}
	b.finish(b.mustClaim(branches[1].Run.Run.ID), "b")
	if last := b.finish(b.mustClaim(branches[2].Run.Run.ID), "c"); last.Freed[automationsFor(b.org)].Followers != 0 {
		t.Errorf("freed %+v", last.Freed)
	}
}

// From its acceptance on, each run contains the id of the run that it continues.
func TestEachRunNamesTheRunThatItContinues(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	check := func(runID, want string, accepted domain.Run) {
		t.Helper()
		read := func() *string {
			run, err := b.s.Runs.RunByID(t.Context(), b.org, "", runID)
			if err != nil {
				t.Fatal(err)
			}
			return run.Run.PreviousRunID
		}
		got := map[string]*string{"accepted": accepted.PreviousRunID, "queued": read()}
		c := b.mustClaim(runID)
		got["claimed"] = c.Run().PreviousRunID
		b.prepare(c.Held(), effect("c", domain.SideEffectUnsafe), true)
		b.park(c.Held(), domain.ActionApproval, executiondb.Chunk{})
		parked, err := one(b.s.Runs.AwaitedRuns(t.Context(), []rundb.RunRef{{OrganizationID: b.org, RunID: runID}}))
		if err != nil {
			t.Fatal(err)
		}
		got["parked"] = parked.Run.PreviousRunID
		got["its events"] = b.log(runID, 0, 0).Run.Run.PreviousRunID
		if _, _, err := b.s.Executions.Cancel(t.Context(), b.org, "", runID); err != nil {
			t.Fatal(err)
		}
		got["cancelled"] = read()
		list, err := b.s.Runs.ListRuns(t.Context(), b.org, rundb.RunFilter{}, 1)
		if err != nil || len(list) != 1 || list[0].ID != runID {
			t.Fatalf("%+v, %v", list, err)
		}
		got["listed"] = list[0].PreviousRunID
		for when, previous := range got {
			if deref(previous) != want {
				t.Errorf("%s: %s continues %q, want %q", when, runID, deref(previous), want)
			}
		}
	}

	continued := map[string]string{}
	begin := func(r queuedb.NewRun, want string) string {
		t.Helper()
		check(r.ID, want, b.accept(wideWindow, r)[0].Run.Run)
		continued[r.ID] = want
		return r.ID
	}
	first := begin(b.run("", "s"), "")
	second := begin(b.run("", "s"), first)
	begin(b.branch(first), first)
	root := begin(b.branch(""), "")
	begin(b.run("", "s"), root)
	begin(b.branch(second), second)
	begin(b.run("", "other"), "")
	begin(b.automation(), "")

	// Each turn in the session's list, on every page, also contains the id of the run that it
	// continues.
	session := sessiondb.SessionName{OrganizationID: b.org, TargetID: b.agent, SessionID: "s", Key: contract.Hash(b.org, b.agent, "s")}
	turns := 0
	for page, before := (sessiondb.SessionPage{More: true}), 0; page.More; {
		var err error
		if page, err = b.s.Sessions.PageOfSession(t.Context(), session, before, 2, 0); err != nil {
			t.Fatal(err)
		}
		for _, turn := range page.Turns {
			if deref(turn.PreviousRun) != continued[turn.RunID] {
				t.Errorf("turn %d continues %q, want %q", turn.Seq, deref(turn.PreviousRun), continued[turn.RunID])
			}
			before = turn.Seq
			turns++
		}
	}
	if turns != 6 {
		t.Errorf("the session has %d turns", turns)
	}

	// A batch of accepted runs may contain several runs of one session. Each of them continues the
	// preceding run.
	head := b.run("", "batch")
	accepted := b.accept(wideWindow, head, b.run("", "batch"))
	if got := deref(accepted[1].Run.Run.PreviousRunID); got != head.ID || accepted[0].Run.Run.PreviousRunID != nil {
		t.Errorf("the second run of a batch continues %q", got)
	}
}

// Several processes accept runs of one session at the same time. Each run continues the run with
// the preceding number.
func TestRunsAcceptedTogetherFollowEachOther(t *testing.T) {
	t.Parallel()
	m := newMeter(t)
	const processes, rounds = 4, 25
	var mu sync.Mutex
	continued := map[string]string{}
	var wg sync.WaitGroup
	for range processes {
		s, _ := openAt(t, m.dsn)
		b := m.on(s)
		wg.Go(func() {
			// A run is rejected while another process has locked the session for too long.
			for began, accepted := time.Now(), 0; accepted < rounds && !testkit.Late(began, time.Minute); {
				out, err := b.s.Queue.Accept(t.Context(), []queuedb.NewRun{b.run("", "s"), b.run("", "s")})
				if err != nil {
					t.Errorf("accepting: %v", err)
					return
				}
				mu.Lock()
				for _, a := range out {
					if a.Err == nil {
						accepted++
						continued[a.Run.Run.ID] = deref(a.Run.Run.PreviousRunID)
					}
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for id, previous := range continued {
		want := m.text(`SELECT coalesce((SELECT p.id FROM runs p WHERE p.session_ref = r.session_ref AND p.seq = r.seq - 1), '') FROM runs r WHERE r.id = $1`, id)
		if previous != want {
			t.Errorf("%s continues %q, want %q", id, previous, want)
		}
	}
	if len(continued) < processes*rounds {
		t.Errorf("only %d runs were accepted", len(continued))
	}
}

// A branch that may start is dispatched even if earlier runs of its session may not start. This is
// also true if more runs wait in the lane than a dispatch reads in its first query. Many waiting branches do not
// slow down a dispatch.
func TestDispatchFindsABranch(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	b.queue(1, 1, 300, "parked")
	b.queue(2, 2, 4, "parked")
	b.exec(`UPDATE open_runs SET run_id = 'z_' || run_id, waits_for = (ARRAY[NULL, 1, 0, NULL])[seq] WHERE session_ref = 1000002`)
	if got := append(b.dispatch(3), b.dispatch(3)...); !slices.Equal(got, []string{"z_run_000003_2"}) {
		t.Errorf("dispatched %v", got)
	}

	b.queue(3, 3, 20000, "parked")
	b.exec(`UPDATE open_runs SET waits_for = 1 WHERE session_ref = 1000003 AND seq > 1`)
	for _, stats := range []string{"none", "up to date"} {
		if n := b.pages(5); n > 30000 {
			t.Errorf("statistics %s: the dispatch reads %d pages", stats, n)
		}
		b.exec(`ANALYZE open_runs`)
	}
}
