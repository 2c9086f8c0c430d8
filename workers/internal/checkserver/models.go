package checkserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/store/budgetdb"
	"parley/workers/internal/charge"
	"parley/workers/internal/llm"
)

const (
	modelTime   = 20 * time.Second // time limit of a probe of a model: some servers must load the model first
	modelTokens = 16               // maximum output of a probe; providers accept no lower limit
)

// errBudget marks a failed reservation, after which no call is made.
var errBudget = errors.New("cannot reserve the calls in the budgets")

// Models finds models.
type Models interface {
	Resolve(name string) (llm.Model, error)
	Default() string // the model of agents without one
}

// Price returns the cost of a model's usage, in millionths of the currency.
type Price func(model string, used llm.Usage) int64

// NewModels creates the server that checks an agent's model and its fallback models, with a call of
// a few tokens for each. The calls are charged to the organization's budgets and are part of its
// usage. If a budget has no room for all of them, no call is made.
func NewModels(models Models, budgets charge.Budgets, price Price, deps Deps) *Server {
	check := func(ctx context.Context, a Agent) (contract.CheckReply, error) {
		calls := newModelCalls(models, price, a)

		// The calls cost money, so they are reserved in the budgets like the calls of a run.
		account := charge.New(budgets, budgetdb.Call{
			OrganizationID: a.OrganizationID, AgentID: a.ID, KeyID: a.KeyID, StartedAt: time.Now(),
		})
		lacking, err := account.Reserve(ctx, calls.maximum())
		switch {
		case err != nil:
			return contract.CheckReply{}, fmt.Errorf("%w: %w", errBudget, err)
		case lacking != nil:
			return contract.CheckReply{Lacking: &lacking.Budget, Later: lacking.Later}, nil
		}
		checks := runProbes(ctx, calls.probes())
		charged, reported := calls.used()
		account.Settle(ctx, charged, reported)
		return contract.CheckReply{Checks: checks}, nil
	}
	return &Server{kind: contract.KindCheckModels, check: check, deps: deps, log: deps.Log}
}

// modelCall is a small call to a model.
type modelCall struct {
	name    string
	model   llm.Model // nil: there is no such model
	unknown error     // the reason
	price   Price

	charged, reported llm.Usage // after the call
}

// modelCalls are the calls of one check.
type modelCalls []*modelCall

// newModelCalls returns a call for each of the agent's models.
func newModelCalls(models Models, price Price, a Agent) (calls modelCalls) {
	for _, name := range append([]string{cmp.Or(a.Config.Model, models.Default())}, a.Config.FallbackModels...) {
		c := &modelCall{name: name, price: price}
		c.model, c.unknown = models.Resolve(name)
		calls = append(calls, c)
	}
	return calls
}

// probes returns the probes that make the calls.
func (m modelCalls) probes() (all []probe) {
	for _, c := range m {
		all = append(all, probe{kind: domain.CheckModel, names: []string{c.name}, time: modelTime, try: c.ask})
	}
	return all
}

// maximum returns the maximum amounts that the calls together may use.
func (m modelCalls) maximum() (all budgetdb.Amounts) {
	for _, c := range m {
		// A model that does not exist is not called.
		if req := question(); c.unknown == nil {
			all = c.add(all, llm.MaxUsage(&req))
		}
	}
	return all
}

// used returns the amounts to charge for the calls, and the usage that the models have reported.
func (m modelCalls) used() (charged budgetdb.Amounts, reported budgetdb.CallUsage) {
	for _, c := range m {
		if c.unknown == nil {
			charged = c.add(charged, c.charged)
			reported.InputTokens += c.reported.InputTokens
			reported.OutputTokens += c.reported.OutputTokens
			reported.CostMicros += c.price(c.model.Info().Name, c.reported)
		}
	}
	return charged, reported
}

// add adds the call's usage to amounts.
func (c *modelCall) add(to budgetdb.Amounts, used llm.Usage) budgetdb.Amounts {
	// Input and output count equally in a budget of tokens.
	to.Tokens += used.InputTokens + used.OutputTokens
	to.CostMicros += c.price(c.model.Info().Name, used)
	return to
}

// question returns the request of a probe.
func question() llm.Request {
	return llm.Request{
		System:    "This is a connection test. Answer with the single word OK.",
		Messages:  []llm.Message{{Role: llm.RoleUser, Text: "Answer with OK."}},
		MaxTokens: modelTokens,
	}
}

// ask makes the call and returns the result in words.
func (c *modelCall) ask(ctx context.Context) (string, error) {
	if c.unknown != nil {
		return "", c.unknown
	}
	req := question()
	c.charged = llm.MaxUsage(&req) // stays if the call panics
	res, err := c.model.Stream(ctx, req, func(llm.Delta) {})
	c.charged = llm.ChargedUsage(&req, &res, err)
	if err != nil {
		return "", err
	}
	c.reported = res.Usage
	return fmt.Sprintf("answered; %d input and %d output tokens", res.Usage.InputTokens, res.Usage.OutputTokens), nil
}
