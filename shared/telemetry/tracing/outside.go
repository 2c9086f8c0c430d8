package tracing

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Outside reads what comes with requests from outside: callers name the trace that theirs is to be part of. Whether it is wanted they
// decide only where the operator lets them; else it is as if they had named none, or anybody could have everything traced, or nothing.
func (t *Tracer) Outside() propagation.TextMapPropagator {
	if !t.On() || t.callersDecide {
		return Propagator
	}
	return outside{Propagator, t}
}

type outside struct {
	propagation.TraceContext

	tracer *Tracer
}

// Extract reads a traceparent. What is not sampled by a trace of its own is not beneath a caller's either.
func (o outside) Extract(ctx context.Context, carrier propagation.TextMapCarrier) context.Context {
	ctx = o.TraceContext.Extract(ctx, carrier)
	named := trace.SpanContextFromContext(ctx)
	if !named.IsValid() {
		return ctx
	}
	drawn, _ := o.tracer.begin(ctx, Internal, "", trace.SpanContext{}, nil) // it never ends: of such none is sent
	wanted := trace.SpanContextFromContext(drawn).IsSampled()
	return trace.ContextWithRemoteSpanContext(ctx, named.WithTraceFlags(named.TraceFlags().WithSampled(wanted)))
}
