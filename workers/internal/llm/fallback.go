package llm

import (
	"context"
	"errors"
	"fmt"
)

// fallbacks is a model that consists of several models, which it tries in order.
type fallbacks struct{ models []Model }

// WithFallbacks returns a model that calls the model first, and then the other models in order,
// until one of them answers. It tries the next model if a provider fails, limits the rate of
// requests, rejects the service's credentials, or does not have the model. Once a model has emitted
// text, no other model is tried. Info describes the first model. Response.Model is the name of the
// model that answered.
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
			return Response{}, fmt.Errorf("calling models in turn: %w", ctx.Err())
		}

		// After a model has emitted text, try no other model, because the answer of the other model
		// would not continue that text.
		var e *Error
		if !errors.As(err, &e) || emitted || !tryNext(e.Kind, i > 0) {
			return Response{}, err
		}

		failed = preferred(failed, e)
	}
	return Response{}, failed
}

// tryNext reports whether to try the next model after a failure of the given kind. standIn is true
// if the failed model is a fallback. If the first model rejects the request as too long or invalid,
// no other model is tried, because the caller can change the request. If a fallback rejects the
// request for such a reason, the next fallback is tried.
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

// preferred returns whichever of two failures is to be reported. A retryable failure takes
// precedence. If both are retryable, the failure with the shorter delay takes precedence.
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
