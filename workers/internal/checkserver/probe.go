package checkserver

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"parley/shared/domain"
	"parley/shared/outbound"
	"parley/shared/truncate"
	"parley/workers/internal/llm"
	"parley/workers/internal/tool"
)

const (
	maxDetail   = 500 // characters
	maxParallel = 16  // probes of a check at the same time
)

// errPanic replaces a panic of a probe.
var errPanic = errors.New("the probe panicked")

// probe tries one connection. Several endpoints at one host share a probe, so it may have several
// names, each of which gets the result.
type probe struct {
	kind  domain.CheckKind
	names []string
	time  time.Duration // time limit
	// try returns the result in words. An error that is neither a *tool.Error nor an
	// *outbound.Error nor an *llm.Error is internal.
	try func(ctx context.Context) (string, error)
}

// runProbes runs probes and returns their results in order. It returns when ctx ends at the latest.
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
		// Each name gets its own entry, because callers look for their endpoint.
		for _, name := range p.names {
			result := results[i]
			result.Kind, result.Name = p.kind, name
			checks = append(checks, result)
		}
	}
	return checks
}

// run runs one probe within its time limit.
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

// guarded converts a panic into an error, because the process also executes other work.
func (p probe) guarded(ctx context.Context) (detail string, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			log := zerolog.Ctx(ctx).Error().Str("panic", fmt.Sprintf("%T", cause)) // the panic's text may contain secrets
			log.Bytes("stack", debug.Stack()).Msg("check panicked")
			err = errPanic
		}
	}()
	return p.try(ctx)
}

// reason returns the public reason why a probe failed.
func (p probe) reason(ctx context.Context, err error) string {
	var (
		toolErr *tool.Error
		hostErr *outbound.Error
		llmErr  *llm.Error
	)
	switch {
	// The time limit is the cause, whatever error it produced.
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Sprintf("No result within %s.", p.time)
	case errors.As(err, &toolErr):
		return toolErr.Message
	case errors.As(err, &hostErr):
		return hostErr.Message
	case errors.As(err, &llmErr):
		return llmErr.Error()
	}
	zerolog.Ctx(ctx).Warn().Err(err).Str("kind", string(p.kind)).Msg("check failed inside the service")
	return "The check failed inside the service."
}
