package e2e

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	pb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"parley/scripts/internal/api"
	"parley/shared/testkit"
	"parley/shared/testkit/openaistub"
)

// traces is an OpenTelemetry collector.
type traces struct {
	url string

	mu    sync.Mutex
	spans []span
}

// span is an OpenTelemetry span, and the name of the service that sent it.
type span struct {
	*pb.Span

	service string
}

func newTraces(t *testing.T) *traces {
	t.Helper()
	c := &traces{}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	c.url = server.URL
	return c
}

// ServeHTTP receives spans over OTLP/HTTP.
func (c *traces) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	var got collector.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(raw, &got)
	}
	if err != nil || r.URL.Path != "/v1/traces" {
		http.Error(w, "no traces", http.StatusBadRequest)
		return
	}

	c.mu.Lock()
	defer c.mu.Unlock()

	for _, of := range got.GetResourceSpans() {
		service := attribute(of.GetResource().GetAttributes(), "service.name")
		for _, scoped := range of.GetScopeSpans() {
			for _, s := range scoped.GetSpans() {
				c.spans = append(c.spans, span{s, service})
			}
		}
	}

	w.Header().Set("Content-Type", "application/x-protobuf")
}

// of returns all spans received so far that belong to a trace.
func (c *traces) of(traceID string) (found []span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		if hex.EncodeToString(s.GetTraceId()) == traceID {
			found = append(found, s)
		}
	}
	return found
}

// with returns, as texts, the spans in which the given word occurs anywhere.
func (c *traces) with(word string) (found []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		if text := s.String(); strings.Contains(text, word) {
			found = append(found, text)
		}
	}
	return found
}

// attribute returns the value of an attribute as text, or "" if there is none.
func attribute(list []*common.KeyValue, key string) string {
	for _, kv := range list {
		if kv.GetKey() != key {
			continue
		}
		switch value := kv.GetValue().GetValue().(type) {
		case *common.AnyValue_IntValue:
			return fmt.Sprint(value.IntValue)
		case *common.AnyValue_ArrayValue:
			var texts []string
			for _, v := range value.ArrayValue.GetValues() {
				texts = append(texts, v.GetStringValue())
			}
			return strings.Join(texts, ",")
		default:
			return kv.GetValue().GetStringValue()
		}
	}
	return ""
}

// observedWorker starts a worker with the given roles, waits until its /readyz reports that it is
// ready, and returns its URL.
func (c *cluster) observedWorker(t *testing.T, roles string) (url string) {
	t.Helper()
	address := fmt.Sprintf("127.0.0.1:%d", testkit.FreePort(t))
	testkit.StartProcess(t, testkit.Command{
		Name: "worker", Path: testkit.BuildBinary(t, "workers/cmd/worker"),
		Env: c.environment([]string{"ROLES=" + roles, "METRICS_ADDR=" + address}), ReadyURL: "http://" + address + "/readyz",
	})
	return "http://" + address
}

// TestTelemetry executes a run that calls a tool, in three processes. It checks the run's trace and
// the metrics of all processes. The metrics that the dashboard and the alerts of deploy/grafana
// query must exist.
func TestTelemetry(t *testing.T) {
	t.Parallel()
	canary := "canary" + strings.ToLower(rand.Text())
	pages := newWeb(t)
	pages.put("tower", "/"+canary, "The tower", "text/html; charset=utf-8",
		article("en", "The tower", "The tower "+canary+" is 330 metres tall, about the same height as an 81-storey building."))
	sent := newTraces(t)
	c := newCluster(t, sandboxed, "OUTBOUND_ALLOW="+pages.host, "SEARXNG_URL="+pages.url,
		"OTEL_EXPORTER_OTLP_ENDPOINT="+sent.url, "OTEL_BSP_SCHEDULE_DELAY=100", "TRACE_AS_CALLERS_SAY=true")
	c.model.follow(searches(canary))
	in := c.ingress(t)
	shown := []string{in.url, c.observedWorker(t, "agent"), c.observedWorker(t, "tool,ingest,sweep,notify,voice")}
	owner := signUp(t, in.url).searcher(t, modelName)

	unwanted, wanted := rand.Text()[:8], rand.Text()[:8]
	for flag, id := range map[string]string{"00": traceFor(unwanted), "01": traceFor(wanted)} {
		api.Send(t.Context(), http.MethodPost, in.url+"/api/internal/run-automation", map[string]string{
			"x-api-key": owner.key, "traceparent": "00-" + id + "-1234567890abcdef-" + flag,
		}, map[string]any{"target": owner.agent, "input": map[string]any{"message": "How tall is " + canary + "?"}}).Want(t, http.StatusOK)
	}

	wantTrace(t, sent, traceFor(wanted))
	if got := sent.of(traceFor(unwanted)); len(got) > 0 {
		t.Errorf("an unsampled trace was sent: %v", got)
	}
	if found := sent.with(canary); len(found) > 0 {
		t.Errorf("a trace contains a message: %s", found)
	}

	wantMetrics(t, shown)
}

// traceFor returns a trace ID that is made from a word of eight characters.
func traceFor(word string) string { return hex.EncodeToString([]byte(word + word)) }

// searches returns the script of a model that calls the web search once and then answers.
func searches(word string) func(openaistub.Request) (openaistub.Reply, bool) {
	return func(req openaistub.Request) (openaistub.Reply, bool) {
		if req.Messages[len(req.Messages)-1].Role == "tool" {
			return openaistub.Reply{Text: word + " is 330 m tall [1]."}, true
		}
		arguments := `{"query":"tower ` + word + `"}`
		return openaistub.Reply{ToolCalls: []openaistub.ToolCall{{ID: "call_1", Name: "webSearch", Arguments: arguments}}}, true
	}
}

// wantTrace waits until a trace is complete. The trace must contain a span for each step, and the
// parent of each span must be the caller's span or another span of the trace.
func wantTrace(t *testing.T, sent *traces, id string) {
	t.Helper()
	steps := []string{
		"POST /api/internal/run-automation", "run.accept", "run.accept batch", "run.execute", "run.claim batch", "chat ledger",
		"execute_tool webSearch", "tool.call", "GET", "run.finish batch",
	}

	missing := ""
	defer func() {
		if t.Failed() {
			t.Logf("the trace has %q; it lacks %q", names(sent.of(id)), missing)
		}
	}()

	eventually(t, 20*time.Second, "the whole trace", func() bool {
		missing = missingSteps(sent.of(id), steps)
		return missing == ""
	})

	services := map[string]bool{}
	for _, s := range sent.of(id) {
		services[s.service] = true
		if s.GetStatus().GetCode() == pb.Status_STATUS_CODE_ERROR {
			t.Errorf("failed span: %v", s)
		}
		if s.GetName() == "chat ledger" {
			wantConventions(t, s)
		}
	}

	if !services["parley-ingress"] || !services["parley-worker"] {
		t.Errorf("services in the trace = %v", services)
	}
}

// missingSteps lists the steps without a span, and the spans whose parent is missing. It returns ""
// if the trace is complete.
func missingSteps(trace []span, steps []string) string {
	known := map[string]string{"1234567890abcdef": "the caller's"}
	for _, s := range trace {
		known[hex.EncodeToString(s.GetSpanId())] = s.GetName()
	}

	statements := map[string]bool{}
	for _, s := range trace {
		parent, found := known[hex.EncodeToString(s.GetParentSpanId())]
		if !found {
			return s.GetName() + "'s parent"
		}
		if attribute(s.GetAttributes(), "db.system.name") == "postgresql" {
			statements[parent] = true
		}
	}

	for _, step := range steps {
		if !slices.ContainsFunc(trace, func(s span) bool { return s.GetName() == step }) {
			return step
		}
	}

	for _, parent := range []string{"run.accept batch", "run.claim batch", "tool.call", "run.finish batch"} {
		if !statements[parent] {
			return "statements of " + parent
		}
	}
	return ""
}

func names(trace []span) (list []string) {
	for _, s := range trace {
		list = append(list, s.GetName())
	}
	return list
}

// wantConventions checks that the span of a model call follows OpenTelemetry's semantic
// conventions.
func wantConventions(t *testing.T, s span) {
	t.Helper()
	for key, want := range map[string]string{
		"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "ledger",
		"gen_ai.input.messages": "", "gen_ai.output.messages": "", "gen_ai.system_instructions": "",
	} {
		if got := attribute(s.GetAttributes(), key); got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}

	for _, key := range []string{"gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens", "gen_ai.response.finish_reasons", "gen_ai.response.model"} {
		if got := attribute(s.GetAttributes(), key); got == "" || got == "0" {
			t.Errorf("%s = %q", key, got)
		}
	}

	if s.GetKind() != pb.Span_SPAN_KIND_CLIENT {
		t.Errorf("kind of the span of a model call = %s, want a client", s.GetKind())
	}
}

var (
	metricName  = regexp.MustCompile(`\b(?:parley|process|go)_[a-z0-9_]+`)
	grouping    = regexp.MustCompile(`by \(([a-z_, ]+)\)`)
	selector    = regexp.MustCompile(`\{([^}]*)\}`)
	selectLabel = regexp.MustCompile(`([a-z_]+)\s*(?:=~|!~|!=|=)`)
	expression  = regexp.MustCompile(`(?m)^\s*"expr": "(.*)",?$|^\s*expr: (?:\|\n((?:          .*\n)+)|(.*)$)`)
	sample      = regexp.MustCompile(`(?m)^([a-z0-9_]+)(?:\{(.*)\})? \S+$`)
)

// wantMetrics waits for all metrics and labels that the dashboard or the alerts read.
func wantMetrics(t *testing.T, urls []string) {
	t.Helper()
	var asked []string
	for _, file := range []string{"parley.json", "alerts.yaml"} {
		raw, err := os.ReadFile(filepath.Join("..", "..", "deploy", "grafana", file))
		if err != nil {
			t.Fatal(err)
		}
		before := len(asked)
		for _, found := range expression.FindAllStringSubmatch(string(raw), -1) {
			asked = append(asked, strings.ReplaceAll(strings.Join(found[1:], ""), `\"`, `"`))
		}
		if len(asked)-before < 15 {
			t.Fatalf("%s has only %d expressions", file, len(asked)-before)
		}
	}

	lacking := []string{"all"}
	eventually(t, 20*time.Second, "all metrics of the sweepers exist", func() bool {
		lacking = missingFrom(shownBy(t, urls), asked)
		return !slices.ContainsFunc(lacking, func(name string) bool { return strings.Contains(name, "queue") || strings.Contains(name, "doorbells") })
	})
	if len(lacking) > 0 {
		t.Errorf("the dashboard or the alerts query missing metrics: %s", strings.Join(lacking, ", "))
	}
}

// shownBy returns the labels of each metric that the processes at the URLs export, by the metric's
// name.
func shownBy(t *testing.T, urls []string) map[string]string {
	t.Helper()
	shown := map[string]string{}
	for _, url := range urls {
		api.Send(t.Context(), http.MethodGet, url+"/healthz", nil, nil).Want(t, http.StatusOK)
		for _, s := range sample.FindAllStringSubmatch(string(api.Send(t.Context(), http.MethodGet, url+"/metrics", nil, nil).Want(t, http.StatusOK).Body), -1) {
			shown[s[1]] += "," + s[2]
		}
	}
	return shown
}

// missingFrom returns the metrics and labels that the expressions use, but that no process exports.
func missingFrom(shown map[string]string, expressions []string) (missing []string) {
	for _, e := range expressions {
		metrics := metricName.FindAllString(e, -1)
		var labels []string
		for _, found := range grouping.FindAllStringSubmatch(e, -1) {
			labels = append(labels, strings.Split(found[1], ", ")...)
		}
		for _, found := range selector.FindAllStringSubmatch(e, -1) {
			for _, label := range selectLabel.FindAllStringSubmatch(found[1], -1) {
				labels = append(labels, label[1])
			}
		}
		for _, metric := range metrics {
			if _, is := shown[metric]; !is {
				missing = append(missing, metric)
			}
		}
		for _, label := range labels {
			has := func(metric string) bool { return strings.Contains(shown[metric], label+`="`) }
			if label != "instance" && !slices.ContainsFunc(metrics, has) { // added by Prometheus
				missing = append(missing, e+" by "+label)
			}
		}
	}

	slices.Sort(missing)
	return slices.Compact(missing)
}
