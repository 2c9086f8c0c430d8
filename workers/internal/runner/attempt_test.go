package runner

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"parley/shared/bus"
	"parley/shared/domain"
	"parley/shared/store/executiondb"
	"parley/shared/store/lease"
	"parley/shared/store/queuedb"
	"parley/shared/store/rundb"
	"parley/shared/store/sessiondb"
	"parley/workers/internal/llm"
	"parley/workers/internal/llm/scripted"
	"parley/workers/internal/tool"
	"parley/workers/internal/tool/attachment"
	"parley/workers/internal/toolset"
)

// testEnv fakes all dependencies of an attempt, and records the calls.
type testEnv struct {
	journals map[string][][]byte // journals of other runs; the keys are run ids
	results  map[string]string   // the client's results; the keys are call ids
	model    *scripted.Model
	tools    []tool.Tool
	park     executiondb.Parked
	steps    [][]byte
	turns    []sessiondb.Turn // earlier turns of the session
	cfg      domain.Config
	input    []byte // the input, if the claim does not contain it

	mu       sync.Mutex
	asked    []string // names of the models that were resolved
	outcomes []executiondb.Outcome
	actions  []domain.RequiredAction
	written  []executiondb.Chunk
	reported []string
	done     []string
	changes  int
	back     []time.Duration
	noted    []int // attempt numbers that were passed to NoteAttempts
	refuses  error // the error that NoteAttempts returns
	refused  []domain.ProviderError
	failed   executiondb.Failures // the result of FailedSinceStep
	log      io.Writer            // log of the attempts; nil: none
}

func (s *testEnv) lock() func() { s.mu.Lock(); return s.mu.Unlock }

func (s *testEnv) Claim(context.Context, []string) ([]executiondb.Claim, error) { return nil, nil }

func (s *testEnv) Extend(context.Context, []lease.Held) (executiondb.Leases, error) {
	return executiondb.Leases{}, nil
}

func (s *testEnv) Finish(_ context.Context, outcomes []executiondb.Outcome) (executiondb.Finished, error) {
	defer s.lock()()
	s.outcomes = append(s.outcomes, outcomes...)
	saved := map[string]bool{}
	for _, e := range outcomes {
		saved[e.Run.ID] = true
	}
	return executiondb.Finished{Saved: saved}, nil
}

func (s *testEnv) DispatchNext(context.Context, queuedb.FreedSlots) ([]domain.Job, error) {
	return nil, nil
}

func (s *testEnv) AnnounceSlots(context.Context, string, int, time.Duration) error { return nil }

func (s *testEnv) Requeue(_ context.Context, runs []executiondb.Requeue) ([]executiondb.Requeued, error) {
	defer s.lock()()
	out := make([]executiondb.Requeued, len(runs))
	for i, r := range runs {
		s.back = append(s.back, r.Backoff)
		out[i] = executiondb.Requeued{Done: true, Lane: queuedb.Lane{OrganizationID: "org_1", Lane: domain.LaneChat}}
	}
	return out, nil
}

func (s *testEnv) Config(context.Context, string, string, int) (domain.Config, error) {
	return s.cfg, nil
}

func (s *testEnv) OrganizationName(context.Context, string) (string, error) { return "Acme", nil }

func (s *testEnv) RunInput(context.Context, string, string) ([]byte, error) { return s.input, nil }

func (s *testEnv) ShortHistory(context.Context, string, int64, int, int) ([]sessiondb.Turn, int, error) {
	return s.turns, 0, nil
}

func (s *testEnv) History(context.Context, string, int64, int, int) ([]sessiondb.Turn, error) {
	return s.turns, nil
}

func (s *testEnv) Steps(context.Context, string, string) ([][]byte, error) { return s.steps, nil }

func (s *testEnv) Journals(_ context.Context, _ string, runIDs []string, _ int) (map[string][][]byte, error) {
	steps := map[string][][]byte{}
	for _, runID := range runIDs {
		steps[runID] = s.journals[runID]
	}
	return steps, nil
}

// PrepareEffect returns an effect that waits, or one with the client's result if there is a result.
func (s *testEnv) PrepareEffect(_ context.Context, _ lease.Held, e domain.Effect, _ bool) (domain.Effect, bool, error) {
	e.State = domain.EffectAwaiting
	if result := s.results[e.CallID]; result != "" {
		e.State, e.Outcome = domain.EffectDone, json.RawMessage(result)
	}
	return e, true, nil
}

func (s *testEnv) Journal(context.Context, lease.Held, int, []byte) (bool, error) { return true, nil }

func (s *testEnv) SaveEvents(_ context.Context, checkpoints []executiondb.Checkpoint) (executiondb.SavedEvents, error) {
	saved := map[string]bool{}
	for _, c := range checkpoints {
		saved[c.RunID] = true
	}
	return executiondb.SavedEvents{Saved: saved}, nil
}

func (s *testEnv) Park(_ context.Context, _ lease.Held, action domain.RequiredAction, events executiondb.Chunk) (executiondb.Parked, error) {
	defer s.lock()()
	s.actions, s.written = append(s.actions, action), append(s.written, events)
	return s.park, nil
}

func (s *testEnv) NoteAttempts(_ context.Context, claims []executiondb.Claimed) ([]bool, error) {
	defer s.lock()()
	for _, claim := range claims {
		s.noted = append(s.noted, claim.Attempts)
	}
	return make([]bool, len(claims)), s.refuses
}

func (s *testEnv) NoteRefusal(_ context.Context, _ lease.Held, refusal domain.ProviderError) error {
	defer s.lock()()
	s.refused = append(s.refused, refusal)
	return nil
}

func (s *testEnv) FailedSinceStep(context.Context, lease.Held, string) (executiondb.Failures, error) {
	return s.failed, nil
}

func (s *testEnv) Progress(context.Context, string, string) (rundb.Progress, error) {
	return rundb.Progress{Usage: domain.Usage{InputTokens: 5}, ToolCalls: []domain.ToolCall{{Name: "earlier"}}}, nil
}

func (s *testEnv) For(context.Context, toolset.Run, domain.Tools) (toolset.Set, error) {
	registry, err := tool.NewRegistry(s.tools...)
	return toolset.Set{Registry: registry}, err
}

func (s *testEnv) Lane(domain.Lane) *bus.Lane { return nil }

func (s *testEnv) PublishJobs(...domain.Job) {}

func (s *testEnv) Events(_ string, chunk domain.EventChunk) {
	defer s.lock()()
	s.reported = append(s.reported, string(chunk.Lines))
}

func (s *testEnv) Done(runID, replyTo string, result []byte) {
	defer s.lock()()
	s.done = append(s.done, runID+" "+replyTo+" "+string(result))
}

func (s *testEnv) Ended(runID, replyTo string, result []byte, _ domain.EventID, _ domain.RunStatus) {
	s.Done(runID, replyTo, result)
}

func (s *testEnv) Changed(kind domain.ChangeKind, org string) {
	defer s.lock()()
	if kind == domain.ChangedRuns && org == "org_1" {
		s.changes++
	}
}

func (s *testEnv) OnCancelled(func(string)) (func(), error) { return func() {}, nil }

// Model returns the only model of the environment for every name.
func (s *testEnv) Model(name string) (llm.Model, error) {
	defer s.lock()()
	s.asked = append(s.asked, name)
	return s.model, nil
}

// unbudgeted is a store of budgets that contains no budgets.
type unbudgeted struct{ Budgets }

func (*testEnv) PrepareAttachment(context.Context, toolset.Run, attachment.Arguments) error {
	return errors.New("no attachment was sent")
}

func (unbudgeted) Budgeted(context.Context, string) (bool, error) { return false, nil }

// newRunnerOn creates a runner with the dependencies of the environment, except that it uses runs
// as its store of runs.
func newRunnerOn(t *testing.T, s *testEnv, runs Runs) *Runner {
	t.Helper()
	models, err := llm.NewRegistry("stage/first", map[string]llm.Provider{"stage": s})
	if err != nil {
		t.Fatal(err)
	}
	r, err := New(Config{
		Concurrency: 4, Price: func(_ string, used llm.Usage) int64 { return 10*used.InputTokens + 100*used.OutputTokens },
	}, Deps{
		Runs: runs, Queue: s, History: s, Progress: s, Records: s, ParkStore: s, Clients: s, Tools: s, Budgets: unbudgeted{}, Bus: s, Changes: s, Models: models, Metrics: prometheus.NewRegistry(), Log: zerolog.Nop(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// claimedAttempt returns the first attempt at a run that was just claimed.
func claimedAttempt(runID string) *attempt {
	agent, now := "ag_1", time.Now()
	return &attempt{
		claim: executiondb.Claimed{
			RunID: runID, OrganizationID: "org_1", AgentID: &agent, RawInput: []byte(`{"message":"hi"}`), Now: now, Deadline: now.Add(time.Minute),
			CallerAllowed: true, Attempts: 1, Fence: 1, Seq: 1,
		},
		replyTo: "inbox", asked: now, claimed: now, log: zerolog.Nop(),
	}
}

// attempt executes a claimed run.
func (s *testEnv) attempt(t *testing.T, claim executiondb.Claimed) {
	t.Helper()
	r := newRunnerOn(t, s, s)
	s.asked = nil
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var groups sync.WaitGroup
	groups.Go(func() { r.finishes.Run(ctx) })
	groups.Go(func() { r.requeues.Run(ctx) })
	groups.Go(func() { r.notes.Run(ctx) })
	groups.Go(func() { r.events.Run(ctx) })
	now := time.Now()
	claim.Now, claim.Deadline, claim.CallerAllowed, claim.Fence, claim.Seq = now, now.Add(time.Minute), true, int64(claim.Attempts), len(s.turns)+1
	claim.RunID, claim.OrganizationID = "run_1", "org_1"
	agent := "ag_1"
	if claim.AgentID = &agent; claim.RawInput == nil {
		claim.RawInput = []byte(`{"message":"hi"}`)
	}
	log := zerolog.Nop()
	if s.log != nil {
		log = zerolog.New(s.log)
	}
	r.executeClaimed(ctx, &attempt{claim: claim, replyTo: "inbox", asked: now, claimed: now, log: log})
	cancel()
	groups.Wait()
}

// payTool is the tool pay. Its calls fail with err, or succeed if err is nil.
type payTool struct{ err error }

func (p payTool) Spec() tool.Spec {
	return tool.Spec{Name: "pay", Schema: json.RawMessage(`{"type":"object"}`)}
}

func (p payTool) Call(context.Context, tool.Call) (tool.Result, error) {
	if p.err != nil {
		return tool.Result{}, p.err
	}
	return tool.Result{Output: json.RawMessage(`"paid"`)}, nil
}

func payCall() scripted.Call {
	return scripted.Call{
		Usage:     llm.Usage{InputTokens: 7, OutputTokens: 3},
		ToolCalls: []llm.ToolCall{{ID: "call_1", Name: "pay", Arguments: json.RawMessage(`{"to":"x"}`)}},
	}
}

func TestARunReportsItsUsage(t *testing.T) {
	t.Parallel()
	s := &testEnv{tools: []tool.Tool{payTool{}}, model: scripted.New("stage/first", payCall(), scripted.Call{
		Deltas: []string{"Done [7]."}, Usage: llm.Usage{InputTokens: 20, OutputTokens: 5},
	})}
	s.attempt(t, executiondb.Claimed{Attempts: 1})
	if len(s.outcomes) != 1 {
		t.Fatalf("%d outcomes", len(s.outcomes))
	}
	run := s.outcomes[0].Run
	if run.Usage != (domain.Usage{InputTokens: 27, OutputTokens: 8, CostMicros: 27*10 + 8*100, Model: "stage/first"}) {
		t.Errorf("usage %+v", run.Usage)
	}
	if run.CitationsRemoved != 1 || len(run.ToolCalls) != 1 || run.ToolCalls[0].Name != "pay" || run.Status != domain.RunCompleted {
		t.Errorf("%+v", run)
	}
	if len(s.done) != 1 || !strings.HasPrefix(s.done[0], "run_1 inbox {") {
		t.Errorf("published results %q", s.done)
	}
}

func TestAnEarlyFailureKeepsTheUsageOfEarlierAttempts(t *testing.T) {
	t.Parallel()
	s := &testEnv{model: scripted.New("stage/first")}
	s.attempt(t, executiondb.Claimed{Attempts: lease.MaxDeaths + 1, Deaths: lease.MaxDeaths})
	if len(s.outcomes) != 1 || s.outcomes[0].Run.Usage.InputTokens != 5 || len(s.outcomes[0].Run.ToolCalls) != 1 {
		t.Errorf("%+v", s.outcomes)
	}
}

func TestLaterAttemptsAreNoted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		attempts int
		refuses  error
		noted    []int
	}{
		"the first":                        {1, nil, nil},
		"the second":                       {2, nil, []int{2}},
		"the second, which cannot be told": {2, errors.New("away"), []int{2}},
	} {
		s := &testEnv{refuses: c.refuses, model: scripted.New("stage/first", scripted.Call{Deltas: []string{"ok"}})}
		s.attempt(t, executiondb.Claimed{Attempts: c.attempts})
		if !slices.Equal(s.noted, c.noted) || len(s.outcomes) != 1 || s.outcomes[0].Run.Status != domain.RunCompleted {
			t.Errorf("%s: noted %v, ended %+v", name, s.noted, s.outcomes)
		}
	}
}

func TestARunThatWaitsForAPersonLeavesItsWorker(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		park    executiondb.Parked
		back    int
		done    int
		status  domain.RunStatus
		changes int
	}{
		"waits":               {executiondb.Parked{Parked: true, Freed: queuedb.FreedSlots{{OrganizationID: "org_1", Lane: domain.LaneChat}: {Slots: 1}}}, 0, 1, "", 1},
		"has a known outcome": {executiondb.Parked{Known: true}, 1, 0, "", 1},
		"was taken over":      {executiondb.Parked{}, 0, 0, "", 0},
		"is one too many":     {executiondb.Parked{Full: true}, 0, 1, domain.RunFailed, 1},
	} {
		s := &testEnv{
			park: c.park, model: scripted.New("stage/first", payCall()),
			tools: []tool.Tool{payTool{&tool.ActionRequired{Kind: domain.ActionApproval, Call: tool.Call{ID: "call_1", Name: "pay", Arguments: json.RawMessage(`{"to":"x"}`)}}}},
		}
		s.attempt(t, executiondb.Claimed{Attempts: 1})
		if len(s.actions) != 1 || len(s.back) != c.back || len(s.done) != c.done || s.changes != c.changes {
			t.Fatalf("%s: parked %d times, requeued %v, published %q and %d changes", name, len(s.actions), s.back, s.done, s.changes)
		}
		action, written := s.actions[0], s.written[0].Events
		if left := time.Until(action.ExpiresAt.Time); left < 23*time.Hour || left > 24*time.Hour || action.Kind != domain.ActionApproval ||
			action.ToolCallID != "call_1" || action.Name != "pay" || string(action.Input) != `{"to":"x"}` {
			t.Errorf("%s: %+v", name, action)
		}
		if last := written[strings.LastIndex(strings.TrimSuffix(written, "\n"), "\n")+1:]; !strings.HasPrefix(last, "run.requires_action {") {
			t.Errorf("%s: the last event written is %q", name, last)
		}
		published := strings.HasPrefix(s.reported[len(s.reported)-1], "run.requires_action {")
		if published != c.park.Parked {
			t.Errorf("%s: published events %q", name, s.reported)
		}
		switch {
		case c.status == "" && len(s.outcomes) != 0:
			t.Errorf("%s: ended %+v", name, s.outcomes[0].Run)
		case c.status != "" && (len(s.outcomes) != 1 || s.outcomes[0].Run.Status != c.status || s.outcomes[0].Run.Error.Code != "action_limit"):
			t.Errorf("%s: %+v", name, s.outcomes)
		case c.park.Parked && s.done[0] != "run_1 inbox ":
			t.Errorf("%s: the waiting caller received %q", name, s.done[0])
		}
	}
}

func TestAnAttemptAfterAModelFailureBeginsWithTheNextModel(t *testing.T) {
	t.Parallel()
	failed := func(code string) sql.Null[[]byte] {
		return sql.Null[[]byte]{V: []byte(`{"code":"` + code + `","message":"m"}`), Valid: true}
	}
	for name, c := range map[string]struct {
		claim executiondb.Claimed
		want  string
	}{
		"the first attempt":     {executiondb.Claimed{Attempts: 1}, "a b c"},
		"behind a lost worker":  {executiondb.Claimed{Attempts: 2}, "a b c"},
		"behind a lost tool":    {executiondb.Claimed{Attempts: 2, LastError: failed("tool_unavailable")}, "a b c"},
		"behind a failed model": {executiondb.Claimed{Attempts: 2, LastError: failed("model_truncated")}, "b c a"},
		"once around":           {executiondb.Claimed{Attempts: 4, LastError: failed("model_timeout")}, "a b c"},
	} {
		s := &testEnv{cfg: domain.Config{Model: "stage/a", FallbackModels: []string{"stage/b", "stage/c"}}, model: scripted.New("stage/x", scripted.Call{Deltas: []string{"ok"}})}
		s.attempt(t, c.claim)
		if got := strings.Join(s.asked, " "); got != c.want {
			t.Errorf("%s: %s", name, got)
		}
	}
}
