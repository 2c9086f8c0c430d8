package tracing

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/propagation"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	pb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"parley/shared/config"
)

const (
	wanted1  = "00-11111111111111111111111111111111-1111111111111111-01"
	wanted2  = "00-22222222222222222222222222222222-2222222222222222-01"
	unwanted = "00-33333333333333333333333333333333-3333333333333333-00"
)

// receiver is an OTLP collector.
type receiver struct {
	collector.UnimplementedTraceServiceServer

	mu    sync.Mutex
	spans []*pb.Span
}

// ServeHTTP receives spans over HTTP.
func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	raw, err := io.ReadAll(req.Body)
	var got collector.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(raw, &got)
	}
	if err != nil || req.URL.Path != "/v1/traces" {
		http.Error(w, "no traces", http.StatusBadRequest)
		return
	}
	r.take(&got)
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// Export receives spans over gRPC.
func (r *receiver) Export(_ context.Context, got *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	r.take(got)
	return &collector.ExportTraceServiceResponse{}, nil
}

func (r *receiver) take(got *collector.ExportTraceServiceRequest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, of := range got.GetResourceSpans() {
		for _, scoped := range of.GetScopeSpans() {
			r.spans = append(r.spans, scoped.GetSpans()...)
		}
	}
}

// open returns a tracer, and a function that closes the tracer and returns the tracer's spans by
// name.
func open(t *testing.T) (*Tracer, func() map[string]*pb.Span) {
	t.Helper()
	r := &receiver{}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	tracer, err := Open(t.Context(), config.Telemetry{OTLPEndpoint: server.URL}, "test", zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	return tracer, func() map[string]*pb.Span {
		tracer.Close(t.Context())
		r.mu.Lock()
		defer r.mu.Unlock()
		byName := map[string]*pb.Span{}
		for _, s := range r.spans {
			byName[s.GetName()] = s
		}
		return byName
	}
}

// TestGRPCCollectors sends a span to a collector that supports only gRPC.
func TestGRPCCollectors(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &receiver{}
	server := grpc.NewServer()
	collector.RegisterTraceServiceServer(server, r)
	go func() { _ = server.Serve(listener) }() // serves until Stop is called
	t.Cleanup(server.Stop)
	tracer, err := Open(t.Context(), config.Telemetry{OTLPEndpoint: "http://" + listener.Addr().String()}, "test", zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	_, span := tracer.Root(t.Context(), Server, "over gRPC", "")
	span.End()
	tracer.Close(t.Context())
	if len(r.spans) != 1 || r.spans[0].GetName() != "over gRPC" {
		t.Errorf("got %v", r.spans)
	}

	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")
	_, err = Open(t.Context(), config.Telemetry{OTLPEndpoint: "http://127.0.0.1:1"}, "test", zerolog.Nop())
	if err == nil || !strings.Contains(err.Error(), "OTEL_EXPORTER_OTLP_PROTOCOL") {
		t.Errorf("an unknown protocol: %v", err)
	}
}

// TestSpansAreConnected follows a trace from a traceparent through a root span to a child span, to
// another process and into a batch.
func TestSpansAreConnected(t *testing.T) {
	t.Parallel()
	tracer, closed := open(t)
	ctx, root := tracer.Root(t.Context(), Server, "root", wanted1)
	childCtx, child := Child(ctx, Client, "child", "of root")
	child.Str("empty", "")
	child.Str("said", "word")
	child.Fail("code")
	_, elsewhere := tracer.Root(t.Context(), Consumer, "elsewhere", Traceparent(childCtx))
	batch := Batched(tracer, "batch", func(ctx context.Context, requests []int) ([]int, error) {
		_, inner := Child(ctx, Internal, "inner", "")
		inner.End()
		return requests, errors.New("no")
	})
	other, first := tracer.Root(t.Context(), Server, "other", wanted2)
	none, unseen := tracer.Root(t.Context(), Server, "unwanted", unwanted)
	if _, err := batch(t.Context(), []Of[int]{For(none, 1), For(childCtx, 2), For(other, 3), For(t.Context(), 4)}); err == nil {
		t.Fatal("the batch's error is gone")
	}
	for _, span := range []Span{unseen, first, elsewhere, child, root} {
		span.End()
	}
	spans := closed()
	if spans["unwanted"] != nil || len(spans) != 6 {
		t.Fatalf("want six spans and not the unwanted one: %v", spans)
	}
	for name, parent := range map[string]string{"child of root": "root", "elsewhere": "child of root", "batch": "child of root", "inner": "batch"} {
		if got, want := spans[name], spans[parent]; string(got.GetParentSpanId()) != string(want.GetSpanId()) ||
			string(got.GetTraceId()) != string(want.GetTraceId()) {
			t.Errorf("%s is not beneath %s: %v", name, parent, got)
		}
	}
	if links := spans["batch"].GetLinks(); len(links) != 1 || string(links[0].GetSpanId()) != string(spans["other"].GetSpanId()) {
		t.Errorf("the batch is not linked to the other trace alone: %v", links)
	}
	failed := spans["child of root"]
	if failed.GetStatus().GetCode() != pb.Status_STATUS_CODE_ERROR || len(failed.GetAttributes()) != 2 || len(spans["batch"].GetEvents()) != 0 {
		t.Errorf("want a failed span with a word and a code: %v", failed)
	}
}

// TestCallersMayNameTheirTrace checks that a caller's traceparent determines the trace, and also
// the sampling if the operator allows it.
func TestCallersMayNameTheirTrace(t *testing.T) {
	t.Parallel()
	all, none := sdk.ParentBased(sdk.AlwaysSample()), sdk.ParentBased(sdk.NeverSample())
	for _, c := range []struct {
		sampler       sdk.Sampler
		callersDecide bool
		traceparent   string
		sampled       bool
	}{
		{all, false, wanted1, true},
		{all, false, unwanted, true},
		{all, false, "", true},
		{none, false, wanted1, false},
		{none, false, unwanted, false},
		{none, false, "", false},
		{none, true, wanted1, true},
		{all, true, unwanted, false},
	} {
		provider := sdk.NewTracerProvider(sdk.WithSampler(c.sampler))
		tracer := &Tracer{provider: provider, tracer: provider.Tracer(scope), callersDecide: c.callersDecide}
		ctx := tracer.Outside().Extract(t.Context(), propagation.MapCarrier{"traceparent": c.traceparent})
		ctx, span := provider.Tracer("a library").Start(ctx, "request")
		at := span.SpanContext()
		if at.IsSampled() != c.sampled || c.traceparent != "" && at.TraceID() != parse(c.traceparent).TraceID() {
			t.Errorf("%+v: the request is %s", c, Traceparent(ctx))
		}
		span.End()
	}
}

// TestDisabledTracingCostsNothing checks that a tracer without a collector leaves contexts
// unchanged and does not allocate memory.
func TestDisabledTracingCostsNothing(t *testing.T) { //nolint:paralleltest // AllocsPerRun also counts the allocations of other tests
	tracer, err := Open(t.Context(), config.Telemetry{}, "test", zerolog.Nop())
	if err != nil || tracer.On() {
		t.Fatalf("a tracer without an endpoint is on: %v", err)
	}
	ctx := t.Context()
	for _, off := range []*Tracer{tracer, nil} {
		paid := testing.AllocsPerRun(100, func() {
			at, span := off.Root(ctx, Server, "root", wanted1)
			at, child := Child(at, Client, "child", "of root")
			child.Str("said", "word")
			child.Int("number", 1)
			child.Fail("code")
			child.End()
			span.End()
			if at != ctx || Traceparent(at) != "" || span.On() {
				t.Error("there is a span")
			}
		})
		if paid != 0 {
			t.Errorf("%v allocations", paid)
		}
		if off.Close(ctx); off.Provider() == nil {
			t.Error("no provider")
		}
	}
	if same, err := tracer.Connector(nil); same != nil || err != nil {
		t.Errorf("the connector was changed: %v", err)
	}
	if _, err := Open(ctx, config.Telemetry{OTLPEndpoint: "collector:4318"}, "test", zerolog.Nop()); err == nil {
		t.Error("an endpoint without a scheme is accepted")
	}
}

func TestStatementsAreNamed(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]string{
		"SELECT run_id, created_at\nFROM accept_runs($1, $2)":             "SELECT accept_runs",
		"SELECT count_backlogs($1)":                                       "SELECT count_backlogs",
		"SELECT 1":                                                        "SELECT",
		"update runs SET message = $1 WHERE id = $2":                      "UPDATE runs",
		"INSERT INTO steps (run_id) VALUES ($1)":                          "INSERT steps",
		"DELETE FROM collecting WHERE closes_at <= clock_timestamp()":     "DELETE collecting",
		"WITH mine AS (SELECT id FROM runs) UPDATE open_runs SET fence=1": "WITH runs",
		"SET LOCAL parley.organizations = 'org_secret'":                   "SET",
		"SELECT 'secret' FROM (SELECT 1) x":                               "SELECT",
		"  ":                                                              "conn.begin_tx",
	} {
		if got := statement("sql.conn.begin_tx", query); got != want {
			t.Errorf("%q is named %q, want %q", query, got, want)
		}
	}
}

// TestRequestsAreTracedWithoutTheirSecrets checks the data that an outbound request adds to a
// trace, and that no trace context is sent with the request.
func TestRequestsAreTracedWithoutTheirSecrets(t *testing.T) {
	t.Parallel()
	var headers http.Header
	callerPropagator := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		headers = req.Header.Clone()
		w.WriteHeader(http.StatusTeapot)
	}))
	defer callerPropagator.Close()
	tracer, closed := open(t)
	client := &http.Client{Transport: Transport(callerPropagator.Client().Transport)}
	defer client.CloseIdleConnections()
	ctx, root := tracer.Root(t.Context(), Server, "root", "")
	for _, address := range []string{callerPropagator.URL + "/secret?key=secret", "http://127.0.0.1:1/secret"} {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := client.Do(req)
		if err == nil {
			_ = res.Body.Close()
		}
	}
	root.End()
	if names := slices.Collect(maps.Keys(headers)); slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, "Trace") }) {
		t.Errorf("the trace leaves the service: %v", headers)
	}
	span := closed()["GET"]
	if span == nil || span.GetKind() != pb.Span_SPAN_KIND_CLIENT || span.GetStatus().GetCode() != pb.Status_STATUS_CODE_ERROR {
		t.Fatalf("want a failed client's span: %v", span)
	}
	if strings.Contains(span.String(), "secret") {
		t.Errorf("a secret is in the trace: %v", span)
	}
}
