package llm

import (
	"fmt"
	"strings"
)

// maxModelName bounds, in bytes, the model names agents may use.
const maxModelName = 200

// Provider makes models by the name that follows "provider/"; the empty name is the provider's plain one.
type Provider interface {
	Model(name string) (Model, error)
}

// Registry finds the model an agent names; safe for concurrent use once made.
type Registry struct {
	fallback  string
	providers map[string]Provider
	known     map[string]bool
}

// NewRegistry makes a registry over providers by name. fallback is the model of agents that name
// none, and must resolve; known lists providers that exist but may be absent here.
func NewRegistry(fallback string, providers map[string]Provider, known ...string) (*Registry, error) {
	r := &Registry{fallback: fallback, providers: providers, known: make(map[string]bool, len(known))}
	for _, name := range known {
		r.known[name] = true
	}
	if _, err := r.Resolve(fallback); err != nil {
		return nil, fmt.Errorf("resolving default model %q: %w", fallback, err)
	}
	return r, nil
}

// Default gives the full name of the model used by agents that name none.
func (r *Registry) Default() string { return r.fallback }

// Resolve finds a model by an agent's model string, "provider/model" or empty for the default.
// An unknown one is an *Error of KindUnknownModel, a provider not set up KindNotConfigured; neither is retryable.
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

// ResolveAll finds an agent's model and its fallbacks as one model, which tries them in that order. What does not
// exist here is passed over while another of them does; with none, the error is that of the first. Each of them is handed
// to the functions that are given, in their order, and taken as these give it back.
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
	if len(found) == 0 {
		return nil, first
	}
	return WithFallbacks(found[0], found[1:]...), nil
}

// UnknownModel is the error for a model name that means nothing here.
func UnknownModel(model string) *Error {
	e := NewUnused(KindUnknownModel, nil)
	e.Message = fmt.Sprintf("The model %q does not exist.", cut(model, maxModelName))
	return e
}
