package checkserver

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"parley/shared/contract"
	"parley/shared/domain"
	"parley/workers/internal/llm"
)

const (
	modelTime   = 20 * time.Second // time limit of a probe of a model: some servers must load the model first
	modelTokens = 16               // maximum output of a probe; providers accept no lower limit
)

// Models finds models.
type Models interface {
	Resolve(name string) (llm.Model, error)
	Default() string // the model of agents without one
}

// NewModels creates the server that checks an agent's model and its fallback models, with a call of
// a few tokens for each.
func NewModels(models Models, deps Deps) *Server {
	probes := func(a Agent) (all []probe) {
		for _, name := range append([]string{cmp.Or(a.Config.Model, models.Default())}, a.Config.FallbackModels...) {
			all = append(all, probe{kind: domain.CheckModel, names: []string{name}, time: modelTime, try: func(ctx context.Context) (string, error) {
				return ask(ctx, models, name)
			}})
		}
		return all
	}
	return &Server{kind: contract.KindCheckModels, probes: probes, deps: deps, log: deps.Log}
}

// ask makes a small call to a model and returns the result in words.
func ask(ctx context.Context, models Models, name string) (string, error) {
	model, err := models.Resolve(name)
	if err != nil {
		return "", err
	}
	res, err := model.Stream(ctx, llm.Request{
		System:    "This is a connection test. Answer with the single word OK.",
		Messages:  []llm.Message{{Role: llm.RoleUser, Text: "Answer with OK."}},
		MaxTokens: modelTokens,
	}, func(llm.Delta) {})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("answered; %d input and %d output tokens", res.Usage.InputTokens, res.Usage.OutputTokens), nil
}
