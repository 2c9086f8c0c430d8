package runner

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"parley/shared/domain"
	"parley/shared/store/budgetdb"
	"parley/shared/store/lease"
	"parley/workers/internal/llm"
	"parley/workers/internal/llm/scripted"
)

// fakeBudgets fakes the store of budgets, and records reservations and charges.
type fakeBudgets struct {
	some    []bool // results of consecutive calls of Budgeted; the last result repeats
	budgets int    // number of budgets that apply to a call
	room    int64  // maximum number of tokens of a hold
	holds   []budgetdb.Amounts
	charged []chargedCall
}

type chargedCall struct {
	held bool
	used budgetdb.Amounts
}

func (p *fakeBudgets) Budgeted(context.Context, string) (bool, error) {
	some := p.some[0]
	if len(p.some) > 1 {
		p.some = p.some[1:]
	}
	return some, nil
}

func (p *fakeBudgets) Reserve(_ context.Context, h budgetdb.Hold) (int, *budgetdb.InsufficientBudget, error) {
	if p.room > 0 && h.Tokens > p.room {
		return 0, &budgetdb.InsufficientBudget{Budget: domain.Budget{Limit: p.room}}, nil
	}
	p.holds = append(p.holds, h.Amounts)
	return p.budgets, nil, nil
}

func (p *fakeBudgets) Charge(_ context.Context, _ lease.Held, holdID string, used budgetdb.Amounts) error {
	p.charged = append(p.charged, chargedCall{holdID != "", used})
	return nil
}

// spend makes a model call with a runBudget, and returns the request that the model received.
func (p *fakeBudgets) spend(t *testing.T, call scripted.Call, req llm.Request) (llm.Request, error) {
	t.Helper()
	model := scripted.New("test/m", call)
	s := &runBudget{budgets: p, a: &attempt{log: zerolog.Nop()}, wall: time.Minute, price: func(_ string, used llm.Usage) int64 {
		return 2*used.InputTokens + 3*used.OutputTokens
	}}
	_, err := s.model(model).Stream(t.Context(), req, func(llm.Delta) {})
	asked := model.Requests()
	if len(asked) != 1 {
		t.Fatalf("%d calls: %v", len(asked), err)
	}
	return asked[0], err
}

func asks(text string, maxTokens int64) llm.Request {
	return llm.Request{Messages: []llm.Message{{Role: llm.RoleUser, Text: text}}, MaxTokens: maxTokens}
}

// A call is charged unless it has certainly used nothing, whether or not it has produced text.
func TestCallsAreChargedWhatTheyMayHaveUsed(t *testing.T) {
	t.Parallel()
	const maximum = llm.PromptOverhead + llm.MessageOverhead + 100 + 500 // for 100 bytes of prompt and 500 tokens of answer
	costs := func(in, out int64) budgetdb.Amounts {
		return budgetdb.Amounts{Tokens: in + out, CostMicros: 2*in + 3*out}
	}
	whole, nothing := costs(maximum-500, 500), budgetdb.Amounts{}
	refused := llm.NewError(llm.KindRateLimited, nil)
	refused.Unused = true
	arguments := json.RawMessage(`{"q":"` + strings.Repeat("x", 100) + `"}`)
	for what, c := range map[string]struct {
		call scripted.Call
		want budgetdb.Amounts
	}{
		"answered":             {scripted.Call{Deltas: []string{"a"}, Usage: llm.Usage{InputTokens: 30, OutputTokens: 5}}, costs(30, 5)},
		"refused":              {scripted.Call{Err: refused}, nothing},
		"not sent":             {scripted.Call{Err: llm.NewUnused(llm.KindUnavailable, nil)}, nothing},
		"an error in a stream": {scripted.Call{Err: llm.NewError(llm.KindRateLimited, nil)}, whole},
		"unavailable, unknown": {scripted.Call{Err: llm.NewError(llm.KindUnavailable, nil)}, whole},
		"broke off at once":    {scripted.Call{Err: llm.NewError(llm.KindTruncated, nil)}, whole},
		"broke off":            {scripted.Call{Deltas: []string{"a"}, Err: llm.NewError(llm.KindTruncated, nil)}, whole},
		"who knows":            {scripted.Call{Err: errors.New("gone")}, whole},
		"by an estimate":       {scripted.Call{Deltas: []string{"seven b"}, Usage: llm.Usage{InputTokens: 25, OutputTokens: 2, Estimated: true}}, costs(maximum-500, 7+llm.MessageOverhead)},
		"a call, by an estimate": {
			scripted.Call{ToolCalls: []llm.ToolCall{{Name: "find", Arguments: arguments}}, Usage: llm.Usage{Estimated: true}},
			costs(maximum-500, int64(4+len(arguments)+2*llm.MessageOverhead)),
		},
		"more than was bounded": {scripted.Call{Deltas: []string{strings.Repeat("x", 4000)}, Usage: llm.Usage{OutputTokens: 1000, Estimated: true}}, costs(maximum-500, 1000)},
		"a long estimate":       {scripted.Call{Deltas: []string{strings.Repeat("x", 1600)}, Usage: llm.Usage{OutputTokens: 400, Estimated: true}}, whole},
	} {
		p := &fakeBudgets{some: []bool{true}, budgets: 1}
		_, err := p.spend(t, c.call, asks(strings.Repeat("x", 100), 500))
		if len(p.holds) != 1 || p.holds[0] != whole || !slices.Equal(p.charged, []chargedCall{{true, c.want}}) || !errors.Is(err, c.call.Err) {
			t.Errorf("%s: held %+v, charged %+v, want %+v: %v", what, p.holds, p.charged, c.want, err)
		}
	}
}

// If a budget applies, an answer is limited to the length for which the budget has room. If no
// budget applies, the answer has no limit.
func TestAnswersAreLimitedByBudgets(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		fakeBudgets fakeBudgets
		asked       int64
		want        int64
	}{
		"no budget":             {fakeBudgets{some: []bool{false}}, 0, 0},
		"others' budgets":       {fakeBudgets{some: []bool{true}}, 0, 0},
		"others', of many":      {fakeBudgets{some: []bool{true}}, 100_000, 100_000},
		"a budget":              {fakeBudgets{some: []bool{true}, budgets: 1}, 0, llm.BudgetedAnswer},
		"a budget, of many":     {fakeBudgets{some: []bool{true}, budgets: 2}, 100_000, llm.BudgetedAnswer},
		"a budget, of few":      {fakeBudgets{some: []bool{true}, budgets: 1}, 100, 100},
		"a budget near its end": {fakeBudgets{some: []bool{true}, budgets: 1, room: 2 * llm.PromptOverhead}, 0, llm.BudgetedAnswer / 16},
	} {
		got, err := c.fakeBudgets.spend(t, scripted.Call{Deltas: []string{"a"}}, asks("x", c.asked))
		if err != nil || got.MaxTokens != c.want {
			t.Errorf("%s: at most %d tokens, want %d: %v", what, got.MaxTokens, c.want, err)
		}
	}
}

// If no budget applied when a call began, its usage is charged to the budgets that exist when it
// ends.
func TestBudgetsCreatedDuringACallCountIt(t *testing.T) {
	t.Parallel()
	answer := scripted.Call{Deltas: []string{"a"}, Usage: llm.Usage{InputTokens: 30, OutputTokens: 5}}
	counted := []chargedCall{{false, budgetdb.Amounts{Tokens: 35, CostMicros: 75}}}
	for what, c := range map[string]struct {
		fakeBudgets fakeBudgets
		call        scripted.Call
		want        []chargedCall
	}{
		"none":               {fakeBudgets{some: []bool{false}}, answer, nil},
		"made meanwhile":     {fakeBudgets{some: []bool{false, true}}, answer, counted},
		"others' before":     {fakeBudgets{some: []bool{true}}, answer, counted},
		"for a refused call": {fakeBudgets{some: []bool{false, true}}, scripted.Call{Err: llm.NewUnused(llm.KindUnavailable, nil)}, nil},
	} {
		_, _ = c.fakeBudgets.spend(t, c.call, asks("x", 0)) // the error of the call is not tested here
		if !slices.Equal(c.fakeBudgets.charged, c.want) {
			t.Errorf("%s: %+v", what, c.fakeBudgets.charged)
		}
	}
	p := &fakeBudgets{some: []bool{false, true}}
	s := &runBudget{budgets: p, a: &attempt{log: zerolog.Nop()}, wall: time.Minute}
	done, err := s.code(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	done(2 * time.Minute)
	if !slices.Equal(p.charged, []chargedCall{{false, budgetdb.Amounts{Sandbox: time.Minute}}}) {
		t.Errorf("code: %+v", p.charged)
	}
}
