package openaiapi

import (
	"maps"
	"strings"

	"parley/shared/domain"
)

// CompletionSettings contains the model settings in a request for a chat completion. Nil means that
// the agent's setting applies. Package httpx decodes it; Settings validates it.
type CompletionSettings struct {
	Temperature         *float64 `json:"temperature"`
	TopP                *float64 `json:"top_p"`
	MaxTokens           *int64   `json:"max_tokens"`
	MaxCompletionTokens *int64   `json:"max_completion_tokens"`
	ReasoningEffort     *string  `json:"reasoning_effort"`
	Seed                *int64   `json:"seed"`
	Stop                *Stop    `json:"stop"`
	ParallelToolCalls   *bool    `json:"parallel_tool_calls"`
}

// Stop contains stop sequences. The model ends the answer instead of writing a stop sequence. At
// most one field is set.
type Stop struct {
	One  string
	Many []string
}

// Either marks Stop as a union: either one text or a list of texts.
func (*Stop) Either() {}

// texts returns the stop sequences, or nil if there are none. A single empty text counts as no stop
// sequence.
func (s *Stop) texts() []string {
	if s == nil || s.One == "" && len(s.Many) == 0 {
		return nil
	}
	if s.Many != nil {
		return s.Many
	}
	return []string{s.One}
}

// ResponseSettings are the model settings in a request for a response. Nil means that the agent's
// setting applies.
type ResponseSettings struct {
	Temperature       *float64          `json:"temperature"`
	TopP              *float64          `json:"top_p"`
	MaxOutputTokens   *int64            `json:"max_output_tokens"`
	Reasoning         *ReasoningOptions `json:"reasoning"`
	ParallelToolCalls *bool             `json:"parallel_tool_calls"`
}

// ReasoningOptions are the options for the model's reasoning.
type ReasoningOptions struct {
	// Effort of the model; its values depend on the model.
	Effort *string `json:"effort"`
}

// These maps contain only those names of model settings in OpenAI's APIs that differ from Parley's
// names.
var (
	completionNames = map[domain.Setting]string{
		domain.SettingTopP: "top_p", domain.SettingMaxOutputTokens: "max_completion_tokens",
		domain.SettingReasoningEffort: "reasoning_effort", domain.SettingParallelToolCalls: "parallel_tool_calls",
	}
	responseNames = map[domain.Setting]string{
		domain.SettingTopP: "top_p", domain.SettingMaxOutputTokens: "max_output_tokens",
		domain.SettingReasoningEffort: "reasoning.effort", domain.SettingParallelToolCalls: "parallel_tool_calls",
	}
)

// Settings validates the model settings. It returns the settings and the names that the request
// uses for them, or nil if there are none. If max_tokens and max_completion_tokens are both set,
// max_completion_tokens applies. The second result is for errors that are found later, when the
// settings are checked for the agent's model.
func (r *CompletionSettings) Settings(wrong Wrong) (*domain.RunSettings, map[domain.Setting]string) {
	names := completionNames
	limit := r.MaxCompletionTokens
	if limit == nil && r.MaxTokens != nil { // older clients use this name
		limit = r.MaxTokens
		names = maps.Clone(completionNames)
		names[domain.SettingMaxOutputTokens] = "max_tokens"
	}
	return checkSettings(domain.ModelSettings{
		Temperature: r.Temperature, TopP: r.TopP, MaxOutputTokens: limit, ReasoningEffort: r.ReasoningEffort, Seed: r.Seed,
		Stop: r.Stop.texts(), ParallelToolCalls: r.ParallelToolCalls,
	}, names, wrong)
}

// Settings validates the model settings. It returns the settings and the names that the request
// uses for them, or nil if there are none. The second result is for errors that are found later,
// when the settings are checked for the agent's model.
func (r *ResponseSettings) Settings(wrong Wrong) (*domain.RunSettings, map[domain.Setting]string) {
	s := domain.ModelSettings{
		Temperature: r.Temperature, TopP: r.TopP, MaxOutputTokens: r.MaxOutputTokens, ParallelToolCalls: r.ParallelToolCalls,
	}
	if r.Reasoning != nil {
		s.ReasoningEffort = r.Reasoning.Effort
	}
	return checkSettings(s, responseNames, wrong)
}

// checkSettings reports values that are invalid for every model. It returns the settings and their
// names, or nil if there are none.
func checkSettings(
	s domain.ModelSettings, names map[domain.Setting]string, wrong Wrong,
) (*domain.RunSettings, map[domain.Setting]string) {
	if s.Pointer() == nil {
		return nil, nil
	}
	for _, p := range s.Problems() {
		path := p.Path
		if name, ok := names[p.Setting]; ok {
			// The error must use the name that the client used for the parameter.
			path = strings.Replace(path, string(p.Setting), name, 1)
		}
		wrong(path, settingCodes[p.Kind], "%s", p.Message)
	}
	return &domain.RunSettings{ModelSettings: s}, names
}

// settingCodes maps the kinds of invalid settings to the error codes of fields.
var settingCodes = map[domain.SettingProblemKind]string{
	domain.SettingValue: codeInvalidValue, domain.SettingLong: codeTooLong, domain.SettingShort: codeTooShort,
}

// showSettings sets the response's model settings. Nil changes nothing. Settings that the response
// does not have, such as stop sequences, are ignored.
func (r *Response) showSettings(s *domain.ModelSettings) {
	if s == nil {
		return
	}
	r.Temperature, r.TopP, r.MaxOutputTokens, r.Reasoning.Effort = s.Temperature, s.TopP, s.MaxOutputTokens, s.ReasoningEffort
	if s.ParallelToolCalls != nil {
		r.ParallelToolCalls = *s.ParallelToolCalls
	}
}
