package runbody

import (
	"parley/ingress/internal/httpapi/httpx"
	"parley/shared/domain"
)

// SettingsBody contains the model settings of an agent or a run request. Bodies embed it. The value
// null removes a setting of an agent. In a run request, null means the model's default instead of
// the agent's setting.
type SettingsBody struct {
	// Randomness of the answer.
	Temperature httpx.Removable[float64] `json:"temperature"`
	TopP        httpx.Removable[float64] `json:"topP"`
	// Maximum length of the answer in tokens.
	MaxOutputTokens httpx.Removable[int64] `json:"maxOutputTokens"`
	// Effort of the model's reasoning, by the provider's names.
	ReasoningEffort httpx.Removable[string] `json:"reasoningEffort"`
	Seed            httpx.Removable[int64]  `json:"seed"`
	// Texts at which the answer ends.
	Stop httpx.Removable[[]string] `json:"stop"`
	// Whether the model may make several tool calls at once.
	ParallelToolCalls httpx.Removable[bool] `json:"parallelToolCalls"`
}

// Settings checks the settings and returns those that the body contains, or nil if it has none.
// Only rules that hold for all models are checked. Problems are added to found. Settings that are
// null are in the field Cleared of the result.
func (b *SettingsBody) Settings(found *httpx.Problems) *domain.RunSettings {
	s := &domain.RunSettings{ModelSettings: domain.ModelSettings{
		Temperature: value(b.Temperature), TopP: value(b.TopP), MaxOutputTokens: value(b.MaxOutputTokens),
		ReasoningEffort: value(b.ReasoningEffort), Seed: value(b.Seed), Stop: b.Stop.Value,
		ParallelToolCalls: value(b.ParallelToolCalls),
	}}
	if b.Stop.Set && !b.Stop.Null && len(b.Stop.Value) == 0 {
		found.Add(string(domain.SettingStop), httpx.CodeTooShort, "must not be empty; use null for none")
	}
	for _, problem := range s.Problems() {
		found.Add(problem.Path, settingCodes[problem.Kind], "%s", problem.Message)
	}

	// The order is that of domain.ModelSettingNames.
	for i, null := range []bool{
		b.Temperature.Null, b.TopP.Null, b.MaxOutputTokens.Null, b.ReasoningEffort.Null, b.Seed.Null, b.Stop.Null,
		b.ParallelToolCalls.Null,
	} {
		if null {
			s.Cleared = append(s.Cleared, domain.ModelSettingNames[i])
		}
	}
	if len(s.Names()) == 0 {
		return nil
	}
	return s
}

// settingCodes maps the kinds of invalid settings to the error codes of fields. The kinds are
// defined by package domain, which does not know the codes of the API.
var settingCodes = map[domain.SettingProblemKind]string{
	domain.SettingValue: httpx.CodeInvalidValue, domain.SettingLong: httpx.CodeTooLong, domain.SettingShort: httpx.CodeTooShort,
}

// value returns a pointer to the value of a field, or nil if it is missing or null. The pointer
// refers to the argument, which is a copy.
func value[T any](field httpx.Removable[T]) *T {
	if !field.Set || field.Null {
		return nil
	}
	return &field.Value
}
