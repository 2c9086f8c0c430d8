package tracing

import "context"

// Of is a request in a batch, together with the trace to which it belongs.
type Of[Q any] struct {
	Request     Q
	traceparent string
}

// For returns the request with the trace of ctx.
func For[Q any](ctx context.Context, request Q) Of[Q] { return Of[Q]{request, Traceparent(ctx)} }

// Batched wraps the function do, so that each batch is executed in a new span with the given name;
// see [Tracer.Batch]. The span fails if do returns an error.
func Batched[Q, A any](
	t *Tracer, name string, do func(context.Context, []Q) ([]A, error),
) func(context.Context, []Of[Q]) ([]A, error) {
	return func(ctx context.Context, batch []Of[Q]) ([]A, error) {
		// The requests may belong to several traces, but they are executed together.
		requests, traceparents := make([]Q, len(batch)), make([]string, len(batch))
		for i, b := range batch {
			requests[i], traceparents[i] = b.Request, b.traceparent
		}
		ctx, span := t.Batch(ctx, name, traceparents)
		defer span.End()
		span.Int("parley.batch.size", int64(len(batch)))
		answers, err := do(ctx, requests)
		if err != nil {
			span.Fail("failed")
		}
		return answers, err
	}
}
