package observed

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"parley/workers/internal/llm"
)

// one is a provider of models, and each of these models. The calls of the model "broken" fail.
type one struct{ name string }

// Model returns a model with the given name.
func (one) Model(name string) (llm.Model, error) { return one{name}, nil }

// Info returns the model's name.
func (o one) Info() llm.Info { return llm.Info{Name: "stub/" + o.name} }

// Stream returns a fixed answer, but fails for the model "broken".
func (o one) Stream(_ context.Context, _ llm.Request, emit func(llm.Delta)) (llm.Response, error) {
	if o.name == "broken" {
		return llm.Response{}, llm.NewError(llm.KindRateLimited, nil)
	}
	emit(llm.Delta{Text: "secret answer"})
	return llm.Response{
		Text: "secret answer", Model: "stub/" + o.name, StopReason: llm.StopToolCalls, Usage: llm.Usage{InputTokens: 30, OutputTokens: 4},
		ToolCalls: []llm.ToolCall{{ID: "call_1", Name: "look", Arguments: json.RawMessage(`{"for":"secret"}`)}},
	}, nil
}

// ask makes a call within a span, and returns the span that was recorded for the call.
func ask(t *testing.T, o *Observer, name string) sdk.ReadOnlySpan {
	t.Helper()
	recorder := tracetest.NewSpanRecorder()
	provider := sdk.NewTracerProvider(sdk.WithSpanProcessor(recorder))
	ctx, root := provider.Tracer("test").Start(t.Context(), "root")
	m, err := o.Provider("stub", one{}).Model(name)
	if err != nil || m.Info().Name != "stub/"+name {
		t.Fatalf("%v %v", m, err)
	}
	text := ""
	_, err = m.Stream(ctx, llm.Request{System: "secret prompt", MaxTokens: 9, Messages: []llm.Message{
		{Role: llm.RoleUser, Text: "secret question"}, {Role: llm.RoleTool, Result: &llm.ToolResult{CallID: "c", Output: json.RawMessage(`"secret result"`)}},
	}}, func(d llm.Delta) { text += d.Text })
	if failed := name == "broken"; failed != (err != nil) || failed != (text == "") {
		t.Fatalf("%q %v", text, err)
	}
	root.End()
	return recorder.Ended()[0]
}

// attributes returns the attributes of a span, encoded as JSON.
func attributes(t *testing.T, span sdk.ReadOnlySpan) string {
	t.Helper()
	values := map[string]any{}
	for _, kv := range span.Attributes() {
		values[string(kv.Key)] = kv.Value.AsInterface()
	}
	raw, err := json.Marshal(values)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestCallsAreCountedAndTraced(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	o, err := New(registry, false)
	if err != nil {
		t.Fatal(err)
	}
	span := ask(t, o, "good")
	want := `{"gen_ai.operation.name":"chat","gen_ai.provider.name":"stub","gen_ai.request.max_tokens":9,"gen_ai.request.model":"good",` +
		`"gen_ai.response.finish_reasons":["tool_call"],"gen_ai.response.model":"stub/good","gen_ai.usage.input_tokens":30,"gen_ai.usage.output_tokens":4}`
	if got := attributes(t, span); span.Name() != "chat good" || got != want {
		t.Errorf("%s: %s\nwant %s", span.Name(), got, want)
	}
	failed := ask(t, o, "broken")
	if status := failed.Status(); status.Description != "rate_limited" || !strings.Contains(attributes(t, failed), `"error.type":"rate_limited"`) {
		t.Errorf("a failed call is traced as %v", failed)
	}
	for labels, n := range map[[2]string]float64{{"stub", "completed"}: 1, {"stub", "rate_limited"}: 1} {
		if got := testutil.ToFloat64(o.calls.WithLabelValues(labels[0], labels[1])); got != n {
			t.Errorf("%v: %v calls", labels, got)
		}
	}
	if in, out := testutil.ToFloat64(o.tokens.WithLabelValues("stub", "input")), testutil.ToFloat64(o.tokens.WithLabelValues("stub", "output")); in != 30 || out != 4 {
		t.Errorf("%v tokens in, %v out", in, out)
	}
	if _, err := New(registry, false); err == nil {
		t.Error("registered twice")
	}
}

// TestContentIsTracedOnRequest checks the attributes that are added if prompts and answers are
// traced.
func TestContentIsTracedOnRequest(t *testing.T) {
	t.Parallel()
	o, err := New(prometheus.NewRegistry(), true)
	if err != nil {
		t.Fatal(err)
	}
	got := attributes(t, ask(t, o, "good"))
	for _, want := range []string{"secret prompt", "secret question", "secret result", "secret answer", `\"tool_call_response\"`, `\"finish_reason\":\"tool_call\"`} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is not in %s", want, got)
		}
	}
}
