package runner

import (
	"context"
	"strings"
	"time"

	"parley/shared/id"
	"parley/shared/lifecycle"
	"parley/shared/store/budgetdb"
	"parley/shared/store/lease"
	"parley/workers/internal/agentloop"
	"parley/workers/internal/llm"
)

const (
	minAnswer = 256 // minimum limit of an answer in tokens; if a budget has little room, the limit is halved until it reaches this minimum

	chargeTime   = 5 * time.Second       // time limit for writing a call's actual usage
	reserveTries = 4                     // retries of a reservation that fails only because of other calls' reservations
	reserveWait  = 50 * time.Millisecond // delay before the first retry; doubles with each retry
	holdPrefix   = "hold"                // prefix of the ids of reservations
)

// Budgets stores organizations' budgets and reservations. While a call runs, its reservation covers
// the maximum amounts that the call may use, so concurrent calls cannot exceed a budget together.
// Package budgetdb implements it.
type Budgets interface {
	// Budgeted reports whether any budget applies to the organization. The answer may be cached.
	Budgeted(ctx context.Context, org string) (bool, error)
	// Reserve reserves h and returns the number of budgets that h counts against. If a budget has
	// no room for it, Reserve reserves nothing and describes the budget in lacking.
	Reserve(ctx context.Context, h budgetdb.Hold) (budgets int, lacking *budgetdb.InsufficientBudget, err error)
	// Charge replaces a reservation with the amounts that the call has used. It charges them even
	// if no reservation exists, and may be repeated after an error.
	Charge(ctx context.Context, held lease.Held, holdID string, used budgetdb.Amounts) error
}

// runBudget reserves and charges the usage of one attempt's calls. It is safe for concurrent use,
// because tool calls run concurrently.
type runBudget struct {
	budgets Budgets
	a       *attempt
	price   func(model string, used llm.Usage) int64 // nil if calls are free
	wall    time.Duration                            // maximum run time of a call's code
}

// newRunBudget returns the budget check of one attempt. It does not query the database.
func (r *Runner) newRunBudget(a *attempt) *runBudget {
	return &runBudget{budgets: r.budgets, a: a, price: r.cfg.Price, wall: r.cfg.SandboxWall}
}

// reservation reserves the maximum amounts of one call. hold.ID is empty if no budget applies.
// Otherwise, the method charge must be called exactly once.
type reservation struct {
	*runBudget
	hold budgetdb.Hold
}

// held reports whether amounts are reserved. If so, the caller must call charge.
func (r reservation) held() bool { return r.hold.ID != "" }

// reserve places a reservation on the maximum amounts that a call may use. If reserve succeeds, the
// caller must charge the reservation. An error of reserve is an *agentloop.Error. If a budget is
// exhausted, the second result describes this budget.
func (s *runBudget) reserve(ctx context.Context, maximum budgetdb.Amounts) (reservation, *budgetdb.InsufficientBudget, error) {
	r := reservation{s, budgetdb.Hold{Held: s.a.claim.Held(), Amounts: maximum}}
	// Most organizations have no budgets. The cached answer saves them a transaction per call.
	some, err := s.budgets.Budgeted(ctx, r.hold.OrganizationID)
	if err != nil {
		return r, nil, retryable(err)
	}
	if !some {
		return r, nil, nil
	}

	// The worker chooses the id, so that it can charge the reservation even if Reserve returns an
	// error.
	r.hold.ID = id.New(holdPrefix)
	budgets, lacking, err := s.budgets.Reserve(ctx, r.hold)
	// If only the reservations of other calls use up the budget, retry, because such reservations
	// are charged within seconds.
	for n := 0; n < reserveTries && err == nil && lacking != nil && lacking.Later && ctx.Err() == nil; n++ {
		_ = lifecycle.Sleep(ctx, jitter(reserveWait<<n))
		budgets, lacking, err = s.budgets.Reserve(ctx, r.hold)
	}

	// An exhausted budget is not a failure of the store. The error is retryable only if the
	// reservations of other calls use up the budget.
	switch {
	case err != nil:
		r.charge(ctx, budgetdb.Amounts{}) // the reservation may have been placed despite the error
		return r, nil, retryable(err)
	case lacking != nil:
		e := budgetdb.UsedUp(lacking.Budget)
		return r, lacking, &agentloop.Error{Code: string(e.Code), Message: sentence(e.Detail), Retryable: lacking.Later}
	case budgets == 0:
		// No budget applies to this run, so Reserve has reserved nothing.
		r.hold.ID = ""
	}
	return r, nil, nil
}

// sentence returns the detail of an error of the API as a sentence, like the messages of runs.
func sentence(detail string) string { return strings.ToUpper(detail[:1]) + detail[1:] + "." }

// charge replaces the reservation with the call's actual usage, even if the run has ended in the
// meantime. If every write fails, the sweeper later removes the reservation and charges its full
// amount.
func (r reservation) charge(ctx context.Context, used budgetdb.Amounts) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), chargeTime)
	defer cancel()
	// A reservation that is not replaced overcharges the budget, so the write is retried.
	for n := 1; ; n++ {
		err := r.write(ctx, used)
		if err == nil {
			return
		}
		if lifecycle.Sleep(ctx, backoff(n)/10) != nil {
			r.a.log.Warn().Err(err).Msg("cannot store the usage of a call; its whole reservation counts as used")
			return
		}
	}
}

// write charges the reservation. It also charges a call without a reservation, because a budget may
// have been created since the call began.
func (r reservation) write(ctx context.Context, used budgetdb.Amounts) error {
	if !r.held() {
		some, err := r.budgets.Budgeted(ctx, r.hold.OrganizationID)
		if err != nil || !some || used == (budgetdb.Amounts{}) {
			return err
		}
	}
	return r.budgets.Charge(ctx, r.hold.Held, r.hold.ID, used)
}

// code places a reservation for a call of codeExecution, for the maximum run time. The caller must
// call done with the run time of the code. If err is not nil, done is nil and the code must not
// run.
func (s *runBudget) code(ctx context.Context) (done func(took time.Duration), err error) {
	r, _, err := s.reserve(ctx, budgetdb.Amounts{Sandbox: s.wall})
	if err != nil {
		return nil, err
	}
	return func(took time.Duration) { r.charge(ctx, budgetdb.Amounts{Sandbox: min(took, s.wall)}) }, nil
}

// model wraps a model so that its calls are charged to the budgets.
func (s *runBudget) model(m llm.Model) llm.Model { return &budgetedModel{Model: m, budget: s} }

// budgetedModel is a model whose calls are reserved and charged. Retries and fallbacks are separate
// calls.
type budgetedModel struct {
	llm.Model
	budget *runBudget
}

// Stream reserves the maximum usage of the call, makes the call, and charges its actual usage. If
// little of a budget is left, Stream lowers the token limit of the answer. The results are named,
// because otherwise a copy of the response would stay on the stack during the call.
func (m *budgetedModel) Stream(ctx context.Context, req llm.Request, emit func(llm.Delta)) (res llm.Response, err error) {
	// Charge the reservation even if the call fails, because a failed call may have used tokens,
	// too.
	r, err := m.reserve(ctx, &req)
	if err != nil {
		return llm.Response{}, err
	}
	res, err = m.Model.Stream(ctx, req, emit)
	r.charge(ctx, m.amounts(llm.ChargedUsage(&req, &res, err)))
	return res, err
}

// reserve places a reservation for the call's maximum usage. If the reservation succeeds, reserve
// sets req.MaxTokens to the number of output tokens in it.
func (m *budgetedModel) reserve(ctx context.Context, req *llm.Request) (reservation, error) {
	some, err := m.budget.budgets.Budgeted(ctx, m.budget.a.claim.OrganizationID)
	if err != nil {
		return reservation{}, retryable(err)
	}
	if !some {
		return reservation{m.budget, budgetdb.Hold{Held: m.budget.a.claim.Held()}}, nil
	}

	// Halve the answer's limit until the budgets have room or the answer would be too short to be
	// useful.
	maximum := llm.MaxUsage(req)
	for {
		r, lacking, err := m.budget.reserve(ctx, m.amounts(maximum))
		if lacking == nil || lacking.Later || maximum.OutputTokens/2 < minAnswer {
			if r.held() {
				req.MaxTokens = maximum.OutputTokens
			}
			return r, err
		}
		maximum.OutputTokens /= 2
	}
}

// amounts converts a call's usage to the units in which budgets are measured: tokens, and
// millionths of the currency unit.
func (m *budgetedModel) amounts(used llm.Usage) budgetdb.Amounts {
	a := budgetdb.Amounts{Tokens: max(used.InputTokens, 0) + max(used.OutputTokens, 0)}
	if m.budget.price != nil {
		a.CostMicros = max(m.budget.price(m.Model.Info().Name, used), 0)
	}
	return a
}
