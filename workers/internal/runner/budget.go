package runner

import (
	"context"
	"errors"
	"time"

	"parley/shared/id"
	"parley/shared/lifecycle"
	"parley/shared/store/budgetdb"
	"parley/shared/store/lease"
	"parley/workers/internal/agentloop"
	"parley/workers/internal/llm"
)

const (
	maxAnswer  = 8192 // maximum tokens of an answer, if a budget limits tokens or their cost
	minAnswer  = 256  // if less is left in the budget, the limit is halved down to this
	perMessage = 16   // maximum overhead of a message or a tool in tokens, beyond its text
	perPrompt  = 1024 // upper bound of a prompt's overhead in tokens

	settleTime   = 5 * time.Second       // for writing a call's actual usage
	reserveTries = 4                     // retries of a reservation that other calls' holds leave no room for
	reserveWait  = 50 * time.Millisecond // delay before the first retry; doubles with each retry
	holdPrefix   = "hold"                // prefix of hold ids
)

// Budgets is the store of an organization's budgets and the holds on them.
type Budgets interface {
	Budgeted(ctx context.Context, org string) (bool, error)
	Reserve(ctx context.Context, h budgetdb.Hold) (budgets int, lacking *budgetdb.Lacking, err error)
	Settle(ctx context.Context, held lease.Held, holdID string, used budgetdb.Amounts) error
}

// runBudget reserves and settles an attempt's calls against the budgets that apply to its run.
type runBudget struct {
	budgets Budgets
	a       *attempt
	price   func(model string, used llm.Usage) int64 // nil if calls are free
	wall    time.Duration                            // maximum run time of a call's code
}

// newRunBudget returns the budget check of one attempt. It makes no query.
func (r *Runner) newRunBudget(a *attempt) *runBudget {
	return &runBudget{budgets: r.budgets, a: a, price: r.cfg.Price, wall: r.cfg.SandboxWall}
}

// reservation is the maximum amount that a call may use. hold.ID is empty if no budget applies.
type reservation struct {
	*runBudget
	hold budgetdb.Hold
}

// held reports whether a hold was placed, which must be settled.
func (r reservation) held() bool { return r.hold.ID != "" }

// reserve places a hold on the maximum amounts that a call may use. The caller must settle the
// reservation, unless reserve returns an error. The error is an *agentloop.Error; lacking is the
// exhausted budget if that is the cause.
func (s *runBudget) reserve(ctx context.Context, maximum budgetdb.Amounts) (reservation, *budgetdb.Lacking, error) {
	r := reservation{s, budgetdb.Hold{Held: s.a.claim.Held(), Amounts: maximum}}
	// Most organizations have no budgets, and the cached answer saves them a transaction per call.
	some, err := s.budgets.Budgeted(ctx, r.hold.OrganizationID)
	if err != nil {
		return r, nil, retryable(err)
	}
	if !some {
		return r, nil, nil
	}

	// The worker chooses the id, so that it can settle a hold whose reservation returned an error.
	r.hold.ID = id.New(holdPrefix)
	budgets, lacking, err := s.budgets.Reserve(ctx, r.hold)
	// Retry while the room is only held by other calls: they settle within seconds.
	for n := 0; n < reserveTries && err == nil && lacking != nil && lacking.Later && ctx.Err() == nil; n++ {
		_ = lifecycle.Sleep(ctx, jitter(reserveWait<<n))
		budgets, lacking, err = s.budgets.Reserve(ctx, r.hold)
	}

	switch {
	case err != nil:
		r.settle(ctx, budgetdb.Amounts{}) // the hold may have been placed despite the error
		return r, nil, retryable(err)
	case lacking != nil:
		e := budgetdb.UsedUp(lacking.Budget)
		return r, lacking, &agentloop.Error{Code: string(e.Code), Message: e.Detail, Retryable: lacking.Later}
	case budgets == 0:
		r.hold.ID = ""
	}
	return r, nil, nil
}

// settle replaces the hold by the call's actual usage, even if the run has ended in the meantime.
// If the write keeps failing, the sweeper later removes the hold and counts its full amount as
// used.
func (r reservation) settle(ctx context.Context, used budgetdb.Amounts) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	// A lost settlement overcharges the budget, so it is worth some retries.
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

// write settles the hold. If no budget applied when the call began, it still charges the usage,
// because a budget may have been created since then.
func (r reservation) write(ctx context.Context, used budgetdb.Amounts) error {
	if !r.held() {
		some, err := r.budgets.Budgeted(ctx, r.hold.OrganizationID)
		if err != nil || !some || used == (budgetdb.Amounts{}) {
			return err
		}
	}
	return r.budgets.Settle(ctx, r.hold.Held, r.hold.ID, used)
}

// code reserves a call of codeExecution. The caller must call done with the time that the code ran.
func (s *runBudget) code(ctx context.Context) (done func(took time.Duration), err error) {
	r, _, err := s.reserve(ctx, budgetdb.Amounts{Sandbox: s.wall})
	if err != nil {
		return nil, err
	}
	return func(took time.Duration) { r.settle(ctx, budgetdb.Amounts{Sandbox: min(took, s.wall)}) }, nil
}

// model wraps a model so that its calls are charged to the budgets.
func (s *runBudget) model(m llm.Model) llm.Model { return &budgetedModel{Model: m, budget: s} }

// budgetedModel is a model whose calls are reserved and charged.
type budgetedModel struct {
	llm.Model
	budget *runBudget
}

// Stream reserves the maximum usage of the call, makes the call, and settles its actual usage. If
// little of a budget is left, Stream lowers the token limit of the answer.
func (m *budgetedModel) Stream(ctx context.Context, req llm.Request, emit func(llm.Delta)) (llm.Response, error) {
	r, err := m.reserve(ctx, &req)
	if err != nil {
		return llm.Response{}, err
	}
	res, err := m.Model.Stream(ctx, req, emit)
	r.settle(ctx, m.actualUsage(&req, &res, err))
	return res, err
}

// reserve places a hold for the call's maximum usage, with the longest answer that the budgets
// allow. If a budget applies, it sets req.MaxTokens to that length.
func (m *budgetedModel) reserve(ctx context.Context, req *llm.Request) (reservation, error) {
	some, err := m.budget.budgets.Budgeted(ctx, m.budget.a.claim.OrganizationID)
	if err != nil {
		return reservation{}, retryable(err)
	}
	if !some {
		return reservation{m.budget, budgetdb.Hold{Held: m.budget.a.claim.Held()}}, nil
	}

	// Halve the answer's limit until the reservation fits or the limit becomes useless.
	maximum := worst(req)
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

// actualUsage returns the amounts to charge for a call: normally, the usage that the provider
// reports. If the provider reports none, each byte of the answer is charged as one token, up to the
// answer's token limit. A failed call is charged its maximum usage, unless it certainly used nothing.
func (m *budgetedModel) actualUsage(req *llm.Request, res *llm.Response, failed error) budgetdb.Amounts {
	// If the usage is uncertain, charge too much: a budget must never be exceeded.
	var e *llm.Error
	used := res.Usage
	switch {
	case errors.As(failed, &e) && e.Unused:
		return budgetdb.Amounts{}
	case failed != nil:
		return m.amounts(worst(req))
	case used.Estimated:
		written := llm.Message{Text: res.Text, ToolCalls: res.ToolCalls, Thinking: res.Thinking}.Size() + perMessage*(1+len(res.ToolCalls))
		maximum := worst(req)
		used.InputTokens = max(used.InputTokens, maximum.InputTokens)
		used.OutputTokens = max(used.OutputTokens, min(int64(written), maximum.OutputTokens))
	}
	return m.amounts(used)
}

// amounts converts usage to the amounts that budgets limit.
func (m *budgetedModel) amounts(used llm.Usage) budgetdb.Amounts {
	a := budgetdb.Amounts{Tokens: max(used.InputTokens, 0) + max(used.OutputTokens, 0)}
	if m.budget.price != nil {
		a.CostMicros = max(m.budget.price(m.Model.Info().Name, used), 0)
	}
	return a
}

// worst returns the maximum usage of a call whose answer has a token limit.
func worst(req *llm.Request) llm.Usage {
	answer := int64(maxAnswer)
	if req.MaxTokens > 0 {
		answer = min(answer, req.MaxTokens)
	}
	return llm.Usage{InputTokens: promptBound(req), OutputTokens: answer}
}

// promptBound returns an upper bound of the tokens in a prompt, because no tokenizer makes more
// than one token of a byte.
func promptBound(req *llm.Request) int64 {
	// The fixed parts cover text that a provider adds around prompts, messages and tools.
	n := perPrompt + len(req.System)
	for _, t := range req.Tools {
		n += perMessage + len(t.Name) + len(t.Description) + len(t.Schema)
	}
	if len(req.Output) > 0 {
		n += perMessage + len(req.Output)
	}
	for _, m := range req.Messages {
		n += perMessage * (1 + len(m.ToolCalls))
		switch {
		case m.Result != nil:
			n += len(llm.RenderToolResult(*m.Result))
		case m.Role == llm.RoleUser:
			n += len(llm.RenderUser(m))
		default:
			n += m.Size()
		}
	}
	return int64(n)
}
