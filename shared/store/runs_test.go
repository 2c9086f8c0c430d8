package store_test

import (
	"database/sql"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley/shared/apierr"
	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/store"
	"parley/shared/store/executiondb"
	"parley/shared/store/lease"
	"parley/shared/store/queuedb"
	"parley/shared/testkit"
)

// testEnv is an organization with an agent, and helpers for its runs.
type testEnv struct {
	*testing.T
	s     *store.Store
	raw   *sql.DB // connection as a superuser
	org   string
	agent string
	slots int // number of slots of the only worker
}

// wideWindow is a number of slots that is larger than any test needs.
const wideWindow = 1000

func newTestEnv(t *testing.T) *testEnv {
	t.Helper()
	s, raw := openRaw(t)
	return newEnvOn(t, s, raw, "ada@example.com")
}

// newEnvOn creates an organization with an agent in a database that may have other organizations.
func newEnvOn(t *testing.T, s *store.Store, raw *sql.DB, email string) *testEnv {
	t.Helper()
	account, _ := signUp(t, s, email)
	agent, err := s.Agents.CreateAgent(t.Context(), account.Organization.ID, domain.Agent{
		ID: id.New(id.Agent), Name: "a", SystemPrompt: "p", AllowedCallers: []domain.CallerKind{domain.CallerSystem},
	})
	if err != nil {
		t.Fatalf("creating agent: %v", err)
	}
	return &testEnv{T: t, s: s, raw: raw, org: account.Organization.ID, agent: agent.ID, slots: wideWindow}
}

// run returns a run with an idempotency key and a session. If the key is empty, the run has none;
// if the session is empty, the run begins a new session.
func (b *testEnv) run(key, session string) queuedb.NewRun {
	r := queuedb.NewRun{
		ID: id.New(id.Run), OrganizationID: b.org, AgentID: b.agent, CallerKind: domain.CallerSystem, Principal: "system",
		SessionID: session, TriggerType: "api", Input: []byte(`{"message":"hi"}`), Lane: domain.LaneAutomation,
		Retention: time.Hour, Deadline: time.Minute, IdempotencyKey: key,
	}
	if session == "" {
		r.SessionID, r.OwnSession = r.ID, true
	}
	if key != "" {
		r.KeyHash = contract.Hash(b.org, key)
	}
	r.SessionKey = contract.Hash(b.org, b.agent, r.SessionID)
	r.Dedupe = contract.Dedupe(b.org, contract.EndpointAutomation, r.ID)
	return r
}

// automationsFor returns the lane in which an organization's automations run.
func automationsFor(org string) queuedb.Lane {
	return queuedb.Lane{OrganizationID: org, Lane: domain.LaneAutomation}
}

// setSlots sets the number of slots of the only worker, unless the worker already has that many.
func (b *testEnv) setSlots(n int) {
	b.Helper()
	if b.slots == n {
		return
	}
	if err := b.s.Queue.AnnounceSlots(b.Context(), "worker", n, time.Hour); err != nil {
		b.Fatal(err)
	}
	b.slots = n
}

// accept accepts runs while the only worker has the given number of slots.
func (b *testEnv) accept(window int, rows ...queuedb.NewRun) []queuedb.Accepted {
	b.Helper()
	b.setSlots(window)
	out, err := b.s.Queue.Accept(b.Context(), rows)
	if err != nil {
		b.Fatalf("accepting: %v", err)
	}
	return out
}

// claim claims a run, and retries while another transaction has locked it.
func (b *testEnv) claim(runID string) executiondb.Claim {
	b.Helper()
	for {
		claims, err := b.s.Executions.Claim(b.Context(), []string{runID})
		if err != nil {
			b.Fatalf("claiming: %v", err)
		}
		if !claims[0].Locked {
			return claims[0]
		}
	}
}

func (b *testEnv) mustClaim(runID string) *executiondb.Claimed {
	b.Helper()
	c := b.claim(runID)
	if c.Run == nil {
		b.Fatalf("run %s cannot be claimed: %+v", runID, c)
	}
	return c.Run
}

// finish finishes a run, and retries while another transaction has locked it.
func (b *testEnv) finish(c *executiondb.Claimed, answer string) executiondb.Finished {
	b.Helper()
	for {
		out, err := b.s.Executions.Finish(b.Context(), []executiondb.Outcome{b.outcome(c, answer)})
		if err != nil {
			b.Fatalf("finishing: %v", err)
		}
		if out.Failed[c.RunID] == nil {
			return out
		}
	}
}

// requeue requeues a run, and retries while another transaction has locked it.
func (b *testEnv) requeue(run executiondb.Requeue) executiondb.Requeued {
	b.Helper()
	for {
		back, err := b.s.Executions.Requeue(b.Context(), []executiondb.Requeue{run})
		if err != nil {
			b.Fatalf("requeueing: %v", err)
		}
		if !back[0].Locked {
			return back[0]
		}
	}
}

func (b *testEnv) exec(query string, args ...any) {
	b.Helper()
	if _, err := b.raw.ExecContext(b.Context(), query, args...); err != nil {
		b.Fatalf("%s: %v", query, err)
	}
}

// finishAndNext finishes a run and dispatches the runs that may use its slot.
func (b *testEnv) finishAndNext(c *executiondb.Claimed, answer string, window int) []domain.Job {
	b.Helper()
	b.setSlots(window)
	next, err := b.s.Queue.DispatchNext(b.Context(), b.finish(c, answer).Freed)
	if err != nil {
		b.Fatalf("handing over: %v", err)
	}
	return next
}

func ids(jobs []domain.Job) []string {
	out := make([]string, len(jobs))
	for i, j := range jobs {
		out[i] = j.RunID
	}
	return out
}

func wantIDs(t *testing.T, what string, got []domain.Job, want ...string) {
	t.Helper()
	if fmt.Sprint(ids(got)) != fmt.Sprint(want) {
		t.Errorf("%s: got %v, want %v", what, ids(got), want)
	}
}

func TestAcceptGivesOneRunPerKeyUnderConcurrency(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	askAtOnce(b, func() queuedb.NewRun { return b.run("the-key", "") })
}

// TestAcceptGivesOneRunPerKeyInASession tests runs with a session. acceptQuery accepts these runs;
// runs without a session are accepted by another statement.
func TestAcceptGivesOneRunPerKeyInASession(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	askAtOnce(b, func() queuedb.NewRun { return b.run("the-key", "s") })
}

// In TestKindsOfAcceptanceAgreeOnAKey, runs with and without a session are accepted concurrently
// with the same idempotency key.
func TestKindsOfAcceptanceAgreeOnAKey(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	var asked atomic.Int64
	askAtOnce(b, func() queuedb.NewRun {
		if asked.Add(1)%75 == 0 { // some of the batches contain a run with a session
			return b.run("the-key", "s")
		}
		return b.run("the-key", "")
	})
}

// askAtOnce accepts many batches of runs with the same key concurrently.
func askAtOnce(b *testEnv, run func() queuedb.NewRun) {
	b.Helper()
	var mu sync.Mutex
	created, runs := 0, map[string]bool{}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			rows := make([]queuedb.NewRun, 25)
			for i := range rows {
				rows[i] = run()
			}
			out, err := b.s.Queue.Accept(b.Context(), rows)
			if err != nil {
				b.Errorf("accepting: %v", err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			for _, a := range out {
				runs[a.Run.Run.ID] = true
				if a.Err != nil || a.Run.Run.ID == "" {
					b.Errorf("answer %+v", a)
				}
				if !a.Existing {
					created++
				}
			}
		})
	}
	wg.Wait()
	if created != 1 || len(runs) != 1 {
		b.Errorf("%d runs were created, %d are named; want one", created, len(runs))
	}
}

// Only new runs take slots. Requests that repeat an idempotency key take none.
func TestRowsThatAreNotRunsTakeNoSlots(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	const window = 2
	for _, key := range []string{"a", "b"} {
		b.finish(b.mustClaim(b.accept(window, b.run(key, ""))[0].Run.Run.ID), "done")
	}
	stranger := b.run("", "")
	stranger.CallerKind = domain.CallerUser
	b.s = store.New(b.s.DB) // the new store has not counted the slots that the two runs occupy
	t.Cleanup(b.s.Queue.Close)
	out := b.accept(window, b.run("a", ""), b.run("b", ""), stranger, b.run("", ""), b.run("", ""), b.run("", ""))
	for i, rung := range []bool{false, false, false, true, true, false} {
		if (out[i].Job != nil) != rung {
			t.Errorf("row %d: has a job message = %v, want %v: %+v", i, out[i].Job != nil, rung, out[i])
		}
	}
	if !out[0].Existing || !out[1].Existing || out[2].Err == nil || out[5].Err != nil {
		t.Errorf("%+v", out)
	}
}

func TestAcceptReplacesAKeyWhoseRunHasExpired(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	first := b.accept(wideWindow, b.run("k", ""))[0].Run.Run.ID
	b.finish(b.mustClaim(first), "old")
	b.exec(`UPDATE runs SET expires_at = clock_timestamp() - interval '1 second'`)
	second := b.accept(wideWindow, b.run("k", ""))[0]
	if second.Existing || second.Run.Run.ID == first {
		t.Errorf("an expired run still holds its key: %+v", second)
	}
	_, err := b.s.Runs.RunByID(t.Context(), b.org, "", first)
	wantCode(t, err, apierr.NotFound)
}

func TestAcceptAnswersEachRowForItself(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	missing, user, bad, good := b.run("", ""), b.run("", ""), b.run("", ""), b.run("", "")
	missing.AgentID = id.New(id.Agent)
	user.CallerKind = domain.CallerUser
	bad.SessionID = "a\x00b"
	out := b.accept(wideWindow, missing, user, bad, good)
	wantCode(t, out[0].Err, apierr.NotFound)
	wantCode(t, out[1].Err, apierr.CallerNotAllowed)
	if out[2].Err == nil {
		t.Error("a text that PostgreSQL cannot store was accepted")
	}
	if out[3].Err != nil || out[3].Job == nil {
		t.Errorf("a valid row was rejected together with the invalid rows of its batch: %+v", out[3])
	}
}

func TestLimitBoundsDispatchedRunsAndFinishPassesSlotsOn(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	const window = 2
	var runs []string
	dispatched := 0
	for _, a := range b.accept(window, b.run("", ""), b.run("", ""), b.run("", ""), b.run("", "")) {
		runs = append(runs, a.Run.Run.ID)
		if a.Job != nil {
			dispatched++
		}
	}
	if dispatched != window {
		t.Fatalf("%d runs were dispatched, want %d", dispatched, window)
	}
	if late := b.accept(window, b.run("", "")); late[0].Job != nil {
		t.Error("a full window dispatched one more")
	}
	slices.Sort(runs[window:]) // the runs are in order of acceptance, but the ids of one millisecond may be in any order
	wantIDs(t, "after the first finish", b.finishAndNext(b.mustClaim(runs[0]), "x", window), runs[2])
	done := b.finish(b.mustClaim(runs[1]), "x")
	if freed := done.Freed[automationsFor(b.org)]; freed != (queuedb.Freed{Slots: 1, Waiting: true}) {
		t.Errorf("the second finish freed %+v", done.Freed)
	}
	next, err := b.s.Queue.DispatchNext(b.Context(), done.Freed)
	if err != nil {
		t.Fatal(err)
	}
	wantIDs(t, "after the second finish", next, runs[3])
	next, err = b.s.Queue.DispatchWaiting(t.Context())
	if err != nil || len(next) != 0 {
		t.Errorf("the sweeper overfilled a full window: %v, %v", ids(next), err)
	}
	b.setSlots(window + 1)
	next, err = b.s.Queue.DispatchWaiting(t.Context())
	if err != nil || len(next) != 1 {
		t.Errorf("the sweeper left a free place: %v, %v", ids(next), err)
	}
}

func TestRunsOfASessionGoOneAfterTheOther(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	out := b.accept(wideWindow, b.run("", "s"), b.run("", "s"))
	third := b.accept(wideWindow, b.run("", "s"))[0]
	first, second := out[0].Run.Run.ID, out[1].Run.Run.ID
	if out[0].Job == nil || out[1].Job != nil || third.Job != nil {
		t.Error("only the head of a session is to be dispatched")
	}
	if c := b.claim(second); c.Run != nil || c.Ended {
		t.Errorf("a run was claimed before its turn: %+v", c)
	}
	c := b.mustClaim(first)
	if again := b.claim(first); again.Run != nil || again.Ended {
		t.Errorf("a leased run was claimed again: %+v", again)
	}
	wantIDs(t, "successor", b.finishAndNext(c, "one", wideWindow), second)
	c = b.mustClaim(second)
	turns, err := b.s.Sessions.History(t.Context(), b.org, c.SessionRef, c.Seq, 10)
	if err != nil || len(turns) != 1 || turns[0].Answer != "one" || turns[0].Message != "hi" {
		t.Errorf("history %+v, %v", turns, err)
	}
	if done := b.claim(first); !done.Ended || len(done.Result) == 0 {
		t.Errorf("the claim of an ended run = %+v, want the run's result, which replaces a lost reply", done)
	}
}

func TestFenceKeepsATakenRunFromItsOldWorker(t *testing.T) {
	t.Parallel()
	s, raw := openAt(t, testkit.PostgresProcess(t).DSN()) // this server has just started
	b := newEnvOn(t, s, raw, "ada@example.com")
	ctx := t.Context()
	runID := b.accept(wideWindow, b.run("", ""))[0].Run.Run.ID
	old := b.mustClaim(runID)
	held := old.Held()
	if ok, err := b.s.Executions.Journal(ctx, held, 1, []byte(`{"seq":1}`)); err != nil || !ok {
		t.Fatalf("journal: %v, %v", ok, err)
	}
	b.exec(`UPDATE open_runs SET lease_until = clock_timestamp() - interval '1 second'`)
	if early := b.claim(runID); early.Run != nil {
		t.Error("a run was taken from its worker within a lease of the server's start")
	}
	// The following statement has the effect of RequeueLost, which does nothing until the server
	// has been up for some time.
	b.exec(`UPDATE open_runs SET status = 'queued', dispatched = false, lease_until = NULL, fence = fence + 1, deaths = deaths + 1`)
	taken := b.mustClaim(runID)
	if taken.Attempts != 2 || taken.Deaths != 1 || taken.Fence <= old.Fence {
		t.Errorf("second claim %+v", taken)
	}
	if kept, err := b.s.Executions.Extend(ctx, []lease.Held{held}); err != nil || kept.Extended[runID] || kept.Locked[runID] {
		t.Errorf("the old worker extended: %v, %v", kept, err)
	}
	if ok, err := b.s.Executions.Journal(ctx, held, 2, []byte(`{}`)); err != nil || ok {
		t.Errorf("the old worker wrote a step: %v, %v", ok, err)
	}
	if back := b.requeue(executiondb.Requeue{Held: held}); back.Done {
		t.Errorf("the old worker requeued the run: %+v", back)
	}
	if f := b.finish(old, "old"); f.Saved[runID] {
		t.Error("the old worker finished the run")
	}
	if f := b.finish(taken, "new"); !f.Saved[runID] {
		t.Error("the new worker could not finish")
	}
	run, err := b.s.Runs.RunByID(ctx, b.org, "", runID)
	if err != nil || run.Run.Status != domain.RunCompleted || run.Run.Attempts != 2 {
		t.Errorf("run %+v, %v", run.Run, err)
	}
	if steps, err := b.s.Executions.Steps(ctx, b.org, runID); err != nil || len(steps) != 1 {
		t.Errorf("steps %s, %v", steps, err)
	}
}

func TestSweepingEndsOrRequeuesLostRuns(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	ctx := t.Context()
	var runs []string
	for _, a := range b.accept(wideWindow, b.run("", ""), b.run("", ""), b.run("", ""), b.run("", "")) {
		runs = append(runs, a.Run.Run.ID)
	}
	poison, late, retried, slow := runs[0], runs[1], runs[2], runs[3]

	b.mustClaim(poison)
	b.exec(`UPDATE open_runs SET status = 'queued', dispatched = false, deaths = $1 WHERE run_id = $2`, lease.MaxDeaths, poison)
	ended, err := b.s.Executions.EndPoison(ctx, 10)
	if err != nil || len(ended) != 1 || ended[0].RunID != poison {
		t.Errorf("poison: %+v, %v", ended, err)
	}

	c := b.mustClaim(retried)
	cause := &domain.RunError{Code: "model_unavailable", Message: "m"}
	if back := b.requeue(executiondb.Requeue{Held: c.Held(), Backoff: time.Hour, Cause: cause}); !back.Done || back.Lane != automationsFor(b.org) {
		t.Fatalf("requeued = %+v, want a slot of the lane of automations", back)
	}
	if again := b.claim(retried); again.Run != nil {
		t.Error("a run was claimed during its backoff")
	}
	b.exec(`UPDATE open_runs SET deadline = clock_timestamp() WHERE run_id = ANY (ARRAY[$1, $2])`, late, retried)
	if _, err := b.s.Executions.EndOverdue(ctx, 10); err != nil {
		t.Fatal(err)
	}
	for runID, want := range map[string]domain.RunStatus{poison: domain.RunFailed, late: domain.RunTimedOut, retried: domain.RunFailed, slow: domain.RunQueued} {
		run, err := b.s.Runs.RunByID(ctx, b.org, "", runID)
		if err != nil || run.Run.Status != want {
			t.Errorf("run is %s, want %s (%v): %s", run.Run.Status, want, err, resultFor(run))
		}
	}

	b.exec(`UPDATE open_runs SET next_dispatch_at = clock_timestamp()`)
	overdue, err := b.s.Queue.OverdueJobs(ctx, 10)
	if err != nil || len(overdue) != 1 || overdue[0].Job.RunID != slow {
		t.Fatalf("overdue %+v, %v", overdue, err)
	}
	again, err := b.s.Queue.Redispatch(ctx, overdue, nil)
	if err != nil || len(again) != 1 || again[0].DispatchNo != 2 {
		t.Errorf("redispatched %+v, %v", again, err)
	}
}

func TestCancelEndsARunOnceAndForItsOrganizationOnly(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	ctx := t.Context()
	runID := b.accept(wideWindow, b.run("", "s"))[0].Run.Run.ID
	second := b.accept(wideWindow, b.run("", "s"))[0].Run.Run.ID
	c := b.mustClaim(runID)
	_, foreign, err := b.s.Executions.Cancel(ctx, "org_other", "", runID)
	wantCode(t, err, apierr.NotFound)
	if len(foreign) != 0 {
		t.Errorf("another organization ended %+v", foreign)
	}
	run, ended, err := b.s.Executions.Cancel(ctx, b.org, "", runID)
	if err != nil || run.Run.Status != domain.RunCancelled || len(ended) != 1 {
		t.Fatalf("cancel: %+v, %v, %v", run.Run, ended, err)
	}
	next, err := b.s.Queue.DispatchNext(ctx, queuedb.FreedSlots{automationsFor(ended[0].OrganizationID): {Slots: 1, Waiting: true}})
	if err != nil {
		t.Fatal(err)
	}
	wantIDs(t, "successor of a cancelled run", next, second)
	if b.finish(c, "late").Saved[runID] {
		t.Error("a cancelled run was finished")
	}
	again, ended, err := b.s.Executions.Cancel(ctx, b.org, "", runID)
	if err != nil || len(ended) != 0 || string(resultFor(again)) != string(resultFor(run)) {
		t.Errorf("cancelling again changed something: %v, %v", ended, err)
	}
}

func TestRetentionKeepsASessionUntilItsLastRunExpires(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	ctx := t.Context()
	out := b.accept(wideWindow, b.run("", "s"), b.run("", "s"), b.run("", ""))
	for _, a := range out {
		b.finish(b.mustClaim(a.Run.Run.ID), "x")
	}
	expire := func(runID string) {
		b.exec(`UPDATE runs SET expires_at = clock_timestamp() - interval '1 s', sweep_after = clock_timestamp() - interval '1 s' WHERE id = $1`, runID)
	}
	expire(out[0].Run.Run.ID)
	expire(out[2].Run.Run.ID)
	count := func(table string) (n int) {
		if err := b.raw.QueryRowContext(ctx, `SELECT count(*) FROM `+table).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n, err := b.s.Sessions.DeleteExpired(ctx, 100); err != nil || n != 2 || count("runs") != 2 || count("sessions") != 1 {
		t.Errorf("checked %d (%v), %d runs are left; want only the run without a session removed", n, err, count("runs"))
	}
	if n, err := b.s.Sessions.DeleteExpired(ctx, 100); err != nil || n != 0 {
		t.Errorf("a run that must stay was checked again at once: %d, %v", n, err)
	}
	expire(out[0].Run.Run.ID)
	expire(out[1].Run.Run.ID)
	if n, err := b.s.Sessions.DeleteExpired(ctx, 100); err != nil || n != 2 || count("runs") != 0 {
		t.Errorf("checked %d, %v; want both runs of the session removed", n, err)
	}
	var left int
	if err := b.raw.QueryRowContext(ctx, `SELECT count(*) FROM sessions`).Scan(&left); err != nil || left != 0 {
		t.Errorf("%d sessions are left, %v", left, err)
	}
}
