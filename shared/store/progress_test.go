package store_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"parley/shared/domain"
	"parley/shared/store/executiondb"
	"parley/shared/store/lease"
	"parley/shared/store/pg"
)

// journalAtOnce records a step of each run concurrently and returns the errors. The error for a run
// is errNotHeld if the calling worker has no lease on it.
func (b *testEnv) journalAtOnce(runs []*executiondb.Claimed, step func(i int) string) []error {
	b.Helper()
	errs := make([]error, len(runs))
	var wg sync.WaitGroup
	for i, run := range runs {
		wg.Go(func() {
			kept, err := b.s.Executions.Journal(b.Context(), run.Held(), 1, []byte(step(i)))
			if err == nil && !kept {
				err = errNotHeld
			}
			errs[i] = err
		})
	}
	wg.Wait()
	return errs
}

var errNotHeld = errors.New("the worker does not hold the run")

// whileStepsLocked runs f while the table steps is locked. When one of f's writes waits for the
// lock, f's other writes queue up and form batches. whileStepsLocked then releases the lock.
func (b *testEnv) whileStepsLocked(f func()) {
	b.Helper()
	release := b.locked(`LOCK TABLE steps IN SHARE MODE`)
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	for waiting := "0"; waiting == "0" && !isClosed(done); {
		waiting = b.text(waitsForLock)
	}
	release()
	<-done
}

func TestWritesOfManyRunsShareACommit(t *testing.T) {
	t.Parallel()
	one, other := twoOrganizations(t)
	const each = 32
	runs := append(one.running(each), other.running(each)...)
	one.whileStepsLocked(func() {
		for i, err := range one.journalAtOnce(runs, func(i int) string { return fmt.Sprintf(`{"seq":1,"n":%d}`, i) }) {
			if err != nil {
				t.Errorf("run %d: %v", i, err)
			}
		}
	})
	if n := one.number(`SELECT count(*) FROM steps`); n != 2*each {
		t.Errorf("%d steps", n)
	}
	if n := one.number(`SELECT count(DISTINCT xmin::text) FROM steps`); n > each/2 {
		t.Errorf("%d steps were written in %d transactions", 2*each, n)
	}
	for i, run := range runs {
		steps, err := one.s.Executions.Steps(t.Context(), run.OrganizationID, run.RunID)
		if want := fmt.Sprintf(`{"seq":1,"n":%d}`, i); err != nil || len(steps) != 1 || string(steps[0]) != want {
			t.Errorf("run %d has the steps %s, %v", i, steps, err)
		}
	}
}

// The runs of a batch wait until the whole batch is committed. Large steps therefore get separate
// transactions.
func TestLargeStepsAreWrittenInSeparateCommits(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	large := `"` + strings.Repeat("x", executiondb.MaxBatchBytes*2/3) + `"`
	runs := b.running(4)
	b.whileStepsLocked(func() {
		if err := errors.Join(b.journalAtOnce(runs, func(int) string { return large })...); err != nil {
			t.Error(err)
		}
	})
	if n := b.number(`SELECT count(DISTINCT xmin::text) FROM steps`); n != len(runs) {
		t.Errorf("%d large steps were written in %d transactions", len(runs), n)
	}
}

func TestALockedRunDelaysItsOwnWritesAlone(t *testing.T) {
	t.Parallel()
	one, other := twoOrganizations(t)
	stuck, neighbours := one.claimedRun(), append(one.running(10), other.running(30)...)
	one.inState(stuck, "ready", domain.SideEffectUnsafe)
	release := one.lockedRun(stuck.RunID)
	began := async(func() error {
		if began, err := one.s.Executions.BeginSend(t.Context(), stuck, "c", "sender"); err != nil || !began {
			return fmt.Errorf("%t: %w", began, err)
		}
		return nil
	})
	one.wantFast("writes beside a locked run", func() {
		for i, err := range one.journalAtOnce(neighbours, func(int) string { return `{}` }) {
			if err != nil {
				t.Errorf("neighbour %d: %v", i, err)
			}
		}
	})
	select {
	case err := <-began:
		t.Errorf("the effect of the locked run: %v", err)
	default:
	}
	release()
	if err := <-began; err != nil {
		t.Errorf("after the release: %v", err)
	}
	one.wantEffect(stuck.RunID, "sending sent")
}

// A worker retries its write for some time if another transaction has locked the run.
func TestAWriteGivesUpALockedRun(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	held := b.claimedRun()
	release := b.lockedRun(held.RunID)
	if _, err := b.s.Executions.Journal(t.Context(), held, 1, []byte(`{}`)); !pg.IsLocked(err) {
		t.Errorf("a locked run: %v", err)
	}
	release()
	if kept, err := b.s.Executions.Journal(t.Context(), held, 1, []byte(`{}`)); err != nil || !kept {
		t.Errorf("after the release: %t, %v", kept, err)
	}
}

func TestARejectedWriteSparesItsNeighbours(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	runs := b.running(40)
	if kept, err := b.s.Executions.Journal(t.Context(), runs[7].Held(), 1, []byte(`{}`)); err != nil || !kept {
		t.Fatalf("%t, %v", kept, err)
	}
	zombie := *runs[9]
	zombie.Fence--
	runs[9] = &zombie
	b.whileStepsLocked(func() {
		errs := b.journalAtOnce(runs, func(i int) string { return map[bool]string{true: `{`, false: `{}`}[i == 3] })
		for i, err := range errs {
			var is bool
			switch i {
			case 3:
				is = pg.HasCode(err, "22P02") // not JSON
			case 7:
				is = pg.HasCode(err, "23505") // the step already exists
			case 9:
				is = errors.Is(err, errNotHeld)
			default:
				is = err == nil
			}
			if !is {
				t.Errorf("run %d: %v", i, err)
			}
		}
	})
	if n := b.number(`SELECT count(*) FROM steps`); n != len(runs)-2 {
		t.Errorf("%d steps", n)
	}
}

// The writes to a run take effect in their order, even in one batch. An example is an EndSend after
// a BeginSend whose reply was lost.
func TestWritesOfARunKeepTheirOrder(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	held := b.claimedRun()
	for round := range 20 {
		e := effect(fmt.Sprint("c", round), domain.SideEffectUnsafe)
		b.prepare(held, e, false)
		done := race(t,
			func() (bool, error) { return b.s.Executions.BeginSend(t.Context(), held, e.CallID, "sender") },
			func() (bool, error) { return b.s.Executions.EndSend(t.Context(), held, e.CallID, []byte(`{}`)) })
		want := map[bool]string{true: "done", false: "sending"}[done[1]]
		if state := b.text(`SELECT state FROM effects WHERE call_id = $1`, e.CallID); !done[0] || state != want {
			t.Errorf("%v, and the effect is %s", done, state)
		}
	}
}

// A worker that was frozen after it checked its lease may have lost the run, so it must not send
// the tool call.
func TestALateCheckDoesNotAllowToSend(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	held := b.claimedRun()
	b.inState(held, "ready", domain.SideEffectUnsafe)
	b.exec(`CREATE FUNCTION delay() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(3.1); RETURN NEW; END $$`)
	b.exec(`CREATE TRIGGER delay AFTER UPDATE ON effects FOR EACH ROW WHEN (NEW.state = 'sending') EXECUTE FUNCTION delay()`)
	if began, err := b.try("begin", held); began || err == nil {
		t.Errorf("the late check: %t, %v", began, err)
	}
	b.wantEffect(held.RunID, "sending sent")
	b.does("end", held, true) // the worker reports that nothing was sent
}

// A write with another organization than that of its run changes nothing, even in one batch with
// writes of the run's organization.
func TestWritesBesideTheOwnersAreRefused(t *testing.T) {
	t.Parallel()
	one, other := twoOrganizations(t)
	victims, owns := one.running(10), other.running(10)
	var runs []*executiondb.Claimed
	for i := range victims {
		forged := *victims[i]
		forged.OrganizationID = other.org
		runs = append(runs, &forged, owns[i])
	}
	runs = append(runs, one.running(5)...) // the batch then contains writes of both organizations
	one.whileStepsLocked(func() {
		for i, err := range one.journalAtOnce(runs, func(int) string { return `{}` }) {
			if forged := i < 2*len(victims) && i%2 == 0; forged != errors.Is(err, errNotHeld) || !forged && err != nil {
				t.Errorf("write %d: %v", i, err)
			}
		}
	})
	for _, victim := range victims {
		if n := one.number(`SELECT count(*) FROM steps WHERE run_id = $1`, victim.RunID); n > 0 {
			t.Errorf("%d forged steps", n)
		}
	}
	var none lease.Held
	if kept, err := one.s.Executions.Journal(t.Context(), none, 1, []byte(`{}`)); err != nil || kept {
		t.Errorf("no run: %t, %v", kept, err)
	}
}
