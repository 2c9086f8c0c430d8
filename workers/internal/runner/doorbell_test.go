package runner

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"parley/shared/bus"
	"parley/shared/domain"
	"parley/shared/store/executiondb"
	"parley/shared/testkit"
	"parley/workers/internal/llm"
	"parley/workers/internal/llm/scripted"
)

// grantingEnv is an environment in which the claim of a run succeeds. It calls look before it saves
// a result.
type grantingEnv struct {
	*testEnv
	claim executiondb.Claimed
	look  func()
}

func (g grantingEnv) Claim(context.Context, []string) ([]executiondb.Claim, error) {
	return []executiondb.Claim{{Run: &g.claim}}, nil
}

func (g grantingEnv) Finish(ctx context.Context, endings []executiondb.Outcome) (executiondb.Finished, error) {
	g.look()
	return g.testEnv.Finish(ctx, endings)
}

// A runner first saves a result, then publishes it, and then acknowledges the job message. So if a
// worker dies in between, none of them is lost.
func TestTheJobMessageIsAcknowledgedLast(t *testing.T) {
	t.Parallel()
	b, err := bus.Dial(testkit.NATS(t), "test", zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	if _, err := b.EnsureStream(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.PublishJobs(domain.Job{RunID: "run_1", OrganizationID: "org_1", Lane: domain.LaneChat, Dedupe: "d", DispatchNo: 1, ReplyTo: "inbox"})
	var doorbell *bus.JobMessage
	err = b.Lane(domain.LaneChat).Fetch(t.Context(), 1, 10*time.Second, func(d *bus.JobMessage) { doorbell = d })
	if err != nil || doorbell == nil {
		t.Fatalf("no job message: %v", err)
	}
	unacknowledged := func() int64 {
		_, n, err := b.Pending(t.Context(), domain.LaneChat)
		if err != nil {
			t.Error(err)
		}
		return n
	}

	agent, now := "ag_1", time.Now()
	s := &testEnv{model: scripted.New("stage/first", scripted.Call{Deltas: []string{"ok"}})}
	g := grantingEnv{testEnv: s, claim: executiondb.Claimed{
		RunID: "run_1", OrganizationID: "org_1", AgentID: &agent, RawInput: []byte(`{"message":"hi"}`), Now: now, Deadline: now.Add(time.Minute),
		CallerAllowed: true, Attempts: 1, Fence: 1, Seq: 1,
	}}
	looked := false
	g.look = func() {
		looked = true
		for range 20 { // the server may need a moment to count an acknowledgement
			if unacknowledged() != 1 {
				t.Error("the job message was acknowledged before the result was saved")
				break
			}
		}
		defer s.lock()()
		if len(s.done) > 0 {
			t.Errorf("%q was published before it was saved", s.done)
		}
	}
	executeJob(t, g, doorbell)
	if !looked || len(s.done) != 1 {
		t.Errorf("result saved: %v; published %q", looked, s.done)
	}
	for deadline := time.Now().Add(10 * time.Second); unacknowledged() != 0; {
		if time.Now().After(deadline) {
			t.Fatal("the job message was not acknowledged")
		}
	}
}

// executeJob makes a runner execute the run of a job message.
func executeJob(t *testing.T, g grantingEnv, d *bus.JobMessage) {
	t.Helper()
	models, err := llm.NewRegistry("stage/first", map[string]llm.Provider{"stage": g})
	if err != nil {
		t.Fatal(err)
	}
	r, err := New(Config{Concurrency: 1}, Deps{
		Runs: g, Queue: g, History: g, Progress: g, Records: g, Parking: g, Tools: g, Budgets: unbudgeted{}, Bus: g, Changes: g, Models: models,
		Metrics: prometheus.NewRegistry(), Log: zerolog.Nop(),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var groups sync.WaitGroup
	for _, run := range []func(context.Context){r.claims.Run, r.finishes.Run, r.events.Run} {
		groups.Go(func() { run(ctx) })
	}
	r.execute(ctx, d)
	cancel()
	groups.Wait()
}
