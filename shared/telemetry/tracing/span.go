package tracing

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// Kind is the kind of a span.
type Kind = trace.SpanKind

// The kinds of spans.
const (
	Internal = trace.SpanKindInternal
	Server   = trace.SpanKindServer
	Client   = trace.SpanKindClient
	Producer = trace.SpanKindProducer
	Consumer = trace.SpanKindConsumer
)

// Span is a piece of work in a trace. The methods of the zero value do nothing.
type Span struct{ span trace.Span }

// Current returns the span in ctx, so that a caller can add attributes to it later.
func Current(ctx context.Context) Span {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return Span{}
	}
	return Span{span}
}

// On reports whether the span is recorded. Callers need not compute expensive attributes of a span
// that is not recorded.
func (s Span) On() bool { return s.span != nil }

// Str sets a string attribute, unless value is empty.
func (s Span) Str(key, value string) {
	if s.span != nil && value != "" {
		s.span.SetAttributes(attribute.String(key, value))
	}
}

// Strs sets a string list attribute.
func (s Span) Strs(key string, values ...string) {
	if s.span != nil {
		s.span.SetAttributes(attribute.StringSlice(key, values))
	}
}

// Int sets an integer attribute.
func (s Span) Int(key string, value int64) {
	if s.span != nil {
		s.span.SetAttributes(attribute.Int64(key, value))
	}
}

// Float sets a number attribute, unless value is nil.
func (s Span) Float(key string, value *float64) {
	if s.span != nil && value != nil {
		s.span.SetAttributes(attribute.Float64(key, *value))
	}
}

// Fail marks the span as failed with a code. The code must not be an error's text.
func (s Span) Fail(code string) {
	if s.span != nil {
		// The code is also set as an attribute, because queries usually select spans by attributes.
		s.span.SetStatus(codes.Error, code)
		s.span.SetAttributes(attribute.String("error.type", code))
	}
}

// End ends the span.
func (s Span) End() {
	if s.span != nil {
		s.span.End()
	}
}
