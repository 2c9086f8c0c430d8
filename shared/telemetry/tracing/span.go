package tracing

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// Kind says how a span stands to others.
type Kind = trace.SpanKind

// The kinds of spans.
const (
	Internal = trace.SpanKindInternal
	Server   = trace.SpanKindServer
	Client   = trace.SpanKindClient
	Producer = trace.SpanKindProducer
	Consumer = trace.SpanKindConsumer
)

// Span is a piece of work in a trace. The zero value is one that nobody wants: all its methods do nothing.
type Span struct{ span trace.Span }

// Current is the span that ctx carries, for what belongs to it and is known only later.
func Current(ctx context.Context) Span {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return Span{}
	}
	return Span{span}
}

// On reports whether the span is recorded, for whoever has to work for what it would say.
func (s Span) On() bool { return s.span != nil }

// Str notes a text that is not empty.
func (s Span) Str(key, value string) {
	if s.span != nil && value != "" {
		s.span.SetAttributes(attribute.String(key, value))
	}
}

// Strs notes texts.
func (s Span) Strs(key string, values ...string) {
	if s.span != nil {
		s.span.SetAttributes(attribute.StringSlice(key, values))
	}
}

// Int notes a number.
func (s Span) Int(key string, value int64) {
	if s.span != nil {
		s.span.SetAttributes(attribute.Int64(key, value))
	}
}

// Fail marks the span as failed, with a code that says of what kind: never with an error's text.
func (s Span) Fail(code string) {
	if s.span != nil {
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
