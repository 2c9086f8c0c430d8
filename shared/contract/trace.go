package contract

import "context"

type traceparentKey struct{}

// WithTraceparent has what is asked of other processes under ctx be part of a trace; "" changes nothing.
func WithTraceparent(ctx context.Context, traceparent string) context.Context {
	if traceparent == "" {
		return ctx
	}
	return context.WithValue(ctx, traceparentKey{}, traceparent)
}

// Traceparent is the W3C traceparent of what is asked under ctx; "" for none.
func Traceparent(ctx context.Context) string {
	traceparent, _ := ctx.Value(traceparentKey{}).(string)
	return traceparent
}
