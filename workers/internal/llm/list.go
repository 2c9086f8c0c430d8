package llm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"parley/shared/domain"
)

// maxListed is the maximum number of models of one provider in a list.
const maxListed = 300

// Lister lists a provider's models by their names at the provider. The empty name means the
// provider's default model.
type Lister interface {
	Models(ctx context.Context) ([]string, error)
}

// WithListers sets the providers whose models List returns, and returns the registry. The keys of
// listers are the providers' names.
func (r *Registry) WithListers(listers map[string]Lister) *Registry {
	r.listers = listers
	return r
}

// List returns the default model and the models of all providers, sorted by provider and name. If a
// provider fails to list its models, these models are missing, and List also returns an error.
func (r *Registry) List(ctx context.Context) (domain.ModelList, error) {
	var mu sync.Mutex
	var wait sync.WaitGroup
	var failed error
	found := []string{r.fallback}
	for provider, lister := range r.listers {
		wait.Go(func() {
			names, err := lister.Models(ctx)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed = errors.Join(failed, fmt.Errorf("listing the models of %s: %w", provider, err))
				return
			}
			found = append(found, modelStrings(provider, names)...)
		})
	}
	wait.Wait()

	slices.SortFunc(found, cmp.Compare)
	return domain.ModelList{Default: r.fallback, Models: slices.Compact(found)}, failed
}

// modelStrings returns a provider's models as the model strings that agents use.
func modelStrings(provider string, names []string) (all []string) {
	for _, name := range names[:min(len(names), maxListed)] {
		switch full := provider + "/" + name; {
		case name == "":
			all = append(all, provider)
		case len(full) <= maxModelName:
			all = append(all, full)
		}
	}
	return all
}
