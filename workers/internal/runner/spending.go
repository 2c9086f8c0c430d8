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
	budgetedAnswer = 8192 // tokens that an answer may have at most where tokens or their cost are budgeted,
	leastAnswer    = 256  // and fewer, when less is left, down to so many
	perMessage     = 16   // tokens that a message, or a tool, costs a model at most beside its text,
	perPrompt      = 1024 // and a prompt beside all of these

	settleTime = 5 * time.Second       // for writing what a call came to
	roomTries  = 4                     // times that a call asks again in place for room that others hold, before its run is put back
	roomWait   = 50 * time.Millisecond // before the first of these; twice as long before each other
	holdPrefix = "hold"                // of the ids of what calls hold
)

// Budgets are what the calls of runs are counted against.
type Budgets interface {
	Budgeted(ctx context.Context, org string) (bool, error)
	Reserve(ctx context.Context, h budgetdb.Hold) (budgets int, lacking *budgetdb.Lacking, err error)
	Settle(ctx context.Context, held lease.Held, holdID string, used budgetdb.Amounts) error
}

// spending holds the calls of an attempt to the budgets that its run falls under.
type spending struct {
	budgets Budgets
	a       *attempt
	price   func(model string, used llm.Usage) int64 // nil: free
	wall    time.Duration                            // that code may run, at most
}

func (r *Runner) spending(a *attempt) *spending {
	return &spending{budgets: r.budgets, a: a, price: r.cfg.Price, wall: r.cfg.SandboxWall}
}

// reservation is what a call may use at most. Its hold has no id where no budget holds any of it.
type reservation struct {
	*spending
	hold budgetdb.Hold
}

func (r reservation) held() bool { return r.hold.ID != "" }

// reserve holds what a call may use at most. The reservation must be settled, unless there is an error, an *agentloop.Error; lacking is
// the budget that it is about, if it is about one.
func (s *spending) reserve(ctx context.Context, maximum budgetdb.Amounts) (reservation, *budgetdb.Lacking, error) {
	r := reservation{s, budgetdb.Hold{Held: s.a.claim.Held(), Amounts: maximum}}
	some, err := s.budgets.Budgeted(ctx, r.hold.OrganizationID)
	if err != nil {
		return r, nil, retryable(err)
	}
	if !some {
		return r, nil, nil
	}
	r.hold.ID = id.New(holdPrefix)
	budgets, lacking, err := s.budgets.Reserve(ctx, r.hold)
	for n := 0; n < roomTries && err == nil && lacking != nil && lacking.Later && ctx.Err() == nil; n++ {
		_ = lifecycle.Sleep(ctx, jitter(roomWait<<n))
		budgets, lacking, err = s.budgets.Reserve(ctx, r.hold)
	}
	switch {
	case err != nil:
		r.settle(ctx, budgetdb.Amounts{}) // it may have been made all the same
		return r, nil, retryable(err)
	case lacking != nil:
		e := budgetdb.UsedUp(lacking.Budget)
		return r, lacking, &agentloop.Error{Code: string(e.Code), Message: e.Detail, Retryable: lacking.Later}
	case budgets == 0:
		r.hold.ID = ""
	}
	return r, nil, nil
}

// settle writes what a call came to, also when its run has ended meanwhile. What cannot be written is the sweeper's, to whom all that was
// held counts as used.
func (r reservation) settle(ctx context.Context, used budgetdb.Amounts) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
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

// write ends the hold. Where there is none, budgets may have been made meanwhile.
func (r reservation) write(ctx context.Context, used budgetdb.Amounts) error {
	if !r.held() {
		some, err := r.budgets.Budgeted(ctx, r.hold.OrganizationID)
		if err != nil || !some || used == (budgetdb.Amounts{}) {
			return err
		}
	}
	return r.budgets.Settle(ctx, r.hold.Held, r.hold.ID, used)
}

// code reserves a call of codeExecution. done must be called with how long it took.
func (s *spending) code(ctx context.Context) (done func(took time.Duration), err error) {
	r, _, err := s.reserve(ctx, budgetdb.Amounts{Sandbox: s.wall})
	if err != nil {
		return nil, err
	}
	return func(took time.Duration) { r.settle(ctx, budgetdb.Amounts{Sandbox: min(took, s.wall)}) }, nil
}

// model makes a model whose calls are held to the budgets.
func (s *spending) model(m llm.Model) llm.Model { return &budgetedModel{Model: m, spending: s} }

type budgetedModel struct {
	llm.Model
	spending *spending
}

// Stream reserves the most that the call may use, which near a budget's end is less of an answer, makes it and settles what it has used.
func (m *budgetedModel) Stream(ctx context.Context, req llm.Request, emit func(llm.Delta)) (llm.Response, error) {
	r, err := m.reserve(ctx, &req)
	if err != nil {
		return llm.Response{}, err
	}
	res, err := m.Model.Stream(ctx, req, emit)
	r.settle(ctx, m.cameTo(&req, &res, err))
	return res, err
}

// reserve holds the call's worst case, with as long an answer as there is room for. Where a budget holds it, the answer is bounded.
func (m *budgetedModel) reserve(ctx context.Context, req *llm.Request) (reservation, error) {
	some, err := m.spending.budgets.Budgeted(ctx, m.spending.a.claim.OrganizationID)
	if err != nil {
		return reservation{}, retryable(err)
	}
	if !some {
		return reservation{m.spending, budgetdb.Hold{Held: m.spending.a.claim.Held()}}, nil
	}
	maximum := worst(req)
	for {
		r, lacking, err := m.spending.reserve(ctx, m.amounts(maximum))
		if lacking == nil || lacking.Later || maximum.OutputTokens/2 < leastAnswer {
			if r.held() {
				req.MaxTokens = maximum.OutputTokens
			}
			return r, err
		}
		maximum.OutputTokens /= 2
	}
}

// cameTo is what a call has used: what its provider says. Unless this is known to be nothing, it is all that the call may have used; of an
// answer of which only the text is known, at most a token for each byte.
func (m *budgetedModel) cameTo(req *llm.Request, res *llm.Response, failed error) budgetdb.Amounts {
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

func (m *budgetedModel) amounts(used llm.Usage) budgetdb.Amounts {
	a := budgetdb.Amounts{Tokens: max(used.InputTokens, 0) + max(used.OutputTokens, 0)}
	if m.spending.price != nil {
		a.CostMicros = max(m.spending.price(m.Model.Info().Name, used), 0)
	}
	return a
}

// worst is the most that a call can use of which the answer is bounded.
func worst(req *llm.Request) llm.Usage {
	answer := int64(budgetedAnswer)
	if req.MaxTokens > 0 {
		answer = min(answer, req.MaxTokens)
	}
	return llm.Usage{InputTokens: promptBound(req), OutputTokens: answer}
}

// promptBound is the most tokens that a prompt can be: no model makes more than one of a byte.
func promptBound(req *llm.Request) int64 {
	n := perPrompt + len(req.System)
	for _, t := range req.Tools {
		n += perMessage + len(t.Name) + len(t.Description) + len(t.Schema)
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
