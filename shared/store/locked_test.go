package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/store"
	"parley/shared/store/executiondb"
	"parley/shared/store/lease"
	"parley/shared/store/pg"
	"parley/shared/store/queuedb"
	"parley/shared/store/sessiondb"
	"parley/shared/testkit"
)

// twoOrganizations returns two organizations in one database. They share a store, so their requests
// are in the same batches.
func twoOrganizations(t *testing.T) (one, other *testEnv) {
	t.Helper()
	s, raw := openRaw(t)
	return newEnvOn(t, s, raw, "ada@example.com"), newEnvOn(t, s, raw, "bob@example.com")
}

func twoMailboxes(t *testing.T) (one, other *hookEnv) {
	t.Helper()
	a, b := twoOrganizations(t)
	return mailboxOn(a), mailboxOn(b)
}

// maxFast bounds the time that wantFast accepts on a loaded machine. It is shorter than the lock
// timeout in the mutant "a batch that waits for locked rows", so that wantFast fails with this
// mutant.
const maxFast = 20 * time.Second

// wantFast fails the test if f waits for a lock.
func (b *testEnv) wantFast(what string, f func()) {
	b.Helper()
	began := time.Now()
	f()
	if took := time.Since(began); took > min(testkit.Within(time.Second), maxFast) {
		b.Errorf("%s took %s", what, took)
	}
}

func (b *testEnv) lockedRun(runID string) (end func()) {
	b.Helper()
	return b.locked(`SELECT FROM open_runs WHERE run_id = $1 FOR UPDATE`, runID)
}

// running accepts and claims n runs of separate sessions.
func (b *testEnv) running(n int) []*executiondb.Claimed {
	b.Helper()
	rows := make([]queuedb.NewRun, n)
	for i := range rows {
		rows[i] = b.run("", "")
	}
	out := make([]*executiondb.Claimed, n)
	for i, accepted := range b.accept(wideWindow, rows...) {
		out[i] = b.mustClaim(accepted.Run.Run.ID)
	}
	return out
}

func (b *testEnv) outcome(c *executiondb.Claimed, answer string) executiondb.Outcome {
	b.Helper()
	run := c.Run()
	run.Message, run.Output = &answer, &domain.Output{Message: answer}
	run.End(domain.RunCompleted, nil, domain.At(c.Now), c.RetentionSecs)
	outcome, err := executiondb.NewOutcome(c.Held(), run)
	b.must(err)
	return outcome
}

// on returns a copy of the test environment that uses s, the store of another process.
func (b *testEnv) on(s *store.Store) *testEnv {
	other := *b
	other.s = s
	return &other
}

// acceptUnlocked accepts a run, and retries while another transaction has locked a
// row that it needs.
func (b *testEnv) acceptUnlocked(row queuedb.NewRun) (queuedb.Accepted, error) {
	for {
		out, err := b.s.Queue.Accept(b.Context(), []queuedb.NewRun{row})
		if err != nil {
			return queuedb.Accepted{}, err
		}
		if !errors.Is(out[0].Err, pg.ErrLocked) {
			return out[0], nil
		}
	}
}

// deliverUnlocked accepts deliveries, and retries each of them while another transaction has locked
// a row that it needs.
func (b *testEnv) deliverUnlocked(ctx context.Context, rows []queuedb.NewDelivery) ([]queuedb.AcceptedDelivery, error) {
	out, err := b.s.Queue.AcceptDeliveries(ctx, rows)
	if err != nil {
		return nil, err
	}
	for i := range out {
		for errors.Is(out[i].Err, pg.ErrLocked) {
			again, err := b.s.Queue.AcceptDeliveries(ctx, rows[i:i+1])
			if err != nil {
				return nil, err
			}
			out[i] = again[0]
		}
	}
	return out, nil
}

func TestALockedSessionDelaysItsOwnRunAlone(t *testing.T) {
	t.Parallel()
	one, other := twoOrganizations(t)
	one.accept(wideWindow, one.run("", "s"), one.run("", "free"))
	release := one.locked(`SELECT FROM sessions WHERE session_id = 's' FOR UPDATE`)
	stuck := one.run("", "s")
	for range 2 { // the first batch waits for the lock and fails; the second batch skips the locked session
		rows := []queuedb.NewRun{one.run("", "free"), stuck}
		for range 60 {
			rows = append(rows, other.run("", "t"), other.run("", ""))
		}
		one.wantFast("a batch beside a locked session", func() {
			for i, a := range one.accept(wideWindow, rows...) {
				if locked := errors.Is(a.Err, pg.ErrLocked); locked != (i == 1) || !locked && a.Err != nil {
					t.Errorf("%d: %v", i, a.Err)
				}
			}
		})
	}
	if err := pg.Unavailable(pg.ErrLocked); apierr.CodeFor(err) != apierr.Unavailable {
		t.Errorf("the caller gets %v", err)
	}
	release()
	if out := one.accept(wideWindow, stuck); out[0].Err != nil {
		t.Errorf("after the release: %v", out[0].Err)
	}
	if n := one.number(`SELECT count(*) FROM runs WHERE session_id = 's'`); n != 2 {
		t.Errorf("%d runs in the session", n)
	}
	if n := one.number(`SELECT count(*) FROM runs`); n != 1+1+2*121+1 {
		t.Errorf("%d runs", n)
	}
}

// While another transaction has locked an idempotency key, a run with this key is not accepted, but
// the other runs of the batch are accepted. Here the key's earlier run is being removed.
func TestALockedKeyDelaysItsOwnRunAlone(t *testing.T) {
	t.Parallel()
	one, other := twoOrganizations(t)
	holder := one.accept(wideWindow, one.run("key", ""))[0].Run.Run.ID
	one.finish(one.mustClaim(holder), "old")
	one.exec(`UPDATE runs SET expires_at = now() - interval '1 second'`)
	release := one.locked(`DELETE FROM runs WHERE id = $1`, holder)
	rows := []queuedb.NewRun{one.run("key", "")}
	for range 60 {
		rows = append(rows, other.run("", ""))
	}
	one.wantFast("a batch beside a locked key", func() {
		for i, a := range one.accept(wideWindow, rows...) {
			if locked := errors.Is(a.Err, pg.ErrLocked); locked != (i == 0) || !locked && a.Err != nil {
				t.Errorf("%d: %v", i, a.Err)
			}
		}
	})
	release()
	if out := one.accept(wideWindow, rows[0]); out[0].Err != nil || out[0].Existing {
		t.Errorf("after the release: %+v", out[0])
	}
}

func TestALockedRunIsClaimedLater(t *testing.T) {
	t.Parallel()
	one, other := twoOrganizations(t)
	stuck := one.accept(wideWindow, one.run("", ""))[0].Run.Run.ID
	free := other.accept(wideWindow, other.run("", ""))[0].Run.Run.ID
	release := one.lockedRun(stuck)
	one.wantFast("claiming", func() {
		claims, err := one.s.Executions.Claim(t.Context(), []string{stuck, free, "run_unknown"})
		if err != nil || !claims[0].Locked || claims[0].Run != nil || claims[0].Ended || claims[1].Run == nil || claims[1].Locked || !claims[2].Ended {
			t.Errorf("claims %+v, %v", claims, err)
		}
	})
	release()
	if c := one.mustClaim(stuck); c.Attempts != 1 || c.Fence != 1 {
		t.Errorf("claimed %+v", c)
	}
}

// If a run could not be claimed, the store then reads whether the run has finished. This query does
// not wait for locks either.
func TestAVoidClaimWaitsForNoLock(t *testing.T) {
	t.Parallel()
	one, other := twoOrganizations(t)
	out := one.accept(wideWindow, one.run("", "s"), one.run("", "s"))
	waiting := out[1].Run.Run.ID
	one.exec(`UPDATE open_runs SET dispatched = true, next_dispatch_at = now() WHERE run_id = $1`, waiting)
	free := other.accept(wideWindow, other.run("", ""))[0].Run.Run.ID
	// The trigger lets the test lock the row as soon as the claim has released it.
	open := one.gate(`BEFORE UPDATE ON open_runs FOR EACH ROW WHEN (NEW.status = 'running')`)
	claimed := async(func() error {
		claims, err := one.s.Executions.Claim(t.Context(), []string{waiting, free})
		if err == nil && (claims[0].Run != nil || claims[0].Ended || claims[1].Run == nil) {
			err = fmt.Errorf("claims %+v", claims)
		}
		return err
	})
	one.awaitLockWaiters(1, claimed, "the claim")
	locking := make(chan func(), 1)
	go func() { locking <- one.lockedRun(waiting) }()
	one.awaitLockWaiters(2, claimed, "the other transaction")
	open()
	one.wantFast("claiming", func() { one.must(<-claimed) })
	(<-locking)()
}

func TestALockedLeaseIsNotLost(t *testing.T) {
	t.Parallel()
	one, other := twoOrganizations(t)
	stuck, free, taken := one.running(1)[0], other.running(1)[0], other.running(1)[0]
	other.requeueAndClaim(taken.RunID)
	release := one.lockedRun(stuck.RunID)
	held := []lease.Held{stuck.Held(), free.Held(), taken.Held()}
	one.wantFast("a heartbeat", func() {
		leases, err := one.s.Executions.Extend(t.Context(), held)
		if err != nil || len(leases.Extended) != 1 || !leases.Extended[free.RunID] || len(leases.Locked) != 1 || !leases.Locked[stuck.RunID] {
			t.Errorf("leases %+v, %v", leases, err)
		}
	})
	release()
	leases, err := one.s.Executions.Extend(t.Context(), held)
	if err != nil || len(leases.Extended) != 2 || len(leases.Locked) != 0 {
		t.Errorf("after the release: %+v, %v", leases, err)
	}
}

func TestALockedRunsEventsAreSavedLater(t *testing.T) {
	t.Parallel()
	one, other := twoOrganizations(t)
	stuck, free := one.running(1)[0], other.running(1)[0]
	release := one.lockedRun(stuck.RunID)
	chunks := []executiondb.Checkpoint{{Held: stuck.Held(), Chunk: chunk(2, 3)}, {Held: free.Held(), Chunk: chunk(2, 3)}}
	one.wantFast("saving events", func() {
		done, err := one.s.Executions.SaveEvents(t.Context(), chunks)
		if err != nil || len(done.Saved) != 1 || !done.Saved[free.RunID] || len(done.Locked) != 1 || !done.Locked[stuck.RunID] {
			t.Errorf("saved %+v, %v", done, err)
		}
	})
	release()
	one.save(true, stuck.Held(), chunk(2, 3))
	one.wantChunks("after the release", one.log(stuck.RunID, 0, 0), 1, chunk(2, 3))
}

func TestALockedRunDelaysItsOwnEndAlone(t *testing.T) {
	t.Parallel()
	for name, lock := range map[string]string{
		"open row": `SELECT FROM open_runs WHERE run_id = $1 FOR UPDATE`, "result row": `SELECT FROM runs WHERE id = $1 FOR UPDATE`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			one, other := twoOrganizations(t)
			stuck := one.running(1)[0]
			release := one.locked(lock, stuck.RunID)
			for range 2 { // the first batch waits for the lock and fails; the second batch skips the locked run
				outcomes := []executiondb.Outcome{one.outcome(stuck, "late")}
				for _, c := range other.running(40) {
					outcomes = append(outcomes, other.outcome(c, "at once"))
				}
				outcomes[3].Result = []byte("\x00") // the database rejects this result
				one.wantFast("finishing", func() {
					done, err := one.s.Executions.Finish(t.Context(), outcomes)
					if err != nil || len(done.Saved) != 39 || !errors.Is(done.Failed[stuck.RunID], pg.ErrLocked) || len(done.Failed) != 1 ||
						done.Rejected[outcomes[3].Run.ID] == nil || len(done.Rejected) != 1 {
						t.Errorf("saved %d, failed %v, rejected %v, %v", len(done.Saved), done.Failed, done.Rejected, err)
					}
				})
			}
			release()
			if done := one.finish(stuck, "late"); !done.Saved[stuck.RunID] {
				t.Errorf("after the release: %+v", done)
			}
		})
	}
}

func TestALockedRunDelaysItsOwnNoteAlone(t *testing.T) {
	t.Parallel()
	one, other := twoOrganizations(t)
	stuck, free := one.running(1)[0], other.running(1)[0]
	stuck.Attempts, free.Attempts = 2, 2
	release := one.lockedRun(stuck.RunID)
	one.wantFast("noting", func() {
		locked, err := one.s.Executions.NoteAttempts(t.Context(), []executiondb.Claimed{*stuck, *free})
		if err != nil || !slices.Equal(locked, []bool{true, false}) {
			t.Errorf("locked %v, %v", locked, err)
		}
	})
	wantNotes := func(c *executiondb.Claimed, want int) {
		if got := one.number(`SELECT count(*) FROM run_attempts WHERE run_id = $1`, c.RunID); got != want {
			t.Errorf("attempts of run %s: %d, want %d", c.RunID, got, want)
		}
	}
	wantNotes(stuck, 0)
	wantNotes(free, 1)
	release()
	one.note(stuck)
	wantNotes(stuck, 1)
}

func TestALockedSessionDelaysItsOwnDeliveryAlone(t *testing.T) {
	t.Parallel()
	one, other := twoMailboxes(t)
	one.accept(wideWindow, one.run("", "s"))
	release := one.locked(`SELECT FROM sessions WHERE session_id = 's' FOR UPDATE`)
	stuck, intoSession := one.delivery("stuck"), one.run("", "s")
	stuck.Run = &intoSession
	rows := []queuedb.NewDelivery{stuck}
	for n := range 40 {
		rows = append(rows, other.delivery(fmt.Sprint(n)))
	}
	one.wantFast("delivering", func() {
		out, err := one.s.Queue.AcceptDeliveries(t.Context(), rows)
		one.must(err)
		for i, a := range out {
			if locked := errors.Is(a.Err, pg.ErrLocked); locked != (i == 0) || !locked && a.Err != nil {
				t.Errorf("%d: %v", i, a.Err)
			}
		}
	})
	release()
	out, err := one.s.Queue.AcceptDeliveries(t.Context(), rows[:1])
	if err != nil || out[0].Err != nil || out[0].Existing {
		t.Errorf("after the release: %+v, %v", out, err)
	}
}

// Erasing a session to which messages are sent does not delay other sessions.
func TestAnErasedSessionDelaysNoOtherSession(t *testing.T) {
	t.Parallel()
	one, other := twoOrganizations(t)
	row := one.run("", "s")
	one.accept(wideWindow, row)
	open := one.gate(`AFTER UPDATE ON runs FOR EACH ROW WHEN (NEW.status = 'cancelled')`)
	name := sessiondb.SessionName{OrganizationID: one.org, TargetID: one.agent, SessionID: "s", Key: row.SessionKey}
	erased := async(func() error { _, err := one.s.Sessions.EraseSession(t.Context(), name); return err })
	one.awaitLockWaiters(1, erased, "erasing")
	again := one.run("", "s")
	one.wantFast("accepting beside it", func() {
		out := one.accept(wideWindow, again, other.run("", "t"))
		if !errors.Is(out[0].Err, pg.ErrLocked) || out[1].Err != nil {
			t.Errorf("%v, %v", out[0].Err, out[1].Err)
		}
	})
	open()
	one.must(<-erased)
	if out := one.accept(wideWindow, again); out[0].Err != nil {
		t.Errorf("after the erasure: %v", out[0].Err)
	}
}

// Two processes race to reuse an idempotency key whose run has expired, while the sweeper removes
// such runs. One new run is created, and both callers get it.
func TestAnExpiredKeyIsReplacedOnce(t *testing.T) {
	t.Parallel()
	dsn := testkit.Postgres(t)
	s, raw := openAt(t, dsn)
	second, _ := openAt(t, dsn)
	b := newEnvOn(t, s, raw, "ada@example.com")
	rounds := 200
	if testing.Short() {
		rounds = 50
	}
	for n := range rounds {
		key := fmt.Sprint("key ", n)
		b.finish(b.mustClaim(b.accept(wideWindow, b.run(key, ""))[0].Run.Run.ID), "old")
		b.exec(`UPDATE runs SET expires_at = now() - interval '1 second', sweep_after = now() - interval '1 second'`)
		var all sync.WaitGroup
		var out [2]queuedb.Accepted
		for i, s := range []*store.Store{b.s, second} {
			all.Go(func() {
				var err error
				if out[i], err = b.on(s).acceptUnlocked(b.run(key, "")); err != nil || out[i].Err != nil {
					t.Errorf("round %d: %v, %v", n, err, out[i].Err)
				}
			})
		}
		all.Go(func() {
			if _, err := second.Sessions.DeleteExpired(t.Context(), 500); err != nil {
				t.Errorf("sweeping: %v", err)
			}
		})
		all.Wait()
		if t.Failed() {
			return
		}
		if out[0].Run.Run.ID != out[1].Run.Run.ID || out[0].Existing == out[1].Existing {
			t.Fatalf("round %d: %+v and %+v", n, out[0], out[1])
		}
	}
}

// If a run's template or agent does not exist, the run gets the error not_found.
func TestARunWithoutATargetIsNotFound(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	ofTemplate, ofAgent := b.run("a", ""), b.run("b", "")
	ofTemplate.AgentID, ofTemplate.TemplateID, ofAgent.AgentID = "", "tpl_unknown", id.New(id.Agent)
	for _, a := range b.accept(wideWindow, ofTemplate, ofAgent) {
		if apierr.CodeFor(a.Err) != apierr.NotFound {
			t.Errorf("%v", a.Err)
		}
	}
}

func TestAStatementIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	newTestEnv(t).savesLarge(5, 3*mib)
}

// TestLargeResultsAreSaved saves results of a number and size that once broke the connection when a
// single statement saved all of them.
func TestLargeResultsAreSaved(t *testing.T) {
	testkit.Long(t)
	t.Parallel()
	newTestEnv(t).savesLarge(127, 8*mib)
}

// savesLarge saves n results and n events of size bytes each. Callers choose the size so that only
// one result fits into a statement.
func (b *testEnv) savesLarge(n, size int) {
	b.Helper()
	large := strings.Repeat("x", size)
	result := []byte(`{"message":"` + large + `"}`)
	var outcomes []executiondb.Outcome
	var chunks []executiondb.Checkpoint
	for _, c := range b.running(n) {
		e := b.outcome(c, "short")
		e.Result = result
		outcomes = append(outcomes, e)
		chunks = append(chunks, executiondb.Checkpoint{Held: c.Held(), Chunk: executiondb.Chunk{FirstN: 2, LastN: 2, Events: large}})
	}
	saved, err := b.s.Executions.SaveEvents(b.Context(), chunks)
	if err != nil || len(saved.Saved) != n {
		b.Fatalf("saved events of %d runs, %v", len(saved.Saved), err)
	}
	done, err := b.s.Executions.Finish(b.Context(), outcomes)
	if err != nil || len(done.Saved) != n {
		b.Fatalf("saved %d, failed %v, %v", len(done.Saved), done.Failed, err)
	}
	for _, table := range []string{"runs", "run_events"} {
		if maximum := b.number(`SELECT max(n) FROM (SELECT count(*) AS n FROM ` + table + ` GROUP BY xmin) t`); maximum != 1 {
			b.Errorf("%d rows of %s were written in one statement", maximum, table)
		}
	}
}
