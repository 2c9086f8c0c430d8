package openai_test

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"parley/shared/domain"
	"parley/shared/testkit/openaistub"
	"parley/workers/internal/llm"
	"parley/workers/internal/llm/llmtest"
	"parley/workers/internal/llm/openai"
)

// model returns a model of the server at an address; "" is OpenAI's own service.
func model(t *testing.T, address, name string) llm.Model {
	t.Helper()
	p, err := openai.New(openai.Config{APIKey: "sk-leak", BaseURL: address})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	m, err := p.Model(name)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestWire checks the form in which the server receives requests.
func TestWire(t *testing.T) {
	t.Parallel()
	stub := openaistub.New()
	stub.RequireKey("sk-leak")
	req := llmtest.Request()
	req.Messages[2].Result.Sources = []domain.Citation{{ID: 1, Title: "T", CitedText: "x"}}
	req.MaxTokens = 77
	req.Tools = []llm.ToolSpec{
		{Name: "webSearch", Description: "searches", Schema: json.RawMessage(`{"type":"object","properties":{"n":{"maximum":9007199254740993}}}`)},
		{Name: "now"},
	}
	server := httptest.NewServer(stub)
	t.Cleanup(server.Close)
	if _, err := model(t, server.URL+"/v1", "gpt-5-mini").Stream(t.Context(), req, func(llm.Delta) {}); err != nil {
		t.Fatal(err)
	}
	got := stub.Requests()[0]
	if got.Model != "gpt-5-mini" || !got.Stream || !slices.Equal(got.Tools, []string{"webSearch", "now"}) || got.Header["Accept-Encoding"] == "" {
		t.Errorf("got %s %v %v %v", got.Model, got.Stream, got.Tools, got.Header)
	}
	body := string(got.Body)
	for _, want := range []string{
		`"stream_options":{"include_usage":true}`, `"max_tokens":77`, `"maximum":9007199254740993`, `"description":"searches"`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s in %s", want, body)
		}
	}
	var roles []string
	for _, m := range got.Messages {
		roles = append(roles, m.Role)
	}
	if strings.Join(roles, ",") != "system,user,assistant,tool,tool,assistant,user" {
		t.Errorf("roles %v", roles)
	}
	calls, result, last := got.Messages[2].ToolCalls, got.Messages[3], got.Messages[6]
	if len(calls) != 2 || calls[0].ID != "c1" || calls[0].Arguments != `{"query":"tower height"}` || calls[1].Arguments != "{}" {
		t.Errorf("calls %+v", calls)
	}
	if result.ToolCallID != "c1" || !strings.HasPrefix(result.Content, `{"untrusted":true,"tool":"webSearch","output":"330 m","sources":[{"id":1`) {
		t.Errorf("result %+v", result)
	}
	if !strings.HasPrefix(last.Content, "Thank you. And in feet?\n\n") || !strings.HasSuffix(last.Content, `{"unit":"feet"}`) {
		t.Errorf("last %q", last.Content)
	}
}

func TestContextTokens(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int{"gpt-4o-mini": 128_000, "meta-llama/Llama-3.3-70B": 32_000, "gpt-5-mini": 400_000} {
		if got := model(t, "", name).Info(); got != (llm.Info{Name: "openai/" + name, ContextTokens: size}) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// Consecutive calls use the same connection, even if the end of a response arrives separately.
func TestCallsShareAConnection(t *testing.T) {
	t.Parallel()
	var connections atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, `data: {"choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
		_ = http.NewResponseController(w).Flush()
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	m := model(t, server.URL, "gpt-5-mini")
	for range 20 {
		if res, err := m.Stream(t.Context(), llmtest.Request(), func(llm.Delta) {}); err != nil || res.Text != "hi" {
			t.Fatalf("answered %q, %v", res.Text, err)
		}
	}
	if n := connections.Load(); n != 1 {
		t.Errorf("20 calls opened %d connections", n)
	}
}
