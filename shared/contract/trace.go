package contract

import "context"

// traceparentKey is the context key of WithTraceparent.
type traceparentKey struct{}

// WithTraceparent returns a context under which requests to other processes belong to the given
// trace. If traceparent is empty, it returns ctx unchanged.
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
