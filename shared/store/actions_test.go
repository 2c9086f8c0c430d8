package store_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/store/executiondb"
	"parley/shared/store/lease"
	"parley/shared/store/queuedb"
	"parley/shared/store/sessiondb"
	"parley/shared/testkit"
)

func (b *testEnv) decide(held lease.Held, d domain.Decision) (executiondb.Decided, error) {
	return b.s.Executions.Decide(b.Context(), b.org, "", held.RunID, "c", d, "usr_1")
}

var everyDecision = []domain.Decision{
	domain.DecisionApprove, domain.DecisionDeny, domain.DecisionHappened, domain.DecisionResend, domain.DecisionAbandon,
}

// TestDecisions makes each possible decision about each kind of action, and then repeats it.
func TestDecisions(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	for _, tc := range []struct {
		kind   domain.ActionKind
		made   domain.Decision
		effect string
		run    domain.RunStatus
	}{
		{domain.ActionApproval, domain.DecisionApprove, "ready", domain.RunQueued},
		{domain.ActionApproval, domain.DecisionDeny, "denied", domain.RunQueued},
		{domain.ActionUnknownOutcome, domain.DecisionHappened, "happened sent", domain.RunQueued},
		{domain.ActionUnknownOutcome, domain.DecisionResend, "ready", domain.RunQueued},
		{domain.ActionUnknownOutcome, domain.DecisionAbandon, "awaiting sent", domain.RunFailed},
	} {
		t.Run(string(tc.made), func(t *testing.T) {
			t.Parallel()
			b := &testEnv{T: t, s: b.s, raw: b.raw, org: b.org, agent: b.agent}
			held := b.parked(tc.kind)
			before := b.text(`SELECT o::text || e::text FROM open_runs o JOIN effects e USING (run_id) WHERE run_id = $1`, held.RunID)
			for _, d := range everyDecision {
				if !tc.kind.Takes(d) {
					if _, err := b.decide(held, d); apierr.CodeFor(err) != apierr.Conflict {
						t.Errorf("deciding %s: %v", d, err)
					}
				}
			}
			if b.text(`SELECT o::text || e::text FROM open_runs o JOIN effects e USING (run_id) WHERE run_id = $1`, held.RunID) != before {
				t.Error("a decision that does not match the action changed a row")
			}
			out, err := b.decide(held, tc.made)
			if err != nil || out.Run.Run.Status != tc.run || out.Resumed != (tc.run == domain.RunQueued) || len(out.Ended) != map[bool]int{true: 0, false: 1}[out.Resumed] {
				t.Fatalf("decided %+v, %v", out, err)
			}
			b.wantEffect(held.RunID, tc.effect)
			b.wantRun(held.RunID, tc.run)
			after := b.text(`SELECT e::text FROM effects e WHERE run_id = $1`, held.RunID)
			if !strings.Contains(after, string(tc.made)+",usr_1") {
				t.Errorf("the ledger does not say who decided: %s", after)
			}
			for _, stage := range []string{"decided", "going on"} {
				for _, d := range everyDecision {
					again, err := b.decide(held, d)
					if again.Resumed || len(again.Ended) > 0 || (err == nil) != (d == tc.made) {
						t.Errorf("%s, then %s: %+v, %v", stage, d, again, err)
					}
					if d != tc.made {
						wantCode(t, err, apierr.VersionConflict)
					} else if string(resultFor(again.Run)) != string(resultFor(out.Run)) {
						t.Errorf("result of the repeated decision = %s", resultFor(again.Run))
					}
				}
				if tc.run == domain.RunQueued && stage == "decided" {
					b.mustClaim(held.RunID)
				}
			}
			if b.text(`SELECT e::text FROM effects e WHERE run_id = $1`, held.RunID) != after {
				t.Error("deciding again changed the ledger")
			}
		})
	}
}

func wantField(t *testing.T, err error, field string) { //nolint:unparam // the test names the field that it expects
	t.Helper()
	e, ok := errors.AsType[*apierr.Error](err)
	if !ok || e.Code != apierr.InvalidRequest || len(e.Fields) != 1 || e.Fields[0].Field != field {
		t.Errorf("got %v, want %s to be at fault", err, field)
	}
}

func TestDecisionsWithoutAWaitingRun(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	ctx := t.Context()
	decide := func(org, principal, runID, callID string) error {
		_, err := b.s.Executions.Decide(ctx, org, principal, runID, callID, domain.DecisionApprove, "usr_1")
		return err
	}
	held := b.parked(domain.ActionApproval)
	b.exec(`INSERT INTO effects SELECT run_id, 'other', org_id, name, input, side_effect, key, 'ready', fence FROM effects`)
	wantCode(t, decide("org_other", "", held.RunID, "c"), apierr.NotFound)
	wantCode(t, decide(b.org, "usr_other", held.RunID, "c"), apierr.NotFound)
	wantCode(t, decide(b.org, "", "run_none", "c"), apierr.NotFound)
	wantField(t, decide(b.org, "", held.RunID, "other"), "toolCallId")
	wantField(t, decide(b.org, "", held.RunID, "none"), "toolCallId")
	b.wantRun(held.RunID, domain.RunRequiresAction)
	if err := decide(b.org, "system", held.RunID, "c"); err != nil {
		t.Error(err)
	}
	running := b.claimedRun()
	b.inState(running, "awaiting", domain.SideEffectUnsafe) // the effect waits for a decision, but its run is not parked yet
	wantField(t, decide(b.org, "", running.RunID, "c"), "toolCallId")

	late := b.parked(domain.ActionApproval)
	b.exec(`UPDATE open_runs SET required_action = jsonb_set(required_action::jsonb, '{expiresAt}', '"2020-01-01T00:00:00.000Z"') WHERE run_id = $1`, late.RunID)
	wantCode(t, decide(b.org, "", late.RunID, "c"), apierr.VersionConflict)
	b.wantRun(late.RunID, domain.RunRequiresAction)

	cancelled := b.parked(domain.ActionUnknownOutcome)
	run, ended, err := b.s.Executions.Cancel(ctx, b.org, "", cancelled.RunID)
	if err != nil || len(ended) != 1 || run.Run.Status != domain.RunCancelled || strings.Contains(string(resultFor(run)), "requiredAction") {
		t.Errorf("cancelling a parked run: %+v, %v", run, err)
	}
	wantCode(t, decide(b.org, "", cancelled.RunID, "c"), apierr.VersionConflict)
	wantField(t, decide(b.org, "", cancelled.RunID, "none"), "toolCallId")
	b.exec(`UPDATE runs SET expires_at = clock_timestamp() WHERE id = $1`, cancelled.RunID)
	wantCode(t, decide(b.org, "", cancelled.RunID, "c"), apierr.NotFound)
}

func TestAnErasedRunTakesNoDecision(t *testing.T) {
	t.Parallel()
	r := newStoredEnvFor(t)
	runID := r.accept(wideWindow, r.chat("usr_1", "s", "hi"))[0].Run.Run.ID
	held := r.mustClaim(runID).Held()
	r.prepare(held, effect("c", domain.SideEffectUnsafe), true)
	r.park(held, domain.ActionApproval, executiondb.Chunk{})
	if ended := r.erase(r.named("usr_1", "s")); len(ended) != 1 || ended[0].RunID != runID {
		t.Errorf("ended %+v", ended)
	}
	out, err := r.decide(held, domain.DecisionApprove)
	if err != nil || !out.Run.Erased || out.Resumed || len(out.Ended) > 0 {
		t.Errorf("decided %+v, %v", out, err)
	}
}

// A call is approved, and then its outcome is lost. The call is sent again only after a second
// decision, which does not count as a repetition of the first decision.
func TestACallMayBeDecidedTwice(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	ctx := t.Context()
	held := b.parked(domain.ActionApproval)
	deadline := b.text(`SELECT deadline::text FROM open_runs WHERE run_id = $1`, held.RunID)
	b.exec(`UPDATE open_runs SET parked_at = parked_at - interval '3 hours' WHERE run_id = $1`, held.RunID)
	out, err := b.decide(held, domain.DecisionApprove)
	if err != nil || !out.Resumed {
		t.Fatalf("%+v, %v", out, err)
	}
	if waited := b.text(`SELECT round(extract(epoch FROM deadline - $2::timestamptz) / 360)::text FROM open_runs WHERE run_id = $1`, held.RunID, deadline); waited != "30" {
		t.Errorf("the deadline was moved by %s tenths of an hour", waited)
	}
	next, err := b.s.Queue.DispatchNext(ctx, queuedb.FreedSlots{automationsFor(b.org): {Slots: 1, Waiting: true}})
	if err != nil {
		t.Fatal(err)
	}
	wantIDs(t, "handed over", next, held.RunID)
	c := b.mustClaim(held.RunID)
	second := c.Held()
	if second.Fence != held.Fence+2 || c.Attempts != 2 || c.Deaths != 0 {
		t.Errorf("claimed %+v", c)
	}
	if e := b.prepare(second, effect("c", domain.SideEffectUnsafe), true); e.State != domain.EffectReady {
		t.Errorf("after the approval: %+v", e)
	}
	b.does("begin", second, true)
	b.park(second, domain.ActionUnknownOutcome, executiondb.Chunk{})
	b.does("end", second, false) // the call waits for a decision
	if out, err = b.decide(held, domain.DecisionApprove); err != nil || out.Resumed || out.Run.Run.Status != domain.RunRequiresAction {
		t.Errorf("the first decision again: %+v, %v", out, err)
	}
	if out, err = b.decide(held, domain.DecisionResend); err != nil || !out.Resumed {
		t.Errorf("resending: %+v, %v", out, err)
	}
	third := b.mustClaim(held.RunID)
	if e := b.prepare(third.Held(), effect("c", domain.SideEffectUnsafe), true); e.State != domain.EffectReady || e.Sent {
		t.Errorf("to be sent again: %+v", e)
	}
	b.does("begin", third.Held(), true)
	b.does("end", third.Held(), true)
	if !b.finish(third, "done").Saved[held.RunID] {
		t.Error("the run could not be finished")
	}
	b.wantEffect(held.RunID, "done sent")
}

func TestAnAbandonedRunFails(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	held := b.parked(domain.ActionUnknownOutcome)
	out, err := b.decide(held, domain.DecisionAbandon)
	if err != nil || len(out.Ended) != 1 || out.Run.Run.Status != domain.RunFailed || string(out.Ended[0].Result) != string(resultFor(out.Run)) ||
		!strings.Contains(string(resultFor(out.Run)), `"outcome_unknown_abandoned"`) || strings.Contains(string(resultFor(out.Run)), "requiredAction") {
		t.Errorf("%+v, %v: %s", out, err, resultFor(out.Run))
	}
	if log := b.log(held.RunID, 0, 0); log.EndFence != held.Fence+2 || log.EndN != 1 {
		t.Errorf("the end is %d.%d", log.EndFence, log.EndN)
	}
}

// If several different decisions are made concurrently, one succeeds. The other calls return the
// resulting state.
func TestOnlyOneConcurrentDecisionSucceeds(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	conflict := func(err error) (bool, error) {
		if apierr.CodeFor(err) == apierr.VersionConflict {
			return false, nil
		}
		return err == nil, err
	}
	decide := func(held lease.Held, d domain.Decision) func() (bool, error) {
		return func() (bool, error) { _, err := b.decide(held, d); return conflict(err) }
	}
	for what, rivals := range map[string]func(lease.Held) []func() (bool, error){
		"two deciders": func(h lease.Held) []func() (bool, error) {
			return []func() (bool, error){decide(h, domain.DecisionHappened), decide(h, domain.DecisionResend), decide(h, domain.DecisionAbandon)}
		},
		"cancel": func(h lease.Held) []func() (bool, error) {
			return []func() (bool, error){decide(h, domain.DecisionAbandon), func() (bool, error) {
				_, ended, err := b.s.Executions.Cancel(b.Context(), b.org, "", h.RunID)
				return len(ended) > 0, err
			}}
		},
		"expiry": func(h lease.Held) []func() (bool, error) {
			b.exec(`UPDATE open_runs SET action_expires_at = clock_timestamp() WHERE run_id = $1`, h.RunID) // the caller's clock is behind
			return []func() (bool, error){decide(h, domain.DecisionResend), func() (bool, error) {
				ended, err := b.s.Executions.EndUnanswered(b.Context(), 9)
				return len(ended) > 0, err
			}}
		},
	} {
		for range 15 {
			held := b.parked(domain.ActionUnknownOutcome)
			done, n := race(t, rivals(held)...), 0
			for _, d := range done {
				if d {
					n++
				}
			}
			if n != 1 && what != "expiry" || n > 1 || done[0] && n == 0 {
				t.Errorf("%s: %v", what, done)
			}
			if _, _, err := b.s.Executions.Cancel(b.Context(), b.org, "", held.RunID); err != nil {
				t.Error(err)
			}
		}
	}
}

// If a run's deadline passed before the run was parked, the run times out after the decision and
// not while it is parked.
func TestADeadlineWaitsForTheDecision(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	held := b.claimedRun()
	b.inState(held, "awaiting", domain.SideEffectUnsafe)
	b.exec(`UPDATE open_runs SET deadline = clock_timestamp() - interval '1 minute', last_error = '{"code":"rate_limited"}'`) // simulates an earlier attempt
	b.park(held, domain.ActionApproval, executiondb.Chunk{})
	if ended, err := b.s.Executions.EndOverdue(t.Context(), 9); err != nil || len(ended) > 0 {
		t.Errorf("ended %+v, %v", ended, err)
	}
	if out, err := b.decide(held, domain.DecisionApprove); err != nil || !out.Resumed {
		t.Errorf("%+v, %v", out, err)
	}
	if ended, err := b.s.Executions.EndOverdue(t.Context(), 9); err != nil || len(ended) != 1 {
		t.Errorf("ended %+v, %v", ended, err)
	}
	b.wantRun(held.RunID, domain.RunTimedOut)
}

// All operations are executed concurrently and repeatedly. No reference to a missing row may
// remain, and no operation may deadlock. In production a deadlocked operation would be retried; in
// this test it fails.
func TestOperationsDoNotDeadlock(t *testing.T) {
	t.Parallel()
	s, raw := openAt(t, testkit.Postgres(t)+"&deadlock_timeout=1h")
	b := newEnvOn(t, s, raw, "ada@example.com")
	doing := make([]atomic.Int64, 8)
	never := func() []int { // the kinds of operations that never succeeded
		var things []int
		for what := range doing {
			if doing[what].Load() == 0 {
				things = append(things, what)
			}
		}
		return things
	}
	for round := 0; round == 0 || round < 20 && len(never()) > 0; round++ { // a single round may contain no call that requires a decision
		b.chaos(doing)
	}
	if things := never(); len(things) > 0 {
		t.Errorf("the things %v were never done", things)
	}
	for what, query := range map[string]string{
		"links to texts that are gone": `SELECT count(*)::text FROM run_sources l WHERE NOT EXISTS (SELECT 1 FROM sources s WHERE s.hash = l.hash AND s.org_id = l.org_id)`,
		"rows of erased runs":          `SELECT (SELECT count(*) FROM effects) + (SELECT count(*) FROM run_sources) + (SELECT count(*) FROM sources)`,
	} {
		if n := b.text(query); n != "0" {
			t.Errorf("%s %s", n, what)
		}
	}
}

// chaos makes many workers execute random operations on a few runs concurrently, while other
// workers erase these runs. It adds the number of successful operations of each kind to the map
// doing.
func (b *testEnv) chaos(doing []atomic.Int64) {
	ctx := b.Context()
	var wg sync.WaitGroup
	for range 6 {
		run := b.run("", "")
		session := sessiondb.SessionName{OrganizationID: b.org, TargetID: b.agent, SessionID: run.ID, Key: run.SessionKey}
		runID := b.accept(wideWindow, run)[0].Run.Run.ID
		var fence atomic.Int64 // fence of the newest claim
		for w := range 5 {
			wg.Go(func() {
				for n := range 40 {
					held := lease.Held{RunID: runID, OrganizationID: b.org, Fence: fence.Load()}
					did, err := b.chaosStep((n+w*3)%8, held, n, &fence) //nolint:contextcheck // the testEnv has the test's
					if err != nil {
						b.Errorf("worker %d, thing %d: %v", w, n, err)
					}
					if did {
						doing[(n+w*3)%8].Add(1)
					}
				}
				if _, err := b.s.Sessions.EraseSession(ctx, session); err != nil && apierr.CodeFor(err) != apierr.NotFound {
					b.Errorf("erasing: %v", err)
				}
			})
		}
	}
	stop, swept := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(swept)
		for !isClosed(stop) {
			_, err := b.raw.ExecContext(ctx, `UPDATE sources SET sweep_after = clock_timestamp() WHERE hash IN (SELECT hash FROM sources ORDER BY hash FOR UPDATE)`)
			_, pruneErr := b.s.Blobs.PruneSources(ctx, 9)
			_, endErr := b.s.Executions.EndUnanswered(ctx, 9)
			if err := errors.Join(err, pruneErr, endErr); err != nil {
				b.Errorf("sweeping: %v", err)
			}
		}
	}()
	wg.Wait()
	close(stop)
	<-swept
}

// chaosStep executes one of eight operations on a run and reports whether it succeeded.
func (b *testEnv) chaosStep(what int, held lease.Held, n int, fence *atomic.Int64) (bool, error) {
	ctx := b.Context()
	switch what {
	case 0:
		return b.try("prepare", held)
	case 1:
		return b.try("begin", held)
	case 2:
		out, err := b.s.Executions.Park(ctx, held, domain.RequiredAction{ToolCallID: "c"}, chunk(n+1, n+1))
		if err != nil && strings.Contains(err.Error(), "reading effect") { // the call is not prepared yet
			err = nil
		}
		return out.Parked, err
	case 3:
		out, err := b.decide(held, everyDecision[n%4])
		if apierr.CodeFor(err) != apierr.Internal {
			err = nil
		}
		return out.Resumed, err
	case 4:
		_, kept, err := b.s.Blobs.KeepSource(ctx, held, domain.Source{Text: fmt.Sprint("text ", n%3)})
		return kept, err
	case 5:
		return b.requeue(executiondb.Requeue{Held: held}).Done, nil
	case 6:
		return b.try("end", held)
	default:
		claims, err := b.s.Executions.Claim(ctx, []string{held.RunID})
		if err != nil || claims[0].Run == nil {
			return false, err
		}
		fence.Store(claims[0].Run.Fence)
		return true, nil
	}
}
