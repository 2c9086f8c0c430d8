package tracing

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"parley/shared/config"
)

const (
	// name of the instrumentation scope in spans
	scope = "parley"
	// URL path of a collector that receives traces over HTTP
	tracesPath = "/v1/traces"
	// time limit of sending the remaining spans
	closeTime = 5 * time.Second
)

// Tracer begins the spans of work that enters a process. A nil or zero Tracer sends no spans and
// has no cost. A Tracer is safe for concurrent use.
type Tracer struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer

	callersDecide bool
}

// Open returns the tracer of a process. The argument service is the name of the process. Without an
// endpoint, the tracer sends no spans. The collector may be unreachable: spans that it does not
// accept are dropped, and the error is logged. The standard OTEL_ environment variables apply,
// except for the endpoint. Close sends the remaining spans.
func Open(ctx context.Context, cfg config.Telemetry, service string, log zerolog.Logger) (*Tracer, error) {
	if cfg.OTLPEndpoint == "" {
		return &Tracer{}, nil
	}

	if err := config.Invalid(cfg.Check()); err != nil {
		return nil, err
	}

	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn().Err(err).Msg("cannot send traces") }))
	exporter, err := newExporter(ctx, cfg.OTLPEndpoint)
	if err != nil {
		return nil, fmt.Errorf("setting up traces: %w", err)
	}

	serviceResource, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", service), attribute.String("service.instance.id", rand.Text())),
		resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("setting up traces: %w", err)
	}

	// Pass the limits explicitly, so that they also apply to libraries that use the provider.
	limits := sdk.NewSpanLimits()
	limits.EventCountLimit = 0 // libraries put error texts into events, and these texts may contain secrets
	provider := sdk.NewTracerProvider(sdk.WithBatcher(exporter), sdk.WithResource(serviceResource), sdk.WithRawSpanLimits(limits))
	return &Tracer{provider: provider, tracer: provider.Tracer(scope), callersDecide: cfg.CallersDecide}, nil
}

// newExporter returns an exporter for the protocol in the standard OTEL_ variables. The default is
// OTLP over HTTP.
func newExporter(ctx context.Context, endpoint string) (*otlptrace.Exporter, error) {
	const variable = "OTEL_EXPORTER_OTLP_PROTOCOL"
	switch protocol := cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"), os.Getenv(variable)); protocol {
	case "", "http/protobuf":
		return otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(strings.TrimRight(endpoint, "/")+tracesPath))
	case "grpc":
		return otlptracegrpc.New(ctx, otlptracegrpc.WithEndpointURL(endpoint))
	default:
		return nil, fmt.Errorf("%s must be http/protobuf or grpc, not %q", variable, protocol)
	}
}

// Close sends the remaining spans. It may take up to closeTime, even if ctx has ended.
func (t *Tracer) Close(ctx context.Context) {
	if !t.On() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil {
		otel.Handle(err)
	}
}

// On reports whether traces are sent.
func (t *Tracer) On() bool { return t != nil && t.tracer != nil }

// Provider returns the tracer provider for instrumented libraries.
func (t *Tracer) Provider() trace.TracerProvider {
	if !t.On() {
		return noop.NewTracerProvider()
	}
	return t.provider
}

// Root begins the span of work that entered this process with a traceparent, which may be empty.
func (t *Tracer) Root(ctx context.Context, kind Kind, name, traceparent string) (context.Context, Span) {
	if !t.On() {
		return ctx, Span{}
	}
	return t.begin(ctx, kind, name, parse(traceparent), nil)
}

// Batch begins the span of one operation for several requests. The span is a child in the first
// sampled trace, with links to the other traces. If no trace is sampled, it returns no span.
func (t *Tracer) Batch(ctx context.Context, name string, traceparents []string) (context.Context, Span) {
	if !t.On() {
		return ctx, Span{}
	}

	// A span has one parent, so the other traces can only be linked.
	var parent trace.SpanContext
	var links []trace.Link
	for _, traceparent := range traceparents {
		member := parse(traceparent)
		switch {
		case !member.IsSampled():
		case !parent.IsValid():
			parent = member
		default:
			links = append(links, trace.Link{SpanContext: member})
		}
	}

	if !parent.IsValid() {
		return ctx, Span{}
	}

	return t.begin(ctx, Internal, name, parent, links)
}

// begin starts a span under a parent, or a new trace if the parent is invalid. The caller ends the
// span.
func (t *Tracer) begin(ctx context.Context, kind Kind, name string, parent trace.SpanContext, links []trace.Link) (context.Context, Span) {
	options := []trace.SpanStartOption{trace.WithSpanKind(kind), trace.WithLinks(links...)}
	// The parent is in another process.
	if parent.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, parent)
	} else {
		options = append(options, trace.WithNewRoot())
	}
	ctx, span := t.tracer.Start(ctx, name, options...) //nolint:spancheck // the caller ends it
	return ctx, Span{span}                             //nolint:spancheck // as above
}

// Child begins a child of the span in ctx. If ctx has no sampled span, Child returns ctx unchanged
// and a zero Span. The span's name is operation, followed by object if that is not empty.
func Child(ctx context.Context, kind Kind, operation, object string) (context.Context, Span) {
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		return ctx, Span{}
	}
	if object != "" {
		operation += " " + object
	}
	//nolint:spancheck // the caller ends it
	ctx, span := parent.TracerProvider().Tracer(scope).Start(ctx, operation, trace.WithSpanKind(kind))
	return ctx, Span{span} //nolint:spancheck // as above
}

// Propagator encodes and decodes the trace context between processes.
var Propagator propagation.TraceContext

// Traceparent returns the W3C traceparent of the span in ctx, or "".
func Traceparent(ctx context.Context) string {
	at := trace.SpanContextFromContext(ctx)
	if !at.IsValid() {
		return ""
	}
	carrier := propagation.MapCarrier{}
	Propagator.Inject(ctx, carrier)
	return carrier["traceparent"]
}

// parse parses a traceparent. If it is invalid, parse returns an invalid span context.
func parse(traceparent string) trace.SpanContext {
	if traceparent == "" {
		return trace.SpanContext{}
	}
	ctx := Propagator.Extract(context.Background(), propagation.MapCarrier{"traceparent": traceparent})
	return trace.SpanContextFromContext(ctx)
}
