package checkserver

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"parley/shared/contain"
	"parley/shared/domain"
	"parley/shared/outbound"
	"parley/shared/truncate"
	"parley/workers/internal/llm"
	"parley/workers/internal/tool"
)

const (
	maxDetail   = 500 // maximum length of a result in characters
	maxParallel = 16  // maximum number of probes of a check that run simultaneously
)

// probe tries one connection. Endpoints of an agent with the same origin share a probe. Such a
// probe has the names of all these endpoints, and its result is reported for each name.
type probe struct {
	kind  domain.CheckKind
	names []string
	time  time.Duration // time limit
	// try tries the connection and returns a short description of the result. An error is internal
	// unless it is a *tool.Error, an *outbound.Error or an *llm.Error.
	try func(ctx context.Context) (string, error)
}

// runProbes runs probes and returns their results in the same order. It returns at the latest when
// ctx ends, if the probes obey their contexts. A probe that has not started by then fails.
func runProbes(ctx context.Context, probes []probe) []domain.Check {
	results := make([]domain.Check, len(probes))
	free := make(chan struct{}, maxParallel)
	var wait sync.WaitGroup
	for i, p := range probes {
		wait.Go(func() {
			select {
			case free <- struct{}{}:
				defer func() { <-free }()
				results[i] = p.run(ctx)
			case <-ctx.Done():
				results[i] = domain.Check{Detail: "Not checked: the other checks took too long."}
			}
		})
	}
	wait.Wait()

	var checks []domain.Check
	for i, p := range probes {
		// Each name gets a result of its own, because callers look up endpoints by name.
		for _, name := range p.names {
			result := results[i]
			result.Kind, result.Name = p.kind, name
			checks = append(checks, result)
		}
	}
	return checks
}

// run runs one probe within its time limit. The result has no kind and no name; the caller adds
// them.
func (p probe) run(ctx context.Context) domain.Check {
	ctx, cancel := context.WithTimeout(ctx, p.time)
	defer cancel()
	began := time.Now()
	detail, err := p.guarded(ctx)
	took := time.Since(began)
	if err != nil {
		detail = p.reason(ctx, err)
	}
	return domain.Check{OK: err == nil, Detail: truncate.Ellipsis(detail, maxDetail), DurationMS: took.Milliseconds()}
}

// guarded calls the function try and converts a panic to an error.
func (p probe) guarded(ctx context.Context) (detail string, err error) {
	defer contain.Panic(&err, zerolog.Ctx(ctx), "check panicked")
	return p.try(ctx)
}

// reason returns the reason why a probe failed. It contains no details that callers must not see:
// the cause of an internal error is only logged.
func (p probe) reason(ctx context.Context, err error) string {
	var (
		toolErr *tool.Error
		hostErr *outbound.Error
		llmErr  *llm.Error
	)
	switch {
	// If the time limit has passed, report only the timeout, because it is the cause of any other
	// error.
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Sprintf("The check returned no result within %s.", p.time)
	case errors.As(err, &toolErr):
		return toolErr.Message
	case errors.As(err, &hostErr):
		return hostErr.Message
	case errors.As(err, &llmErr):
		return llmErr.Error()
	}
	zerolog.Ctx(ctx).Warn().Err(err).Str("kind", string(p.kind)).Msg("check failed because of an internal error")
	return "The check failed because of an internal error of the service."
}
