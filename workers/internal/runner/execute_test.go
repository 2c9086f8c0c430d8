package runner

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"parley/shared/bus"
	"parley/shared/store/executiondb"
	"parley/workers/internal/llm"
	"parley/workers/internal/llm/scripted"
)

// grantingEnv is an environment in which every claim of a run succeeds. The method Finish calls the
// function look before it saves a result.
type grantingEnv struct {
	*testEnv
	claim executiondb.Claimed
	look  func()
}

func (g grantingEnv) Claim(context.Context, []string) ([]executiondb.Claim, error) {
	return []executiondb.Claim{{Run: &g.claim}}, nil
}

func (g grantingEnv) Finish(ctx context.Context, outcomes []executiondb.Outcome) (executiondb.Finished, error) {
	g.look()
	return g.testEnv.Finish(ctx, outcomes)
}

// A runner saves a result before it publishes the result. If the worker dies in between, the result
// is not lost, and no caller has received a result that was not saved.
func TestAResultIsPublishedAfterItIsSaved(t *testing.T) {
	t.Parallel()
	agent, now := "ag_1", time.Now()
	s := &testEnv{model: scripted.New("stage/first", scripted.Call{Deltas: []string{"ok"}})}
	g := grantingEnv{testEnv: s, claim: executiondb.Claimed{
		RunID: "run_1", OrganizationID: "org_1", AgentID: &agent, RawInput: []byte(`{"message":"hi"}`), Now: now, Deadline: now.Add(time.Minute),
		CallerAllowed: true, Attempts: 1, Fence: 1, Seq: 1,
	}}
	looked := false
	g.look = func() {
		looked = true
		defer s.lock()()
		if len(s.done) > 0 {
			t.Errorf("%q was published before it was saved", s.done)
		}
	}
	executeJob(t, g, &bus.JobMessage{RunID: "run_1", ReplyTo: "inbox"})
	if !looked || len(s.done) != 1 {
		t.Errorf("result saved: %v; published %q, want one result", looked, s.done)
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
		Runs: g, Queue: g, History: g, Progress: g, Records: g, ParkStore: g, Clients: g, Tools: g,
		Budgets: unbudgeted{}, Bus: g, Changes: g, Models: models, Metrics: prometheus.NewRegistry(), Log: zerolog.Nop(),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var groups sync.WaitGroup
	for _, run := range []func(context.Context){r.claims.Run, r.finishes.Run, r.requeues.Run, r.notes.Run, r.events.Run} {
		groups.Go(func() { run(ctx) })
	}
	r.execute(ctx, d)
	cancel()
	groups.Wait()
}
