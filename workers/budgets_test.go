package workers_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"parley/shared/bus"
	"parley/shared/config"
	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/testkit/openaistub"
	"parley/workers"
)

const answerWords = 4000 // number of words in each answer of the stub, unless the request sets a lower limit

// wordy is a model that answers with as many words as the request allows, up to answerWords. Each
// word is one token.
func wordy(req openaistub.Request) (openaistub.Reply, bool) {
	var asked struct {
		MaxTokens           int `json:"max_tokens"`
		MaxCompletionTokens int `json:"max_completion_tokens"`
	}
	words := answerWords
	if json.Unmarshal(req.Body, &asked) == nil {
		if maximum := max(asked.MaxTokens, asked.MaxCompletionTokens); maximum > 0 {
			words = min(words, maximum)
		}
	}
	return openaistub.Reply{Text: strings.TrimSpace(strings.Repeat("word ", words)), Delay: 20 * time.Millisecond}, true
}

func (r *testEnv) budget(metric domain.BudgetMetric, limit int64) func() domain.Budget {
	r.Helper()
	made, err := r.store.Budgets.CreateBudget(r.Context(), r.org, domain.Budget{Scope: domain.BudgetOrganization, Metric: metric, Period: domain.BudgetMonth, Limit: limit})
	if err != nil {
		r.Fatal(err)
	}
	return func() domain.Budget {
		got, err := r.store.Budgets.Budget(r.Context(), r.org, made.ID)
		if err != nil {
			r.Fatal(err)
		}
		return got
	}
}

// Simultaneous runs use no more tokens than their budget allows. The budget is charged for the
// tokens that each run reports. If no tokens are left, a run fails, and its error names the budget.
func TestSimultaneousRunsNeverExceedTheirBudget(t *testing.T) {
	t.Parallel()
	const limit = 40_000
	stub := openaistub.New()
	stub.Respond(wordy)
	server := httptest.NewServer(stub)
	t.Cleanup(server.Close)
	r := newTestEnvThrough(t, 100, config.Workers{OpenAIBaseURL: server.URL + "/v1", OpenAIAPIKey: "k"}, workers.RoleAgent, workers.RoleSweep)
	agent, budget := r.agent("openai/test"), r.budget(domain.BudgetTokens, limit)
	var runs []string
	for i := range 100 {
		runs = append(runs, r.start(agent, fmt.Sprint("s", i), "write"))
	}
	var used int64
	completed, failed := 0, 0
	for _, runID := range runs {
		run := r.result(runID)
		used += run.Usage.InputTokens + run.Usage.OutputTokens
		switch {
		case run.Status == domain.RunCompleted:
			completed++
		case run.Error != nil && run.Error.Code == "budget_exceeded" && strings.Contains(run.Error.Message, budget().ID):
			failed++
		default:
			t.Errorf("%s: %+v", run.Status, run.Error)
		}
	}
	got := budget()
	t.Logf("%d runs completed with %d tokens of %d, %d failed", completed, used, limit, failed)
	if used > limit || used < limit-2*answerWords || got.Used != used || got.Reserved != 0 {
		t.Errorf("%d tokens were used; the budget says %+v", used, got)
	}
}

// A program may run for as long as its budget allows. The budget is charged for the program's run
// time.
func TestCodeHasTheTimeOfItsBudget(t *testing.T) {
	t.Parallel()
	r := newTestEnvFor(t, config.Workers{Sandbox: config.Sandbox{SandboxWall: 10 * time.Second}}, workers.RoleAgent)
	stop, err := r.bus.ServeTool(contract.ToolCodeExecution, bus.ToolOptions{Slots: 1, Queue: 1}, func(context.Context, bus.ToolMessage) ([]byte, bool) {
		return []byte(`{"output":{"stdout":"done"}}`), true
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(context.WithoutCancel(t.Context())) })
	agent, budget := r.agentWith("offline", withCode()), r.budget(domain.BudgetSandbox, 10)
	if run := r.result(r.start(agent, "s", runsCode)); run.Status != domain.RunCompleted {
		t.Errorf("with room: %+v", run)
	}
	if got := budget(); got.Used != 1 || got.Reserved != 0 {
		t.Errorf("after a call: %+v", got)
	}
	if run := r.result(r.start(agent, "s", runsCode)); run.Error == nil || run.Error.Code != "budget_exceeded" || !strings.Contains(run.Error.Message, "seconds in sandboxes") {
		t.Errorf("with less room than a call may need: %+v", run)
	}
}
