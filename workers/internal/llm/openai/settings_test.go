package openai_test

import (
	"net/http/httptest"
	"testing"

	"parley/shared/domain"
	"parley/shared/testkit/openaistub"
	"parley/workers/internal/llm"
	"parley/workers/internal/llm/llmtest"
)

// The server receives the settings under the names that its protocol defines.
func TestSettingsOnTheWire(t *testing.T) {
	t.Parallel()
	names := []string{"temperature", "top_p", "reasoning_effort", "seed", "stop", "parallel_tool_calls", "max_tokens", "max_completion_tokens"}
	for _, c := range []struct {
		name string
		req  func(*llm.Request)
		want string
	}{
		{"none", func(*llm.Request) {}, `{}`},
		{"all", func(r *llm.Request) {
			r.MaxTokens = 9
			r.Settings = domain.ModelSettings{
				Temperature: new(0.0), TopP: new(0.5), ReasoningEffort: new("xhigh"), Seed: new(int64(9007199254740991)), Stop: []string{"a", "\n"},
				ParallelToolCalls: new(false), MaxOutputTokens: new(int64(9)),
			}
		}, `{"max_tokens":9,"parallel_tool_calls":false,"reasoning_effort":"xhigh","seed":9007199254740991,"stop":["a","\n"],"temperature":0,"top_p":0.5}`},
		{"the default of parallel calls", func(r *llm.Request) { r.Settings.ParallelToolCalls = new(true) }, `{}`},
		{"no tools", func(r *llm.Request) { r.Settings.ParallelToolCalls, r.Tools = new(false), nil }, `{}`},
	} {
		stub := openaistub.New()
		server := httptest.NewServer(stub)
		t.Cleanup(server.Close)
		req := llmtest.Request()
		req.Tools = []llm.ToolSpec{{Name: "now"}}
		c.req(&req)
		if _, err := model(t, server.URL+"/v1", "m").Stream(t.Context(), req, func(llm.Delta) {}); err != nil {
			t.Fatal(err)
		}
		if got := llmtest.Fields(t, stub.Requests()[0].Body, names...); got != c.want {
			t.Errorf("%s: sent %s, want %s", c.name, got, c.want)
		}
	}
}
