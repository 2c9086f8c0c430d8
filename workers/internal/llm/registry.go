package llm

import (
	"fmt"
	"strings"

	"parley/shared/truncate"
)

// maxModelName is the maximum length of a model's name in bytes.
const maxModelName = 200

// Provider returns the models of one provider. name is the part of a model string that follows
// "provider/". The empty name means the provider's default model.
type Provider interface {
	Model(name string) (Model, error)
}

// Registry resolves the model strings of agents to models. It is safe for concurrent use.
type Registry struct {
	fallback  string
	providers map[string]Provider
	// known also contains the names of providers that are not configured. Resolve returns a
	// separate error for models of these providers.
	known   map[string]bool
	listers map[string]Lister
}

// NewRegistry returns a registry of the given providers, whose keys are their names. fallback is
// the model string for agents without a model, and must resolve. known contains the names of all
// existing providers, including those that are not configured.
func NewRegistry(fallback string, providers map[string]Provider, known ...string) (*Registry, error) {
	r := &Registry{fallback: fallback, providers: providers, known: make(map[string]bool, len(known))}
	for _, name := range known {
		r.known[name] = true
	}
	if _, err := r.Resolve(fallback); err != nil {
		return nil, fmt.Errorf("resolving DEFAULT_MODEL %q: %w", fallback, err)
	}
	return r, nil
}

// Default returns the model string for agents without a model.
func (r *Registry) Default() string { return r.fallback }

// Resolve returns the model for an agent's model string, which has the form "provider/model" or is
// "" for the default. If the provider is not configured, it returns an *Error of KindNotConfigured.
// If the model is unknown, it returns an *Error of KindUnknownModel. Neither is retryable.
func (r *Registry) Resolve(model string) (Model, error) {
	if model == "" {
		model = r.fallback
	}
	if len(model) > maxModelName {
		return nil, NewUnused(KindUnknownModel, nil)
	}

	provider, name, _ := strings.Cut(model, "/")
	p, ok := r.providers[provider]
	switch {
	case ok:
		return p.Model(name)
	case r.known[provider]:
		e := NewUnused(KindNotConfigured, nil)
		e.Message = fmt.Sprintf("The model provider %q is not configured on this service.", provider)
		return nil, e
	default:
		return nil, UnknownModel(model)
	}
}

// ResolveAll returns an agent's model and its fallbacks as a single model, which tries them in
// order. It skips models that do not resolve. If none of them resolves, it returns the first error.
// ResolveAll applies the functions in wrap, in order, to each model.
func (r *Registry) ResolveAll(model string, fallbacks []string, wrap ...func(Model) Model) (Model, error) {
	var first error
	var found []Model
	seen := map[string]bool{}
	for _, name := range append([]string{model}, fallbacks...) {
		m, err := r.Resolve(name)
		switch {
		case err != nil && first == nil:
			first = err
		case err == nil && !seen[m.Info().Name]:
			seen[m.Info().Name] = true
			for _, f := range wrap {
				m = f(m)
			}
			found = append(found, m)
		}
	}

	// A fallback may replace a first model that does not resolve, so return an error only if no
	// model resolves.
	if len(found) == 0 {
		return nil, first
	}
	return WithFallbacks(found[0], found[1:]...), nil
}

// UnknownModel returns the error for the name of an unknown model.
func UnknownModel(model string) *Error {
	e := NewUnused(KindUnknownModel, nil)
	e.Message = fmt.Sprintf("The model %q does not exist.", truncate.Bytes(model, maxModelName))
	return e
}
