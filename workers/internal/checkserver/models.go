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
	modelTime   = 20 * time.Second // time limit for probing one model; long, because some servers must load the model first
	modelTokens = 16               // maximum number of output tokens of a probe; some providers reject a smaller maximum
)

// errBudget means that the amounts could not be reserved because of an error, so no call was made.
var errBudget = errors.New("cannot reserve the cost of the calls in the budgets")

// Models finds models by name.
type Models interface {
	Resolve(name string) (llm.Model, error)
	Default() string // name of the model for agents that configure none
}

// Price returns the cost of a model's usage in millionths of the currency unit.
type Price func(model string, used llm.Usage) int64

// NewModels creates a server that checks an agent's model and its fallback models. It calls each
// model with a few tokens. The calls are charged to the organization's budgets and are part of its
// usage. If a budget does not have enough left for all calls, no call is made.
func NewModels(models Models, budgets charge.Budgets, price Price, deps Deps) *Server {
	check := func(ctx context.Context, a Agent) (contract.CheckReply, error) {
		calls := newModelCalls(models, price, a)

		// The calls cost money, so their maximum amounts are reserved in the budgets, as for the
		// calls of a run.
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
		account.Charge(ctx, charged, reported)
		return contract.CheckReply{Checks: checks}, nil
	}
	return &Server{kind: contract.KindCheckModels, check: check, deps: deps, log: deps.Log}
}

// modelCall is a small call that checks a model. It keeps the usage of the call, from which the
// charge is computed afterwards.
type modelCall struct {
	name    string
	of      string    // the organization of the agent
	model   llm.Model // nil if the model does not exist
	unknown error     // reason why the model does not exist
	price   Price

	charged, reported llm.Usage // after the call: the usage that is charged, and the usage that the model has reported
}

// modelCalls contains the calls of one check.
type modelCalls []*modelCall

// newModelCalls returns one call for each model of the agent: first its model or the default model,
// then its fallback models.
func newModelCalls(models Models, price Price, a Agent) (calls modelCalls) {
	for _, name := range append([]string{cmp.Or(a.Config.Model, models.Default())}, a.Config.FallbackModels...) {
		c := &modelCall{name: name, of: a.OrganizationID, price: price}
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

// maximum returns the maximum amounts that all calls together may consume.
func (m modelCalls) maximum() (all budgetdb.Amounts) {
	for _, c := range m {
		// A model that does not exist is not called, so nothing is reserved for it.
		if req := question(); c.unknown == nil {
			all = c.add(all, llm.MaxUsage(&req))
		}
	}
	return all
}

// used returns the amounts to be charged for the calls, and the usage that the models have
// reported.
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
	// Token budgets count input tokens and output tokens equally.
	to.Tokens += used.InputTokens + used.OutputTokens
	to.CostMicros += c.price(c.model.Info().Name, used)
	return to
}

// question returns the request that a probe sends to a model. It is the same for every model, and
// its maximum usage is reserved in advance.
func question() llm.Request {
	return llm.Request{
		System:    "This is a connection test. Answer with the single word OK.",
		Messages:  []llm.Message{{Role: llm.RoleUser, Text: "Answer with OK."}},
		MaxTokens: modelTokens,
	}
}

// ask calls the model and returns a short description of its response. It discards the text of the
// response: any answer shows that the model is available.
func (c *modelCall) ask(ctx context.Context) (string, error) {
	if c.unknown != nil {
		return "", c.unknown
	}
	req := question()
	req.Organization = c.of
	c.charged = llm.MaxUsage(&req) // applies if the call panics
	res, err := c.model.Stream(ctx, req, func(llm.Delta) {})
	c.charged = llm.ChargedUsage(&req, &res, err)
	if err != nil {
		return "", err
	}
	c.reported = res.Usage
	return fmt.Sprintf("answered; %d input and %d output tokens", res.Usage.InputTokens, res.Usage.OutputTokens), nil
}
