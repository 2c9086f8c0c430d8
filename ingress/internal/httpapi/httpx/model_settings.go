package httpx

import (
	"parley/shared/domain"
)

// SettingsBody contains the model settings of an agent or a run request. Bodies embed it. null removes a
// setting; in a run request, it replaces the agent's setting by the model's default.
type SettingsBody struct {
	Temperature       Removable[float64]  `json:"temperature"`
	TopP              Removable[float64]  `json:"topP"`
	MaxOutputTokens   Removable[int64]    `json:"maxOutputTokens"`
	ReasoningEffort   Removable[string]   `json:"reasoningEffort"`
	Seed              Removable[int64]    `json:"seed"`
	Stop              Removable[[]string] `json:"stop"`
	ParallelToolCalls Removable[bool]     `json:"parallelToolCalls"`
}

// Settings checks the settings and returns those that the body contains, or nil if it has none.
func (b *SettingsBody) Settings(found *Problems) *domain.RunSettings {
	s := &domain.RunSettings{ModelSettings: domain.ModelSettings{
		Temperature: value(b.Temperature), TopP: value(b.TopP), MaxOutputTokens: value(b.MaxOutputTokens),
		ReasoningEffort: value(b.ReasoningEffort), Seed: value(b.Seed), Stop: b.Stop.Value,
		ParallelToolCalls: value(b.ParallelToolCalls),
	}}
	if b.Stop.Set && !b.Stop.Null && len(b.Stop.Value) == 0 {
		found.Add(string(domain.SettingStop), CodeTooShort, "must not be empty; use null for none")
	}
	for _, problem := range s.Problems() {
		found.Add(problem.Path, settingCodes[problem.Kind], "%s", problem.Message)
	}

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

// settingCodes maps the kinds of problems to codes.
var settingCodes = map[domain.SettingProblemKind]string{
	domain.SettingValue: CodeInvalidValue, domain.SettingLong: CodeTooLong, domain.SettingShort: CodeTooShort,
}

// value returns a pointer to the value of a field, or nil if it is missing or null.
func value[T any](field Removable[T]) *T {
	if !field.Set || field.Null {
		return nil
	}
	return &field.Value
}
