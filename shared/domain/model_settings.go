package domain

// ModelSettings are settings of a model call. A nil or empty field means the model's default.
type ModelSettings struct {
	Temperature       *float64 `json:"temperature,omitempty"`     // 0 to 2, for Anthropic 0 to 1
	TopP              *float64 `json:"topP,omitempty"`            // 0 to 1
	MaxOutputTokens   *int64   `json:"maxOutputTokens,omitempty"` // at least 1, in the model's own tokens
	ReasoningEffort   string   `json:"reasoningEffort,omitempty"` // none, minimal, low, medium, high or xhigh
	Seed              *int64   `json:"seed,omitempty"`
	Stop              []string `json:"stop,omitempty"` // 1 to 4 texts, each of which ends the answer
	ParallelToolCalls *bool    `json:"parallelToolCalls,omitempty"`
}
