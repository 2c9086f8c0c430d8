package store_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"parley/shared/apierr"
	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/store/executiondb"
	"parley/shared/store/lease"
	"parley/shared/store/rundb"
)

func (b *testEnv) park(held lease.Held, kind domain.ActionKind, events executiondb.Chunk) executiondb.Parked {
	b.Helper()
	out, err := b.s.Executions.Park(b.Context(), held, domain.RequiredAction{
		Kind: kind, ToolCallID: "c", Name: "pay", Input: json.RawMessage(`{"amount": 1}`),
	}, events)
	if err != nil || !out.Parked {
		b.Fatalf("parking: %+v, %v", out, err)
	}
	return out
}

// parked returns a run that waits for a decision about the call "c".
func (b *testEnv) parked(kind domain.ActionKind) lease.Held {
	b.Helper()
	held := b.claimedRun()
	b.inState(held, map[domain.ActionKind]string{domain.ActionApproval: "awaiting", domain.ActionUnknownOutcome: "sending"}[kind], domain.SideEffectUnsafe)
	b.park(held, kind, executiondb.Chunk{})
	return held
}

func (b *testEnv) wantRun(runID string, want domain.RunStatus) domain.Run {
	b.Helper()
	run, err := b.s.Runs.RunByID(b.Context(), b.org, "", runID)
	if err != nil || run.Run.Status != want || (run.Run.RequiredAction != nil) != (want == domain.RunRequiresAction) {
		b.Errorf("run %+v, %v; want %s", run.Run, err, want)
	}
	return run.Run
}

func TestAParkedRunKeepsItsSessionAndNothingElse(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	ctx := t.Context()
	keyed := b.run("k", "s")
	out := b.accept(1, keyed, b.run("", "s"), b.run("", ""))
	runID, successor, waiting := out[0].Run.Run.ID, out[1].Run.Run.ID, out[2].Run.Run.ID
	held := b.mustClaim(runID).Held()
	b.prepare(held, effect("c", domain.SideEffectUnsafe), true)
	b.save(true, held, chunk(2, 3))
	published := chunk(4, 4)
	published.Events += `run.requires_action {"requiredAction":{}}` + "\n"
	published.LastN = 5
	parked := b.park(held, domain.ActionApproval, published)
	if in := time.Until(parked.Action.ExpiresAt.Time); in < 23*time.Hour || in > executiondb.ActionTimeout {
		t.Errorf("expires in %s", in)
	}
	b.setSlots(1)
	next, err := b.s.Queue.DispatchNext(ctx, parked.Freed)
	if err != nil {
		t.Fatal(err)
	}
	wantIDs(t, "the place goes to", next, waiting)
	for _, id := range []string{runID, successor} {
		if c := b.claim(id); c.Run != nil || c.Ended {
			t.Errorf("a job message of %s: %+v", id, c)
		}
	}

	want := parked.Action
	for what, read := range map[string]func() (rundb.StoredRun, error){
		"by id": func() (rundb.StoredRun, error) { return b.s.Runs.RunByID(ctx, b.org, "", runID) },
		"listed": func() (rundb.StoredRun, error) {
			short, err := one(b.s.Runs.ListRuns(ctx, b.org, rundb.RunFilter{Status: domain.RunRequiresAction}, 9))
			if err != nil || short.RequiredAction == nil || short.RequiredAction.InputCut {
				return rundb.StoredRun{}, err
			}
			return rundb.StoredRun{Run: domain.Run{ID: short.ID, Status: short.Status, RequiredAction: &short.RequiredAction.RequiredAction}}, nil
		},
		"by key": func() (rundb.StoredRun, error) {
			runs, err := b.s.Runs.RunsByKey(ctx, []rundb.KeyRef{{OrganizationID: b.org, Hash: contract.Hash(b.org, "k")}})
			return *runs[0], err
		},
		"accepted again": func() (rundb.StoredRun, error) { return b.accept(1, keyed)[0].Run, nil },
		"parked": func() (rundb.StoredRun, error) {
			return one(b.s.Runs.AwaitedRuns(ctx, []rundb.RunRef{{OrganizationID: b.org, RunID: runID}, {OrganizationID: b.org, RunID: waiting}}))
		},
		"log": func() (rundb.StoredRun, error) { return b.log(runID, 0, 0).Run, nil },
	} {
		run, err := read()
		got := run.Run.RequiredAction
		if err != nil || run.Run.ID != runID || run.Run.Status != domain.RunRequiresAction || got == nil || got.Kind != want.Kind ||
			got.ToolCallID != "c" || got.Name != "pay" || string(got.Input) != `{"amount":1}` || !got.ExpiresAt.Equal(want.ExpiresAt.Time) {
			t.Errorf("%s: %+v, action %+v, %v; want %+v", what, run.Run, got, err, want)
		}
	}
	b.wantChunks("log", b.log(runID, 0, 0), held.Fence, chunk(2, 3), published)

	// The parked run's former worker can no longer write, and the sweeper does not change the run.
	for _, what := range []string{"prepare", "begin", "end", "void", "park", "keep", "tools"} {
		b.does(what, held, false)
	}
	b.save(false, held, chunk(6, 6))
	if back := b.requeue(executiondb.Requeue{Held: held}); back.Done {
		t.Errorf("requeued = %+v, want nothing", back)
	}
	b.exec(`UPDATE open_runs SET deadline = clock_timestamp(), next_dispatch_at = clock_timestamp() WHERE run_id = $1`, runID)
	if ended, err := b.s.Executions.EndOverdue(ctx, 9); err != nil || len(ended) > 0 {
		t.Errorf("ended %+v, %v", ended, err)
	}
	if orgs, err := b.s.Executions.RequeueLost(ctx, 9); err != nil || len(orgs) > 0 {
		t.Errorf("requeued %v, %v", orgs, err)
	}
	if ended, err := b.s.Executions.EndUnanswered(ctx, 9); err != nil || len(ended) > 0 {
		t.Errorf("unanswered %+v, %v", ended, err)
	}
	b.wantRun(runID, domain.RunRequiresAction)
}

func one[T any](found []T, err error) (only T, _ error) {
	if len(found) == 1 {
		only = found[0]
	}
	return only, err
}

// The effect ledger determines whether a person has to decide anything.
func TestParkingFollowsTheLedger(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	for left, want := range map[string]domain.ActionKind{
		"awaiting": domain.ActionApproval, "sending": domain.ActionUnknownOutcome, "unknown": domain.ActionUnknownOutcome,
		"ready": "", "done": "", "denied": "", "happened": "", "void": "",
	} {
		for _, kind := range []domain.ActionKind{domain.ActionApproval, domain.ActionUnknownOutcome} {
			held := b.claimedRun()
			b.inState(held, left, domain.SideEffectUnsafe)
			before := b.text(`SELECT o::text || e::text FROM open_runs o JOIN effects e USING (run_id) WHERE run_id = $1`, held.RunID)
			at := domain.At(time.Now().Add(time.Hour))
			out, err := b.s.Executions.Park(t.Context(), held, domain.RequiredAction{Kind: kind, ToolCallID: "c", ExpiresAt: at}, executiondb.Chunk{})
			if err != nil || out.Parked != (want != "") || out.Known == out.Parked || out.Action.Kind != want {
				t.Errorf("%s, asking for %s: %+v, %v", left, kind, out, err)
			}
			if out.Known && b.text(`SELECT o::text || e::text FROM open_runs o JOIN effects e USING (run_id) WHERE run_id = $1`, held.RunID) != before {
				t.Errorf("%s: something was written", left)
			}
			if action := b.wantRun(held.RunID, map[bool]domain.RunStatus{true: domain.RunRequiresAction, false: domain.RunRunning}[out.Parked]).RequiredAction; out.Parked &&
				(action.Kind != want || !action.ExpiresAt.Equal(at.Time)) {
				t.Errorf("%s: the run waits for %+v", left, action)
			}
		}
	}
	held := b.claimedRun()
	if out, err := b.s.Executions.Park(t.Context(), held, domain.RequiredAction{ToolCallID: "none"}, executiondb.Chunk{}); err == nil {
		t.Errorf("parked for a call that the ledger does not have: %+v", out)
	}
}

func TestEventsThatCannotBeStoredKeepNoRunFromWaiting(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	held := b.claimedRun()
	b.inState(held, "awaiting", domain.SideEffectUnsafe)
	b.park(held, domain.ActionApproval, executiondb.Chunk{FirstN: 2, LastN: 2, Events: "a\x00b"})
	b.wantRun(held.RunID, domain.RunRequiresAction)
}

func TestToolSetsStayAsTheyWere(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	ctx := t.Context()
	held := b.claimedRun()
	if tools, err := b.s.Executions.ToolSet(ctx, b.org, held.RunID); err != nil || tools != nil {
		t.Errorf("before: %s, %v", tools, err)
	}
	for _, set := range []string{`[{"name":"a"}]`, `[]`} {
		if kept, err := b.s.Executions.KeepToolSet(ctx, held, []byte(set)); err != nil || !kept {
			t.Errorf("%v, %v", kept, err)
		}
	}
	if kept, err := b.s.Executions.Journal(ctx, held, 1, []byte(`{"seq":1}`)); err != nil || !kept {
		t.Errorf("%v, %v", kept, err)
	}
	if tools, err := b.s.Executions.ToolSet(ctx, b.org, held.RunID); err != nil || string(tools) != `[{"name":"a"}]` {
		t.Errorf("%s, %v", tools, err)
	}
	if steps, err := b.s.Executions.Steps(ctx, b.org, held.RunID); err != nil || len(steps) != 1 || string(steps[0]) != `{"seq":1}` {
		t.Errorf("%s, %v", steps, err)
	}
	b.requeueAndClaim(held.RunID)
	b.does("tools", held, false)
}

func TestUnansweredRunsFail(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	ctx := t.Context()
	late, early := b.parked(domain.ActionApproval), b.parked(domain.ActionUnknownOutcome)
	b.exec(`UPDATE open_runs SET action_expires_at = clock_timestamp(), reply_to = 'inbox' WHERE run_id = $1`, late.RunID)
	ended, err := b.s.Executions.EndUnanswered(ctx, 9)
	if err != nil || len(ended) != 1 || ended[0].RunID != late.RunID || ended[0].OrganizationID != b.org || ended[0].ReplyTo != "inbox" {
		t.Fatalf("ended %+v, %v", ended, err)
	}
	b.wantRun(early.RunID, domain.RunRequiresAction)
	b.wantRun(late.RunID, domain.RunFailed)
	var run domain.Run
	if err := json.Unmarshal(ended[0].Result, &run); err != nil || run.Error == nil || run.Error.Code != "action_expired" ||
		strings.Contains(string(ended[0].Result), "requiredAction") {
		t.Errorf("result %s, %v", ended[0].Result, err)
	}
	if log := b.log(late.RunID, 0, 0); log.EndFence != late.Fence+2 || log.EndN != 1 {
		t.Errorf("the end is %d.%d", log.EndFence, log.EndN)
	}
	_, err = b.s.Executions.Decide(ctx, b.org, "", late.RunID, "c", domain.DecisionApprove, "usr_1")
	wantCode(t, err, apierr.VersionConflict)
	b.wantEffect(late.RunID, "awaiting")
}

// The number of an organization's parked runs is limited. Parked runs of other organizations do not
// count.
func TestParkedRunsAreLimited(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	other := newEnvOn(t, b.s, b.raw, "bob@example.com")
	other.queue(1, 5, 1, "parked")
	b.queue(10, 10+executiondb.MaxParked-2, 1, "parked") // one less than the limit
	first, second := b.claimedRun(), b.claimedRun()
	known, foreign := b.claimedRun(), other.claimedRun()
	for _, testEnv := range []struct {
		*testEnv
		held lease.Held
	}{{b, first}, {b, second}, {other, foreign}} {
		testEnv.inState(testEnv.held, "awaiting", domain.SideEffectUnsafe)
	}
	b.inState(known, "done", domain.SideEffectUnsafe)
	b.park(first, domain.ActionApproval, executiondb.Chunk{})
	parking := func(held lease.Held) executiondb.Parked {
		t.Helper()
		before := b.text(`SELECT o::text || e::text FROM open_runs o JOIN effects e USING (run_id) WHERE run_id = $1`, held.RunID)
		out, err := b.s.Executions.Park(t.Context(), held, domain.RequiredAction{Kind: domain.ActionApproval, ToolCallID: "c"}, chunk(1, 2))
		after := b.text(`SELECT o::text || e::text FROM open_runs o JOIN effects e USING (run_id) WHERE run_id = $1`, held.RunID)
		if err != nil || out.Parked || after != before || b.text(`SELECT count(*)::text FROM run_events WHERE run_id = $1`, held.RunID) != "0" {
			t.Errorf("parking: %+v, %v; written was\n%s\n%s", out, err, before, after)
		}
		return out
	}
	if out := parking(second); !out.Full || out.Known {
		t.Errorf("one too many: %+v", out)
	}
	if out := parking(known); out.Full || !out.Known {
		t.Errorf("the run has nothing to wait for: %+v", out)
	}
	other.park(foreign, domain.ActionApproval, executiondb.Chunk{})
	if _, err := b.decide(first, domain.DecisionApprove); err != nil {
		t.Fatal(err)
	}
	b.park(second, domain.ActionApproval, executiondb.Chunk{})
}

// If two runs are parked concurrently, the second transaction waits for the first and then counts
// its run.
func TestParkingAtTheSameTime(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	b.queue(1, executiondb.MaxParked-1, 1, "parked")
	first, second := b.claimedRun(), b.claimedRun()
	b.inState(second, "awaiting", domain.SideEffectUnsafe)
	b.during("parking", `WITH lock AS MATERIALIZED (
		SELECT run_id, pg_advisory_xact_lock(hashtextextended('parley.park ' || org_id, 0)) FROM open_runs WHERE run_id = $1)
		UPDATE open_runs o SET status = 'requires_action', parked_at = now() FROM lock WHERE o.run_id = lock.run_id`, first.RunID, waitsForLock, func() {
		out, err := b.s.Executions.Park(t.Context(), second, domain.RequiredAction{Kind: domain.ActionApproval, ToolCallID: "c"}, executiondb.Chunk{})
		if err != nil || !out.Full {
			t.Errorf("%+v, %v", out, err)
		}
	})
}
