package anthropic_test

import (
	"testing"

	"parley/shared/domain"
	"parley/shared/testkit/anthropicstub"
	"parley/workers/internal/llm"
	"parley/workers/internal/llm/llmtest"
)

// The server receives the settings under the names that its protocol defines.
func TestSettingsOnTheWire(t *testing.T) {
	t.Parallel()
	names := []string{"temperature", "top_p", "output_config", "stop_sequences", "tool_choice", "max_tokens", "seed"}
	all := domain.ModelSettings{
		Temperature: new(0.0), TopP: new(0.5), ReasoningEffort: new("low"), Stop: []string{"a", "b"}, ParallelToolCalls: new(false),
	}
	for _, c := range []struct {
		name, model string
		tools       int
		settings    domain.ModelSettings
		want        string
	}{
		{"none", "claude-haiku-4-5", 1, domain.ModelSettings{}, `{"max_tokens":9}`},
		{"all", "claude-opus-4-5", 1, all, `{"max_tokens":9,"output_config":{"effort":"low"},"stop_sequences":["a","b"],"temperature":0,` +
			`"tool_choice":{"disable_parallel_tool_use":true,"type":"auto"},"top_p":0.5}`},
		{"no tools", "claude-opus-4-5", 0, domain.ModelSettings{ParallelToolCalls: new(false)}, `{"max_tokens":9}`},
		{"parallel calls", "claude-opus-4-5", 1, domain.ModelSettings{ParallelToolCalls: new(true)}, `{"max_tokens":9}`},
		{"a model that always thinks", "claude-sonnet-5-5", 1, domain.ModelSettings{
			Temperature: new(1.0), TopP: new(1.0), ReasoningEffort: new("xhigh"),
		}, `{"max_tokens":9,"output_config":{"effort":"xhigh"}}`},
	} {
		stub := anthropicstub.New()
		req := llmtest.Request()
		req.MaxTokens, req.Settings, req.Tools = 9, c.settings, []llm.ToolSpec{{Name: "now"}}[:c.tools]
		if _, err := against(t, stub, c.model).Stream(t.Context(), req, ignore); err != nil {
			t.Fatal(err)
		}
		if got := llmtest.Fields(t, stub.Requests()[0].Body, names...); got != c.want {
			t.Errorf("%s: sent %s, want %s", c.name, got, c.want)
		}
	}
}
