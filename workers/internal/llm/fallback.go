package llm

import (
	"context"
	"errors"
	"fmt"
)

// fallbacks is a model with fallback models.
type fallbacks struct{ models []Model }

// WithFallbacks returns a model that calls first, and then the others in order until one answers.
// It tries the next model if a provider fails, limits requests, rejects the service's credentials,
// or does not have the model. After text was emitted, it tries no other model. Info describes the
// first model. Response.Model names the model that answered.
func WithFallbacks(first Model, others ...Model) Model {
	if len(others) == 0 {
		return first
	}
	return &fallbacks{models: append([]Model{first}, others...)}
}

// Info describes the first model.
func (f *fallbacks) Info() Info { return f.models[0].Info() }

// Stream tries the models in order; see [Model].
func (f *fallbacks) Stream(ctx context.Context, req Request, emit func(Delta)) (Response, error) {
	var failed *Error
	for i, m := range f.models {
		emitted := false
		res, err := m.Stream(ctx, req, func(d Delta) {
			emitted = true
			emit(d)
		})
		if err == nil {
			return res, nil
		}
		if ctx.Err() != nil {
			return Response{}, fmt.Errorf("asking models in turn: %w", ctx.Err())
		}

		// After text was emitted, another model's answer would begin in the middle of this one.
		var e *Error
		if !errors.As(err, &e) || emitted || !tryNext(e.Kind, i > 0) {
			return Response{}, err
		}

		failed = preferred(failed, e)
	}
	return Response{}, failed
}

// tryNext reports whether the next model should be tried after a failure of this kind. standIn
// reports that a fallback failed. If the first model rejects the prompt, no other model is tried,
// because the caller can shorten the prompt. If a fallback rejects it, the next one is tried.
func tryNext(kind Kind, standIn bool) bool {
	switch kind {
	case KindRateLimited, KindUnavailable, KindTimeout, KindTruncated, KindBadResponse,
		KindAuth, KindQuota, KindUnknownModel, KindNotConfigured:
		return true
	case KindContextLength, KindInvalid:
		return standIn
	default:
		return false
	}
}

// preferred returns the failure to report: a retryable failure if there is one, and of two
// retryable failures the one with the shorter delay.
func preferred(a, b *Error) *Error {
	switch {
	case a == nil, b.Retryable && !a.Retryable:
		return b
	case a.Retryable && b.Retryable && b.RetryAfter < a.RetryAfter:
		return b
	default:
		return a
	}
}
