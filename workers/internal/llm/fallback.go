package llm

import (
	"context"
	"errors"
	"fmt"
)

// fallbacks is a model with others that stand in for it.
type fallbacks struct{ models []Model }

// WithFallbacks makes a model that asks the next one when one cannot answer: its provider fails, limits, refuses the
// service's credentials, or does not know it. It does so only while nothing of the answer was emitted. Info is the
// first one's; Response.Model names who answered.
func WithFallbacks(first Model, others ...Model) Model {
	if len(others) == 0 {
		return first
	}
	return &fallbacks{models: append([]Model{first}, others...)}
}

// Info describes the first model.
func (f *fallbacks) Info() Info { return f.models[0].Info() }

// Stream asks the models in turn; see [Model].
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
		var e *Error
		if !errors.As(err, &e) || emitted || !passesOn(e.Kind, i > 0) {
			return Response{}, err
		}
		failed = worthMore(failed, e)
	}
	return Response{}, failed
}

// passesOn reports whether another model may answer after a failure of this kind. What is wrong with the prompt is the
// first model's to say, since the caller can shorten it for that one; a stand-in that it does not suit is passed over.
func passesOn(kind Kind, standIn bool) bool {
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

// worthMore picks the failure to report of two: one that time may cure, and of two such the one that may pass sooner.
func worthMore(a, b *Error) *Error {
	switch {
	case a == nil, b.Retryable && !a.Retryable:
		return b
	case a.Retryable && b.Retryable && b.RetryAfter < a.RetryAfter:
		return b
	default:
		return a
	}
}
