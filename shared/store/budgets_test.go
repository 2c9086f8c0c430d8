package store_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"time"

	"parley/shared/apierr"
	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/store"
	"parley/shared/store/budgetdb"
	"parley/shared/store/executiondb"
	"parley/shared/store/lease"
	"parley/shared/store/queuedb"
	"parley/shared/store/usagedb"
	"parley/shared/testkit"
)

func (b *testEnv) budget(scope domain.BudgetScope, subject string, metric domain.BudgetMetric, limit int64) string {
	b.Helper()
	budget := domain.Budget{Scope: scope, Metric: metric, Period: domain.BudgetMonth, Limit: limit}
	if subject != "" {
		budget.SubjectID = &subject
	}
	made, err := b.s.Budgets.CreateBudget(b.Context(), b.org, budget)
	if err != nil {
		b.Fatal(err)
	}
	return made.ID
}

// budgetState returns the used and the reserved amount of a budget.
func (b *testEnv) budgetState(budgetID string) [2]int64 {
	b.Helper()
	got, err := b.s.Budgets.Budget(b.Context(), b.org, budgetID)
	if err != nil {
		b.Fatal(err)
	}
	return [2]int64{got.Used, got.Reserved}
}

func (b *testEnv) reserve(s *store.Store, held lease.Held, maximum budgetdb.Amounts) (holdID string, lacking *budgetdb.InsufficientBudget) {
	b.Helper()
	hold := budgetdb.Hold{ID: id.New("hold"), Held: held, Amounts: maximum}
	_, lacking, err := s.Budgets.Reserve(b.Context(), hold)
	if err != nil {
		b.Error(err)
	}
	return hold.ID, lacking
}

// A hundred concurrent calls of two processes reserve exactly the available amount. When the calls
// have ended, the unused parts of their reservations become available again.
func TestReservationsNeverExceedABudget(t *testing.T) {
	t.Parallel()
	dsn := testkit.Postgres(t)
	raw := testkit.SQL(t, dsn)
	var stores []*store.Store
	for range 2 {
		s, err := store.Open(dsn, 8)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		stores = append(stores, s)
	}
	b := newEnvOn(t, stores[0], raw, "ada@example.com")
	tokens := b.budget(domain.BudgetOrganization, "", domain.BudgetTokens, 1000)
	cost := b.budget(domain.BudgetAgent, b.agent, domain.BudgetCost, 5000)
	held := b.mustClaim(b.accept(wideWindow, b.run("", ""))[0].Run.Run.ID).Held()
	var mu sync.Mutex
	var holds []string
	var all sync.WaitGroup
	for n := range 100 {
		all.Go(func() {
			holdID, lacking := b.reserve(stores[n%2], held, budgetdb.Amounts{Tokens: 30, CostMicros: 100})
			mu.Lock()
			defer mu.Unlock()
			switch {
			case lacking == nil:
				holds = append(holds, holdID)
			case !lacking.Later || lacking.ID != tokens:
				t.Errorf("refused for good by %+v", lacking)
			}
		})
	}
	all.Wait()
	if len(holds) != 33 || b.budgetState(tokens) != [2]int64{0, 990} || b.budgetState(cost) != [2]int64{0, 3300} {
		t.Fatalf("%d calls hold %v and %v", len(holds), b.budgetState(tokens), b.budgetState(cost))
	}
	for n, holdID := range holds {
		all.Go(func() {
			for range 2 { // the second charge has no effect
				if err := stores[n%2].Budgets.Charge(t.Context(), held, holdID, budgetdb.Amounts{Tokens: 10, CostMicros: 100}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if b.budgetState(tokens) != [2]int64{330, 0} || b.budgetState(cost) != [2]int64{3300, 0} {
		t.Errorf("%v and %v after all are charged", b.budgetState(tokens), b.budgetState(cost))
	}
	if _, lacking := b.reserve(b.s, held, budgetdb.Amounts{Tokens: 671}); lacking == nil || lacking.Later || lacking.Used != 330 {
		t.Errorf("reserving more than the remaining amount: %+v", lacking)
	}
	if _, lacking := b.reserve(b.s, held, budgetdb.Amounts{Tokens: 670}); lacking != nil {
		t.Errorf("reserving exactly the remaining amount: %+v", lacking)
	}
}

// A new budget counts the usage of earlier runs in the period: finished, removed and open runs.
func TestABudgetCountsEarlierUsage(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	use := func(c *executiondb.Claimed) {
		run, answer := c.Run(), "answer"
		run.Message, run.Usage = &answer, domain.Usage{InputTokens: 5, OutputTokens: 2, CostMicros: 40}
		run.ToolCalls = []domain.ToolCall{{Name: contract.ToolCodeExecution, DurationMS: 1500}, {Name: "other", DurationMS: 9000}}
		run.End(domain.RunCompleted, nil, domain.At(c.Now), c.RetentionSecs)
		outcome, err := executiondb.NewOutcome(c.Held(), run)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.s.Executions.Finish(t.Context(), []executiondb.Outcome{outcome}); err != nil {
			t.Fatal(err)
		}
	}
	triggered := func() *executiondb.Claimed {
		row := b.run("", "")
		row.AutomationID, row.KeyID = "nightly", "key_a"
		return b.mustClaim(b.accept(wideWindow, row)[0].Run.Run.ID)
	}
	removed := triggered()
	use(removed)
	use(triggered())
	use(b.mustClaim(b.accept(wideWindow, b.run("", ""))[0].Run.Run.ID)) // this run has no automation
	b.exec(`DELETE FROM runs WHERE id = $1`, removed.RunID)
	goesOn := triggered()
	step, err := json.Marshal(map[string]any{"seq": 1, "kind": "model_turn", "turn": map[string]any{"costMicros": 3, "usage": domain.Usage{InputTokens: 100, OutputTokens: 10}}})
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := b.s.Executions.Journal(t.Context(), goesOn.Held(), 1, step); err != nil || !ok {
		t.Fatal(ok, err)
	}
	for metric, want := range map[domain.BudgetMetric]int64{
		domain.BudgetTokens: 2*7 + 110, domain.BudgetCost: 2*40 + 3, domain.BudgetRuns: 3, domain.BudgetSandbox: 3,
	} {
		budgetID := b.budget(domain.BudgetAutomation, "nightly", metric, 1_000_000)
		if got := b.budgetState(budgetID); got != [2]int64{want, 0} {
			t.Errorf("%s: %v, want %d", metric, got, want)
		}
	}
	holdID, lacking := b.reserve(b.s, goesOn.Held(), budgetdb.Amounts{Sandbox: 1500 * time.Millisecond, Tokens: 1})
	if lacking != nil || b.s.Budgets.Charge(t.Context(), goesOn.Held(), holdID, budgetdb.Amounts{Sandbox: 400 * time.Millisecond, Tokens: 1}) != nil {
		t.Fatalf("%+v", lacking)
	}
	all, err := b.s.Budgets.Budgets(t.Context(), b.org, "", 10)
	if err != nil {
		t.Fatal(err)
	}
	used := map[domain.BudgetMetric]int64{}
	for _, budget := range all {
		used[budget.Metric] = budget.Used
	}
	if used[domain.BudgetSandbox] != 4 || used[domain.BudgetTokens] != 125 {
		t.Errorf("after a call: %v", used)
	}
	got, err := b.s.Usage.Usage(t.Context(), b.org, usagedb.UsageFilter{Days: 7, KeyID: "key_a", By: usagedb.UsageByAutomation}, time.Now().Add(time.Minute))
	if err != nil || got.Totals.SandboxTime != 3000 || len(got.Groups) != 1 || *got.Groups[0].ID != "nightly" || got.Groups[0].Runs != 3 || got.Totals.Runs != 3 {
		t.Errorf("%+v, %v", got, err)
	}
}

// The amounts that an ended attempt has reserved count as used. The amounts that other attempts
// have reserved remain reserved.
func TestHoldsOfLostAttemptsAreCharged(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	budgetID := b.budget(domain.BudgetOrganization, "", domain.BudgetTokens, 1000)
	lost := b.mustClaim(b.accept(wideWindow, b.run("", ""))[0].Run.Run.ID)
	lives := b.mustClaim(b.accept(wideWindow, b.run("", ""))[0].Run.Run.ID)
	holdID, _ := b.reserve(b.s, lost.Held(), budgetdb.Amounts{Tokens: 100})
	_, _ = b.reserve(b.s, lives.Held(), budgetdb.Amounts{Tokens: 200})
	b.finish(lost, "answer")
	charge := func(want int) {
		t.Helper()
		if n, err := b.s.Budgets.ChargeLost(t.Context(), 10); err != nil || n != want {
			t.Errorf("%d charged, %v", n, err)
		}
	}
	charge(0) // the sweeper ends no reservation yet, because the attempt's worker may still end its reservation
	b.exec(`UPDATE budget_holds SET created_at = created_at - interval '2 minutes'`)
	charge(1)
	charge(0)
	if err := b.s.Budgets.Charge(t.Context(), lost.Held(), holdID, budgetdb.Amounts{}); err != nil {
		t.Error(err)
	}
	if got := b.budgetState(budgetID); got != [2]int64{100, 200} {
		t.Errorf("%v", got)
	}
}

// A batch with more runs than a budget allows is accepted up to the limit. Runs of other
// organizations are all accepted.
func TestABatchOfRunsIsAcceptedAsFarAsThereIsRoom(t *testing.T) {
	t.Parallel()
	s, raw := openRaw(t)
	b, other := newEnvOn(t, s, raw, "ada@example.com"), newEnvOn(t, s, raw, "bob@example.com")
	budgetID := b.budget(domain.BudgetAgent, b.agent, domain.BudgetRuns, 3)
	var rows []queuedb.NewRun
	for range 5 {
		rows = append(rows, b.run("", ""), other.run("", ""))
	}
	rows = append(rows, b.run("k", ""), b.run("k", ""))
	accepted := map[string]int{}
	for i, out := range b.accept(wideWindow, rows...) {
		switch {
		case out.Err == nil && !out.Existing:
			accepted[rows[i].OrganizationID]++
		case out.Err != nil && apierr.CodeFor(out.Err) != apierr.BudgetExceeded:
			t.Errorf("row %d: %v", i, out.Err)
		}
	}
	if accepted[b.org] != 3 || accepted[other.org] != 5 || b.budgetState(budgetID) != [2]int64{3, 0} {
		t.Errorf("accepted %v, %v", accepted, b.budgetState(budgetID))
	}
	err := s.Budgets.WithinBudget(t.Context(), b.org, b.agent, "", "")
	refused, ok := errors.AsType[*apierr.Error](err)
	if !ok || refused.Code != apierr.BudgetExceeded || refused.RetryAfter < time.Second {
		t.Errorf("%v", err)
	}
	for what, err := range map[string]error{
		"another agent":        s.Budgets.WithinBudget(t.Context(), b.org, "ag_other", "", ""),
		"another organization": s.Budgets.WithinBudget(t.Context(), other.org, b.agent, "", ""),
	} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := s.Budgets.DeleteBudget(t.Context(), b.org, budgetID); err != nil {
		t.Fatal(err)
	}
	if err := s.Budgets.WithinBudget(context.WithoutCancel(t.Context()), b.org, b.agent, "", ""); err != nil {
		t.Errorf("without the budget: %v", err)
	}
}

// The usage of runs is summed up once per period: when the budget is created, or when it is first
// used in the period.
func TestABudgetsCountIsOpenedOnce(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	budgetID := b.budget(domain.BudgetOrganization, "", domain.BudgetTokens, 1000)
	opened := func(when string, want int) {
		t.Helper()
		if n := b.number(`SELECT count(*) FROM budget_counts WHERE budget_id = $1`, budgetID); n != want {
			t.Errorf("%s: %d counts", when, n)
		}
	}
	opened("made", 1)
	b.exec(`DELETE FROM budget_counts`) // restores the state at the beginning of a period
	if err := b.s.Budgets.WithinBudget(t.Context(), b.org, "ag_other", "", ""); err != nil {
		t.Error(err)
	}
	opened("asked for", 1)
	b.exec(`DELETE FROM budget_counts`)
	b.exec(`UPDATE budgets SET scope = 'agent', subject_id = 'ag_a', subjects = '{ag_a}'`)
	if err := b.s.Budgets.WithinBudget(t.Context(), b.org, "ag_other", "", ""); err != nil {
		t.Error(err)
	}
	opened("of a run that it does not count", 0)
}

// A session that began before midnight may still add usage to the previous day, so the previous
// day's count remains.
func TestTheCountOfThePeriodBeforeStays(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	day := b.budget(domain.BudgetOrganization, "", domain.BudgetTokens, 1000)
	b.exec(`UPDATE budgets SET period = 'day'`)
	month := b.budget(domain.BudgetOrganization, "", domain.BudgetTokens, 1000)
	b.exec(`DELETE FROM budget_counts`)
	open := func(budgetID string, on ...string) {
		for _, since := range on {
			b.exec(`SELECT open_budget(k, $2::date) FROM budgets k WHERE id = $1`, budgetID, since)
		}
	}
	open(day, "2026-02-27", "2026-02-28", "2026-03-01")
	open(month, "2026-01-01", "2026-02-01", "2026-03-01")
	for budgetID, want := range map[string]string{day: "2026-02-28 2026-03-01", month: "2026-02-01 2026-03-01"} {
		if got := b.text(`SELECT string_agg(starts_on::text, ' ' ORDER BY starts_on) FROM budget_counts WHERE budget_id = $1`, budgetID); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// A budget that is created during a call counts the call exactly once, when the call ends. It does
// not matter whether the call has reservations in other budgets.
func TestCallsThatBeganBeforeABudgetAreCounted(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	held := b.mustClaim(b.accept(wideWindow, b.run("", ""))[0].Run.Run.ID).Held()
	used := budgetdb.Amounts{Tokens: 30, CostMicros: 7, Sandbox: 1}
	none := budgetdb.Hold{ID: id.New("hold"), Held: held, Amounts: budgetdb.Amounts{Tokens: 100}}
	if budgets, lacking, err := b.s.Budgets.Reserve(t.Context(), none); budgets != 0 || lacking != nil || err != nil {
		t.Fatalf("without budgets: %d, %+v, %v", budgets, lacking, err)
	}
	tokens, other := b.budget(domain.BudgetAgent, b.agent, domain.BudgetTokens, 1000), b.budget(domain.BudgetAutomation, "nightly", domain.BudgetTokens, 1000)
	if err := b.s.Budgets.Charge(t.Context(), held, "", used); err != nil {
		t.Fatal(err)
	}
	if b.budgetState(tokens) != [2]int64{30, 0} || b.budgetState(other) != [2]int64{0, 0} {
		t.Errorf("after the first: %v, another's %v", b.budgetState(tokens), b.budgetState(other))
	}
	hold := budgetdb.Hold{ID: id.New("hold"), Held: held, Amounts: budgetdb.Amounts{Tokens: 100}}
	if budgets, lacking, err := b.s.Budgets.Reserve(t.Context(), hold); budgets != 1 || lacking != nil || err != nil {
		t.Fatalf("with a budget: %d, %+v, %v", budgets, lacking, err)
	}
	cost := b.budget(domain.BudgetOrganization, "", domain.BudgetCost, 1000)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if err := b.s.Budgets.Charge(t.Context(), held, hold.ID, used); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if b.budgetState(tokens) != [2]int64{60, 0} || b.budgetState(cost) != [2]int64{7, 0} {
		t.Errorf("after the second: %v and %v", b.budgetState(tokens), b.budgetState(cost))
	}
}

// The calls of a check of connections count against the budgets of its agent and key. They are part
// of the usage, like the calls of runs.
func TestChecksCount(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	c := budgetdb.Call{OrganizationID: b.org, AgentID: b.agent, KeyID: "key_a", StartedAt: time.Now()}
	other := c
	other.AgentID, other.KeyID = "ag_other", ""
	maximum := budgetdb.Amounts{Tokens: 100, CostMicros: 500}
	reserve := func(c budgetdb.Call) (string, *budgetdb.InsufficientBudget) {
		holdID := id.New("hold")
		budgets, lacking, err := b.s.Budgets.ReserveCall(t.Context(), c, holdID, maximum)
		if err != nil {
			t.Fatal(err)
		}
		if budgets == 0 {
			holdID = ""
		}
		return holdID, lacking
	}
	charge := func(c budgetdb.Call, holdID string) {
		t.Helper()
		used, reported := budgetdb.Amounts{Tokens: 30, CostMicros: 70}, budgetdb.CallUsage{InputTokens: 20, OutputTokens: 5, CostMicros: 60}
		if err := b.s.Budgets.ChargeCall(t.Context(), c, holdID, used, reported); err != nil {
			t.Fatal(err)
		}
	}

	before, _ := reserve(c) // no budget exists yet
	tokens := b.budget(domain.BudgetAgent, b.agent, domain.BudgetTokens, 250)
	charge(c, before)
	if got := b.budgetState(tokens); got != [2]int64{30, 0} {
		t.Errorf("a budget created during the check: %v", got)
	}
	first, _ := reserve(c)
	second, _ := reserve(c)
	if _, lacking := reserve(c); lacking == nil || !lacking.Later || lacking.ID != tokens {
		t.Errorf("without room: %+v", lacking)
	}
	if holdID, lacking := reserve(other); holdID != "" || lacking != nil {
		t.Errorf("the budget of an agent applies to another: %+v", lacking)
	}
	charge(c, first)
	b.exec(`UPDATE budget_holds SET created_at = created_at - interval '2 minutes'`)
	if n, err := b.s.Budgets.ChargeLost(t.Context(), 10); n != 1 || err != nil {
		t.Errorf("lost: %d, %v", n, err)
	}
	charge(c, second) // has no effect, because the sweeper has already counted the whole reservation as used
	if got := b.budgetState(tokens); got != [2]int64{30 + 30 + 100, 0} {
		t.Errorf("used %v", got)
	}
	charge(other, "")

	// A call without an agent counts against no agent's budget.
	none := c
	none.AgentID, none.KeyID = "", "key_b"
	if holdID, lacking := reserve(none); holdID != "" || lacking != nil {
		t.Errorf("the budget of an agent applies to a call without one: %+v", lacking)
	}
	charge(none, "")

	// Five calls have reported usage: three checks of this agent, a check of another agent, and a
	// call without an agent.
	cost := b.budget(domain.BudgetOrganization, "", domain.BudgetCost, 1000)
	if got := b.budgetState(cost); got != [2]int64{5 * 60, 0} {
		t.Errorf("a new budget begins at %v", got)
	}
	for name, want := range map[string]struct {
		filter usagedb.UsageFilter
		tokens int64
	}{
		"all":       {usagedb.UsageFilter{Days: 1}, 5 * 20},
		"the agent": {usagedb.UsageFilter{Days: 7, AgentID: b.agent}, 3 * 20},
		"the key":   {usagedb.UsageFilter{Days: 7, KeyID: "key_a"}, 3 * 20},
		"no agent":  {usagedb.UsageFilter{Days: 7, KeyID: "key_b"}, 20},
	} {
		got, err := b.s.Usage.Usage(t.Context(), b.org, want.filter, time.Now().Add(time.Minute))
		if err != nil || got.Totals.InputTokens != want.tokens || got.Totals.OutputTokens != want.tokens/4 || got.Totals.CostMicros != 3*want.tokens || got.Totals.Runs != 0 {
			t.Errorf("%s: %+v, %v", name, got.Totals, err)
		}
	}
}
