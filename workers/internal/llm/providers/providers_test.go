package providers_test

import (
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"parley/shared/testkit/anthropicstub"
	"parley/workers/internal/llm"
	"parley/workers/internal/llm/providers"
)

func TestDefaults(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		cfg  providers.Config
		want string
	}{
		{"nothing set", providers.Config{}, "offline"},
		{"a key for OpenAI", providers.Config{OpenAIAPIKey: "k"}, "openai/gpt-5-mini"},
		{"another server", providers.Config{OpenAIBaseURL: "http://127.0.0.1:1/v1"}, "offline"},
		{"another server with key", providers.Config{OpenAIAPIKey: "k", OpenAIBaseURL: "http://127.0.0.1:1/v1"}, "offline"},
		{"a key for Anthropic", providers.Config{AnthropicAPIKey: "k"}, "anthropic/claude-sonnet-5-5"},
		{"keys for both", providers.Config{OpenAIAPIKey: "k", AnthropicAPIKey: "k"}, "openai/gpt-5-mini"},
		{"another OpenAI server, Anthropic itself", providers.Config{OpenAIBaseURL: "http://127.0.0.1:1/v1", AnthropicAPIKey: "k"}, "anthropic/claude-sonnet-5-5"},
		{"another Anthropic server", providers.Config{AnthropicAPIKey: "k", AnthropicBaseURL: "http://127.0.0.1:1"}, "offline"},
		{"named", providers.Config{OpenAIAPIKey: "k", DefaultModel: "offline/echo"}, "offline/echo"},
		{"named with slashes", providers.Config{OpenAIBaseURL: "http://127.0.0.1:1", DefaultModel: "openai/meta/llama"}, "openai/meta/llama"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r, err := providers.New(tt.cfg)
			if err != nil {
				t.Fatal(err)
			}
			m, err := r.Resolve("")
			if err != nil || m.Info().Name != tt.want || r.Default() != tt.want {
				t.Errorf("got %v, %v", r.Default(), err)
			}
		})
	}
}

func TestNotConfiguredAndUnknown(t *testing.T) {
	t.Parallel()
	r, err := providers.New(providers.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for name, kind := range map[string]llm.Kind{
		"openai/gpt-5": llm.KindNotConfigured, "anthropic/claude": llm.KindNotConfigured,
		"offline/slow": llm.KindUnknownModel, "offlin": llm.KindUnknownModel, "gpt-5": llm.KindUnknownModel,
	} {
		var e *llm.Error
		if _, err := r.Resolve(name); !errors.As(err, &e) || e.Kind != kind || e.Retryable {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestBadSettingsAreRefused(t *testing.T) {
	t.Parallel()
	for _, cfg := range []providers.Config{
		{OpenAIBaseURL: "localhost:8080"},
		{OpenAIBaseURL: "http://user:hunter2@host/v1"},
		{OpenAIBaseURL: "http://host/v1?key=hunter2"},
		{OpenAIBaseURL: "http://ho st/hunter2"},
		{AnthropicBaseURL: "localhost:8080"},
		{AnthropicBaseURL: "http://user:hunter2@host"},
		{DefaultModel: "openai/gpt-5"},
		{OpenAIAPIKey: "k", DefaultModel: "anthropic/claude-opus-5-5"},
		{DefaultModel: "nonsense"},
	} {
		_, err := providers.New(cfg)
		if err == nil {
			t.Errorf("%+v was accepted", cfg)
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the error shows a credential: %v", err)
		}
	}
}

// TestAFailingProviderIsLeftAlone checks that the breaker of each provider opens, and that a
// fallback is then used.
func TestAFailingProviderIsLeftAlone(t *testing.T) {
	t.Parallel()
	stub := anthropicstub.New()
	server := httptest.NewServer(stub)
	t.Cleanup(server.Close)
	r, err := providers.New(providers.Config{AnthropicBaseURL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	req := llm.Request{Messages: []llm.Message{{Role: llm.RoleUser, Text: "fault 529: hi"}}}
	for range 8 {
		m, err := r.ResolveAll("anthropic/m", []string{"openai/absent", "offline/echo"})
		if err != nil {
			t.Fatal(err)
		}
		res, err := m.Stream(t.Context(), req, func(llm.Delta) {})
		if err != nil || res.Model != "offline/echo" || m.Info().Name != "anthropic/m" {
			t.Errorf("got %+v, %v", res, err)
		}
	}
	if stub.Total() != 5 {
		t.Errorf("%d requests", stub.Total())
	}
}
