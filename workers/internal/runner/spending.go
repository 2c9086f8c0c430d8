package runner

import (
	"context"
	"errors"
	"time"

	"parley/shared/id"
	"parley/shared/store"
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
	Reserve(ctx context.Context, h store.Hold) (*store.Lacking, error)
	Settle(ctx context.Context, org, holdID string, used store.Amounts) error
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

// reserve holds what a call may use at most. settle must be called then, with what it has used, or with what it may have. It is nil when
// there is nothing to settle. An error is an *agentloop.Error; lacking is the budget that it is about, if it is about one.
func (s *spending) reserve(ctx context.Context, most store.Amounts) (settle func(store.Amounts), lacking *store.Lacking, err error) {
	org := s.a.claim.OrganizationID
	some, err := s.budgets.Budgeted(ctx, org)
	if err != nil {
		return nil, nil, retryable(err)
	}
	if !some {
		return func(store.Amounts) {}, nil, nil
	}
	hold := store.Hold{ID: id.New(holdPrefix), Held: s.a.claim.Held(), Amounts: most}
	lacking, err = s.budgets.Reserve(ctx, hold)
	for n := 0; n < roomTries && err == nil && lacking != nil && lacking.Later && ctx.Err() == nil; n++ {
		sleep(ctx, jitter(roomWait<<n))
		lacking, err = s.budgets.Reserve(ctx, hold)
	}
	switch {
	case err != nil:
		s.settle(ctx, hold, store.Amounts{}) // it may have been made all the same
		return nil, nil, retryable(err)
	case lacking != nil:
		e := store.UsedUp(lacking.Budget)
		return nil, lacking, &agentloop.Error{Code: string(e.Code), Message: e.Detail, Retryable: lacking.Later}
	}
	return func(used store.Amounts) { s.settle(ctx, hold, used) }, nil, nil
}

// settle writes what a call came to, also when its run has ended meanwhile. What cannot be written is the sweeper's, to whom all that was
// held counts as used.
func (s *spending) settle(ctx context.Context, hold store.Hold, used store.Amounts) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	for n := 1; ; n++ {
		err := s.budgets.Settle(ctx, hold.OrganizationID, hold.ID, used)
		if err == nil {
			return
		}
		if sleep(ctx, backoff(n)/10); ctx.Err() != nil {
			s.a.log.Warn().Err(err).Msg("what a call used cannot be written; all that it might have counts as used")
			return
		}
	}
}

// code reserves a call of codeExecution. done must be called with how long it took.
func (s *spending) code(ctx context.Context) (done func(took time.Duration), err error) {
	settle, _, err := s.reserve(ctx, store.Amounts{Sandbox: s.wall})
	if err != nil {
		return nil, err
	}
	return func(took time.Duration) { settle(store.Amounts{Sandbox: min(took, s.wall)}) }, nil
}

// model makes a model whose calls are held to the budgets.
func (s *spending) model(m llm.Model) llm.Model { return &budgetedModel{Model: m, spending: s} }

type budgetedModel struct {
	llm.Model
	spending *spending
}

// Stream reserves the most that the call may use, which near a budget's end is less of an answer, makes it and settles what it has used.
func (m *budgetedModel) Stream(ctx context.Context, req llm.Request, emit func(llm.Delta)) (llm.Response, error) {
	some, err := m.spending.budgets.Budgeted(ctx, m.spending.a.claim.OrganizationID)
	if err != nil {
		return llm.Response{}, retryable(err)
	}
	if !some {
		return m.Model.Stream(ctx, req, emit)
	}
	settle, most, err := m.reserve(ctx, &req)
	if err != nil {
		return llm.Response{}, err
	}
	emitted := false
	res, err := m.Model.Stream(ctx, req, func(d llm.Delta) {
		emitted = true
		emit(d)
	})
	switch {
	case err == nil:
		settle(m.amounts(res.Usage))
	case !emitted && unanswered(err):
		settle(store.Amounts{})
	default: // how much of an answer was made, nobody says
		settle(most)
	}
	return res, err
}

// reserve holds the call's worst case, with as long an answer as there is room for, and bounds the request's answer by it.
func (m *budgetedModel) reserve(ctx context.Context, req *llm.Request) (settle func(store.Amounts), most store.Amounts, err error) {
	input, answer := promptBound(req), int64(budgetedAnswer)
	if req.MaxTokens > 0 {
		answer = min(answer, req.MaxTokens)
	}
	for {
		var lacking *store.Lacking
		most = m.amounts(llm.Usage{InputTokens: input, OutputTokens: answer})
		settle, lacking, err = m.spending.reserve(ctx, most)
		if lacking == nil || lacking.Later || answer/2 < leastAnswer {
			req.MaxTokens = answer
			return settle, most, err
		}
		answer /= 2
	}
}

func (m *budgetedModel) amounts(used llm.Usage) store.Amounts {
	a := store.Amounts{Tokens: max(used.InputTokens, 0) + max(used.OutputTokens, 0)}
	if m.spending.price != nil {
		a.CostMicros = max(m.spending.price(m.Model.Info().Name, used), 0)
	}
	return a
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

// unanswered reports whether a model's failure says that it made no answer, which nobody pays for.
func unanswered(err error) bool {
	var e *llm.Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Kind {
	case llm.KindRateLimited, llm.KindUnavailable, llm.KindInvalid, llm.KindAuth, llm.KindQuota, llm.KindContextLength,
		llm.KindUnknownModel, llm.KindNotConfigured:
		return true
	case llm.KindTimeout, llm.KindTruncated, llm.KindBadResponse, llm.KindTooLarge, llm.KindFiltered:
	}
	return false
}
