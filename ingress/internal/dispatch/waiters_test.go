package dispatch

import (
	"database/sql"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"parley/shared/apierr"
	"parley/shared/bus"
	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/secrets"
	"parley/shared/store"
	"parley/shared/store/accountdb"
	"parley/shared/store/executiondb"
	"parley/shared/store/queuedb"
	"parley/shared/store/rundb"
	"parley/shared/testkit"
)

// testEnv is a dispatcher with a real database, a real bus and an organization. The test itself
// executes the runs.
type testEnv struct {
	*testing.T
	*Dispatcher
	raw   *sql.DB // connection of a superuser
	bus   *bus.Bus
	org   string
	agent string
}

func newTestEnv(t *testing.T) *testEnv {
	t.Helper()
	dsn := testkit.Postgres(t)
	st, err := store.Open(dsn, 8)
	must(t, err)
	t.Cleanup(func() { _ = st.Close() })
	b, err := bus.Dial(testkit.NATS(t), "test", zerolog.Nop())
	must(t, err)
	t.Cleanup(b.Close)
	_, err = b.EnsureStream(t.Context())
	must(t, err)
	must(t, st.Queue.AnnounceSlots(t.Context(), "worker", 8, time.Hour))
	d := New(Config{BacklogMax: 400}, st, b, zerolog.Nop())
	var wg sync.WaitGroup
	wg.Go(func() { _ = d.Run(t.Context()) })
	t.Cleanup(wg.Wait)
	org, agent := newOrganization(t, st, "ada")
	return &testEnv{T: t, Dispatcher: d, raw: testkit.SQL(t, dsn), bus: b, org: org, agent: agent}
}

// newOrganization creates an organization with an agent.
func newOrganization(t *testing.T, st *store.Store, name string) (org, agentID string) {
	t.Helper()
	account, err := st.Accounts.SignUp(t.Context(), accountdb.NewUser{Email: name + "@example.com", Name: name, PasswordHash: "hash"},
		accountdb.NewLogin{TokenHash: secrets.Hash(name), ExpiresAt: time.Now().Add(time.Hour)})
	must(t, err)
	agent, err := st.Agents.CreateAgent(t.Context(), account.Organization.ID, domain.Agent{
		ID: id.New(id.Agent), Name: "a", SystemPrompt: "p", AllowedCallers: []domain.CallerKind{domain.CallerSystem},
	})
	must(t, err)
	return account.Organization.ID, agent.ID
}

// withOrganization returns an environment with the same dispatcher and a new organization.
func (d *testEnv) withOrganization(name string) *testEnv {
	d.Helper()
	other := *d
	other.org, other.agent = newOrganization(d.T, d.store, name)
	return &other
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (d *testEnv) submit() *Submitted {
	d.Helper()
	s, err := d.Submit(d.Context(), d.run(""))
	must(d.T, err)
	return s
}

// run returns a new run to submit. If the argument session is empty, the run gets a session of its
// own.
func (d *testEnv) run(session string) queuedb.NewRun {
	run := queuedb.NewRun{
		ID: id.New(id.Run), OrganizationID: d.org, AgentID: d.agent, CallerKind: domain.CallerSystem, Principal: "system", TriggerType: "api",
		Input: []byte(`{"message":"hi"}`), Lane: domain.LaneAutomation, Retention: time.Hour, Deadline: time.Minute,
	}
	if run.SessionID = session; session == "" {
		run.SessionID = run.ID
	}
	run.SessionKey, run.Dedupe = contract.Hash(d.org, run.SessionID), contract.Dedupe(d.org, contract.EndpointAutomation, run.ID)
	return run
}

// park parks the run until a person approves the call. Requests that wait for the run are not
// notified until notifyFinished is called.
func (d *testEnv) park(runID, callID string) (notifyFinished func()) {
	d.Helper()
	ctx := d.Context()
	claims, err := d.store.Executions.Claim(ctx, []string{runID})
	must(d.T, err)
	held := claims[0].Run.Held()
	_, _, err = d.store.Executions.PrepareEffect(ctx, held, domain.Effect{CallID: callID, Name: "n", SideEffect: domain.SideEffectUnsafe, Key: callID}, true)
	must(d.T, err)
	parked, err := d.store.Executions.Park(ctx, held, domain.RequiredAction{ToolCallID: callID, Name: "n", Input: json.RawMessage(`{}`)}, executiondb.Chunk{})
	must(d.T, err)
	if !parked.Parked {
		d.Fatalf("not parked: %+v", parked)
	}
	return func() { d.bus.Done(runID, d.inbox, nil) }
}

// read reads the run from the database, like a request that did not submit the run.
func (d *testEnv) read(runID string) *Submitted {
	d.Helper()
	run, err := d.store.Runs.RunByID(d.Context(), d.org, "", runID)
	must(d.T, err)
	return Attach(run)
}

// waitLimit is much longer than the time until a poll finds the end of a run, even on a busy
// machine.
const waitLimit = time.Minute

// wait starts to wait for the run. It returns once the dispatcher has registered the wait.
func (d *testEnv) wait(s *Submitted) chan Result {
	d.Helper()
	out, before, owner := make(chan Result, 1), d.count(s), s.wait != nil
	go func() {
		r, err := d.Await(d.Context(), s, waitLimit)
		if err != nil {
			d.Errorf("waiting: %v", err)
			r = &Result{}
		}
		out <- *r
	}()
	for deadline := time.Now().Add(time.Minute); !owner && d.count(s) == before; { // an owner's wait was registered by Submit
		if time.Now().After(deadline) {
			d.Fatal("the wait was not registered")
		}
	}
	return out
}

func (d *testEnv) count(s *Submitted) int {
	d.waiting.mu.Lock()
	defer d.waiting.mu.Unlock()
	if run := d.waiting.runs[s.Run.Run.ID]; run != nil {
		return len(run.waits)
	}
	return 0
}

// wantEnd fails the test if the wait takes more than half of waitLimit, or if the field Ended of
// the result differs from the argument ended.
func (d *testEnv) wantEnd(what string, got chan Result, ended bool) {
	d.Helper()
	began := time.Now()
	r := <-got
	if took := time.Since(began); took > waitLimit/2 || r.Ended != ended {
		d.Errorf("%s ended after %s with %+v", what, took, r)
	}
}

// wantOpen makes the dispatcher read the run, and fails the test if the wait has then ended.
func (d *testEnv) wantOpen(what string, got chan Result, runID string) {
	d.Helper()
	must(d.T, d.waiting.readSome(d.Context(), []rundb.RunRef{{OrganizationID: d.org, RunID: runID}}))
	select {
	case r := <-got:
		d.Errorf("%s ended with %+v", what, r)
	default:
	}
}

func TestAWaitEndsWhenItsRunIsParked(t *testing.T) {
	t.Parallel()
	for name, notified := range map[string]bool{"notified": true, "found by the poll": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newTestEnv(t)
			own := d.submit()
			runID := own.Run.Run.ID
			attached := d.read(runID)
			first, second := d.wait(own), d.wait(attached)
			d.wantOpen("a wait for a queued run", first, runID)
			if notifyFinished := d.park(runID, "one"); notified {
				notifyFinished()
			}
			d.wantEnd("the owner's wait", first, false)
			d.wantEnd("an attacher's wait", second, false)
			d.Release(own)
			d.Release(attached)
			later := d.read(runID)
			third := d.wait(later)
			d.wantOpen("a wait that began with the action", third, runID)
			decided, err := d.Decide(t.Context(), Answer{OrganizationID: d.org, RunID: runID, ToolCallID: "one", Decision: domain.DecisionApprove, By: "ada"})
			must(t, err)
			if decided.Run.Status != domain.RunQueued {
				t.Errorf("the approved run is %s", decided.Run.Status)
			}
			d.wantOpen("a wait for a requeued run", third, runID)
			if notifyFinished := d.park(runID, "two"); notified {
				notifyFinished()
			}
			d.wantEnd("a wait for another action", third, false)
			d.Release(later)
			last := d.read(runID)
			fourth := d.wait(last)
			_, err = d.Cancel(t.Context(), d.org, "", runID)
			must(t, err)
			d.wantEnd("a wait for the end", fourth, true)
			d.Release(last)
			if n := d.count(last); n != 0 {
				t.Errorf("%d waits are still registered", n)
			}
		})
	}
}

// After a decision, the run's job message is published immediately, and not later by the sweeper.
func TestADecisionPublishesTheJob(t *testing.T) {
	t.Parallel()
	d := newTestEnv(t)
	own := d.submit()
	defer d.Release(own)
	lane, runID := d.bus.Lane(domain.LaneAutomation), own.Run.Run.ID
	ring := func() {
		t.Helper()
		for deadline, rung := time.Now().Add(time.Minute), false; !rung; {
			must(t, lane.Fetch(t.Context(), 1, 100*time.Millisecond, func(bell *bus.JobMessage) {
				rung = bell.RunID == runID
				bell.Ack()
			}))
			if time.Now().After(deadline) {
				t.Fatal("no job message was published")
			}
		}
	}
	ring()
	d.park(runID, "one")
	answer := Answer{OrganizationID: d.org, RunID: runID, ToolCallID: "one", Decision: domain.DecisionDeny, By: "ada"}
	_, err := d.Decide(t.Context(), answer)
	must(t, err)
	ring()
	again, err := d.Decide(t.Context(), answer)
	must(t, err)
	if again.Run.Status != domain.RunQueued {
		t.Errorf("after the repeated decision the run is %s", again.Run.Status)
	}
	answer.Decision = domain.DecisionApprove
	if _, err = d.Decide(t.Context(), answer); apierr.CodeFor(err) != apierr.VersionConflict {
		t.Errorf("a different decision: %v", err)
	}
}

// A request that did not submit the run gets only the size of a large result, and must read the
// result itself.
func TestAwaitedLargeResultsAreDeferred(t *testing.T) {
	t.Parallel()
	d := newTestEnv(t)
	own := d.submit()
	runID := own.Run.Run.ID
	attached := d.read(runID)
	waits := d.wait(attached)
	claims, err := d.store.Executions.Claim(t.Context(), []string{runID})
	must(t, err)
	run, answer := claims[0].Run.Run(), strings.Repeat("x", rundb.ShortBytes)
	run.Message = &answer
	run.End(domain.RunCompleted, nil, domain.At(claims[0].Run.Now), 60)
	outcome, err := executiondb.NewOutcome(claims[0].Run.Held(), run)
	must(t, err)
	_, err = d.store.Executions.Finish(t.Context(), []executiondb.Outcome{outcome})
	must(t, err)
	d.Release(own)

	r := <-waits
	d.Release(attached)
	if body, err := r.Run.Result(); !r.Ended || r.Run.Deferred != len(outcome.Result) || err == nil {
		t.Errorf("the wait ended: %v, with %d bytes deferred, and %d read: %v", r.Ended, r.Run.Deferred, len(body), err)
	}
}
