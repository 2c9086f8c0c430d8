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

// What agents without a model get once a provider's own service can be used.
const (
	openaiDefault    = "openai/gpt-5-mini"
	anthropicDefault = "anthropic/" + sdk.ModelClaudeSonnet5_5
)

// Config names the settings that decide which models there are; all are optional.
type Config struct {
	OpenAIAPIKey     string // OPENAI_API_KEY
	OpenAIBaseURL    string // OPENAI_BASE_URL, up to and including "/v1"
	AnthropicAPIKey  string // ANTHROPIC_API_KEY
	AnthropicBaseURL string // ANTHROPIC_BASE_URL, what "/v1/messages" follows
	// DefaultModel is DEFAULT_MODEL. Empty means "openai/gpt-5-mini" with a key for OpenAI itself, else
	// "anthropic/claude-sonnet-5-5" with one for Anthropic itself, else "offline": what another server calls its
	// models cannot be guessed.
	DefaultModel string
	// Around, when it is set, is put around each provider, by its name.
	Around func(name string, p llm.Provider) llm.Provider
}

// New makes the registry: "offline" and "offline/echo" always, "openai/…" and "anthropic/…" when a key or an address
// is set for them, each of their models behind a breaker. It fails if a setting is malformed or the default model
// does not exist.
func New(cfg Config) (*llm.Registry, error) {
	set := map[string]llm.Provider{"offline": offline.Provider{}}
	if cfg.OpenAIAPIKey != "" || cfg.OpenAIBaseURL != "" {
		p, err := openai.New(openai.Config{APIKey: cfg.OpenAIAPIKey, BaseURL: cfg.OpenAIBaseURL})
		if err != nil {
			return nil, fmt.Errorf("setting up openai: %w", err)
		}
		set["openai"] = breaker.New(p)
	}
	if cfg.AnthropicAPIKey != "" || cfg.AnthropicBaseURL != "" {
		p, err := anthropic.New(anthropic.Config{APIKey: cfg.AnthropicAPIKey, BaseURL: cfg.AnthropicBaseURL})
		if err != nil {
			return nil, fmt.Errorf("setting up anthropic: %w", err)
		}
		set["anthropic"] = breaker.New(p)
	}
	if cfg.Around != nil {
		for name, p := range set {
			set[name] = cfg.Around(name, p)
		}
	}
	return llm.NewRegistry(defaultModel(cfg), set, "openai", "anthropic")
}

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
