package contract

import "context"

// traceparentKey is the context key of WithTraceparent.
type traceparentKey struct{}

// WithTraceparent sets the trace of requests to other processes under ctx. An empty traceparent
// leaves the context unchanged.
func WithTraceparent(ctx context.Context, traceparent string) context.Context {
	if traceparent == "" {
		return ctx
	}
	return context.WithValue(ctx, traceparentKey{}, traceparent)
}

// Traceparent returns the W3C traceparent set by WithTraceparent, or "".
func Traceparent(ctx context.Context) string {
	traceparent, _ := ctx.Value(traceparentKey{}).(string)
	return traceparent
}
