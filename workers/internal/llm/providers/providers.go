package providers

import (
	"fmt"

	sdk "github.com/anthropics/anthropic-sdk-go"

	"parley/workers/internal/llm"
	"parley/workers/internal/llm/anthropic"
	"parley/workers/internal/llm/breaker"
	"parley/workers/internal/llm/offline"
	"parley/workers/internal/llm/openai"
)

// These are the default models of the providers' own services.
const (
	openaiDefault    = "openai/gpt-5-mini"
	anthropicDefault = "anthropic/" + sdk.ModelClaudeSonnet5_5
)

// Config contains the settings of the model providers. Each of them may be empty.
type Config struct {
	OpenAIAPIKey     string // the setting OPENAI_API_KEY
	OpenAIBaseURL    string // the setting OPENAI_BASE_URL, including "/v1"
	AnthropicAPIKey  string // the setting ANTHROPIC_API_KEY
	AnthropicBaseURL string // the setting ANTHROPIC_BASE_URL, without "/v1/messages"
	// DefaultModel is the setting DEFAULT_MODEL. If it is empty, the default model depends on the
	// keys for the providers' own services. It is "openai/gpt-5-mini" with a key for OpenAI, else
	// "anthropic/claude-sonnet-5-5" with a key for Anthropic, else "offline". For other servers
	// there is no default, because the names of their models are unknown.
	DefaultModel string
	// Around wraps a provider. If it is not nil, the registry calls it for each provider and uses
	// the result instead.
	Around func(name string, p llm.Provider) llm.Provider
}

// New returns the registry. The registry always contains "offline" and "offline/echo". It contains
// the models of OpenAI or Anthropic, each with a circuit breaker, if the key or the address of this
// provider is set. New returns an error if a setting is malformed or the default model does not
// exist.
func New(cfg Config) (*llm.Registry, error) {
	set := map[string]llm.Provider{"offline": offline.Provider{}}
	listers := map[string]llm.Lister{"offline": offline.Provider{}}
	if cfg.OpenAIAPIKey != "" || cfg.OpenAIBaseURL != "" {
		p, err := openai.New(openai.Config{APIKey: cfg.OpenAIAPIKey, BaseURL: cfg.OpenAIBaseURL})
		if err != nil {
			return nil, fmt.Errorf("setting up openai: %w", err)
		}
		set["openai"], listers["openai"] = breaker.New(p), p
	}

	if cfg.AnthropicAPIKey != "" || cfg.AnthropicBaseURL != "" {
		p, err := anthropic.New(anthropic.Config{APIKey: cfg.AnthropicAPIKey, BaseURL: cfg.AnthropicBaseURL})
		if err != nil {
			return nil, fmt.Errorf("setting up anthropic: %w", err)
		}
		set["anthropic"], listers["anthropic"] = breaker.New(p), p
	}

	// Call Around last, so that the provider that it returns also receives calls that a breaker
	// rejects.
	if cfg.Around != nil {
		for name, p := range set {
			set[name] = cfg.Around(name, p)
		}
	}
	registry, err := llm.NewRegistry(defaultModel(cfg), set, "openai", "anthropic")
	if err != nil {
		return nil, err
	}
	return registry.WithListers(listers), nil
}

// defaultModel returns the model string for agents without a model; see Config.DefaultModel.
func defaultModel(cfg Config) string {
	switch {
	case cfg.DefaultModel != "":
		return cfg.DefaultModel
	case cfg.OpenAIAPIKey != "" && cfg.OpenAIBaseURL == "":
		return openaiDefault
	case cfg.AnthropicAPIKey != "" && cfg.AnthropicBaseURL == "":
		return anthropicDefault
	default:
		return "offline"
	}
}
