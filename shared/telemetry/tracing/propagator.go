package tracing

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Outside returns the propagator for requests of callers. A request joins the trace that its caller
// names. The caller's decision about sampling is used only if the operator allows it. Otherwise the
// trace is sampled with the probability of a new trace, so that no caller can force or suppress
// tracing.
func (t *Tracer) Outside() propagation.TextMapPropagator {
	if !t.On() || t.callersDecide {
		return Propagator
	}
	return callerPropagator{Propagator, t}
}

// callerPropagator accepts a caller's trace id but not the caller's decision about sampling.
type callerPropagator struct {
	propagation.TraceContext

	tracer *Tracer
}

// Extract reads a traceparent. It samples the trace with the same probability as a new trace.
func (o callerPropagator) Extract(ctx context.Context, carrier propagation.TextMapCarrier) context.Context {
	ctx = o.TraceContext.Extract(ctx, carrier)
	named := trace.SpanContextFromContext(ctx)
	if !named.IsValid() {
		return ctx
	}

	// Starting a span makes the sampler decide.
	sampledCtx, _ := o.tracer.begin(ctx, Internal, "", trace.SpanContext{}, nil) // the span is never ended, so it is not sent
	wanted := trace.SpanContextFromContext(sampledCtx).IsSampled()
	return trace.ContextWithRemoteSpanContext(ctx, named.WithTraceFlags(named.TraceFlags().WithSampled(wanted)))
}
