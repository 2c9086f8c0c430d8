package providers

import (
	"fmt"

	"parley/workers/internal/llm"
	"parley/workers/internal/llm/offline"
	"parley/workers/internal/llm/openai"
)

// openaiDefault is what agents without a model get once OpenAI's own service can be used.
const openaiDefault = "openai/gpt-5-mini"

// Config names the settings that decide which models there are; all are optional.
type Config struct {
	OpenAIAPIKey  string // OPENAI_API_KEY
	OpenAIBaseURL string // OPENAI_BASE_URL, up to and including "/v1"
	// DefaultModel is DEFAULT_MODEL. Empty means "openai/gpt-5-mini" with a key for OpenAI itself,
	// else "offline": what another server calls its models cannot be guessed.
	DefaultModel string
}

// New makes the registry: "offline" and "offline/echo" always, "openai/…" when a key or an
// address is set. It fails if a setting is malformed or the default model does not exist.
func New(cfg Config) (*llm.Registry, error) {
	set := map[string]llm.Provider{"offline": offline.Provider{}}
	if cfg.OpenAIAPIKey != "" || cfg.OpenAIBaseURL != "" {
		p, err := openai.New(openai.Config{APIKey: cfg.OpenAIAPIKey, BaseURL: cfg.OpenAIBaseURL})
		if err != nil {
			return nil, fmt.Errorf("setting up openai: %w", err)
		}
		set["openai"] = p
	}
	return llm.NewRegistry(defaultModel(cfg), set, "openai", "anthropic")
}

func defaultModel(cfg Config) string {
	switch {
	case cfg.DefaultModel != "":
		return cfg.DefaultModel
	case cfg.OpenAIAPIKey != "" && cfg.OpenAIBaseURL == "":
		return openaiDefault
	default:
		return "offline"
	}
}
