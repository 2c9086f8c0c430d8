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
	scope      = "parley"
	tracesPath = "/v1/traces"
	closeTime  = 5 * time.Second
)

// Tracer begins the spans of work that enters a process. Nil and the zero value send nothing, and cost nothing. It is safe for
// concurrent use.
type Tracer struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer

	callersDecide bool
}

// Open makes the tracer of a process, which is called service. Without an endpoint it is one that sends nothing. The collector need
// not be there: what it does not take is dropped, and the log says so. Besides the endpoint, the standard OTEL_ variables of the
// environment hold. Close sends what is left.
func Open(ctx context.Context, cfg config.Telemetry, service string, log zerolog.Logger) (*Tracer, error) {
	if cfg.OTLPEndpoint == "" {
		return &Tracer{}, nil
	}
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn().Err(err).Msg("cannot send traces") }))
	exporter, err := newExporter(ctx, cfg.OTLPEndpoint)
	if err != nil {
		return nil, fmt.Errorf("setting up traces: %w", err)
	}
	about, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", service), attribute.String("service.instance.id", rand.Text())),
		resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("setting up traces: %w", err)
	}
	limits := sdk.NewSpanLimits()
	limits.EventCountLimit = 0 // libraries put the texts of errors there, which may quote anything
	provider := sdk.NewTracerProvider(sdk.WithBatcher(exporter), sdk.WithResource(about), sdk.WithRawSpanLimits(limits))
	return &Tracer{provider: provider, tracer: provider.Tracer(scope), callersDecide: cfg.CallersDecide}, nil
}

// newExporter makes the exporter of the protocol that the standard variables name. The default is OTLP over HTTP.
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

// Close sends what is left, for a moment also when ctx has ended: the process does, whether the collector is there or not.
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

// On reports whether traces are sent at all.
func (t *Tracer) On() bool { return t != nil && t.tracer != nil }

// Provider is what instrumented libraries make their spans with.
func (t *Tracer) Provider() trace.TracerProvider {
	if !t.On() {
		return noop.NewTracerProvider()
	}
	return t.provider
}

// Root begins the span of work that came to this process under a traceparent, or under none.
func (t *Tracer) Root(ctx context.Context, kind Kind, name, traceparent string) (context.Context, Span) {
	if !t.On() {
		return ctx, Span{}
	}
	return t.begin(ctx, kind, name, parse(traceparent), nil)
}

// Batch begins the span of what is done at once for several: a child of the first whose trace is wanted, linked to the
// others. Without any it begins none.
func (t *Tracer) Batch(ctx context.Context, name string, traceparents []string) (context.Context, Span) {
	if !t.On() {
		return ctx, Span{}
	}
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

func (t *Tracer) begin(ctx context.Context, kind Kind, name string, parent trace.SpanContext, links []trace.Link) (context.Context, Span) {
	options := []trace.SpanStartOption{trace.WithSpanKind(kind), trace.WithLinks(links...)}
	if parent.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, parent)
	} else {
		options = append(options, trace.WithNewRoot())
	}
	ctx, span := t.tracer.Start(ctx, name, options...) //nolint:spancheck // whoever asked for it ends it
	return ctx, Span{span}                             //nolint:spancheck // as above
}

// Child begins a span beneath the one that ctx carries. Where that is none, or not wanted, it gives ctx as it is.
// The name is the operation with what it is done to, if that is said.
func Child(ctx context.Context, kind Kind, operation, object string) (context.Context, Span) {
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		return ctx, Span{}
	}
	if object != "" {
		operation += " " + object
	}
	//nolint:spancheck // whoever asked for it ends it
	ctx, span := parent.TracerProvider().Tracer(scope).Start(ctx, operation, trace.WithSpanKind(kind))
	return ctx, Span{span} //nolint:spancheck // as above
}

// Propagator reads and writes what travels between processes.
var Propagator propagation.TraceContext

// Traceparent is the W3C traceparent of the span that ctx carries, "" without one.
func Traceparent(ctx context.Context) string {
	at := trace.SpanContextFromContext(ctx)
	if !at.IsValid() {
		return ""
	}
	carrier := propagation.MapCarrier{}
	Propagator.Inject(ctx, carrier)
	return carrier["traceparent"]
}

// parse reads a traceparent; what is none gives an invalid context.
func parse(traceparent string) trace.SpanContext {
	if traceparent == "" {
		return trace.SpanContext{}
	}
	ctx := Propagator.Extract(context.Background(), propagation.MapCarrier{"traceparent": traceparent})
	return trace.SpanContextFromContext(ctx)
}
