package domain

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// Range is a range of numbers that includes both ends.
type Range struct {
	Min float64 `json:"min"`
	Max float64 `json:"max"`
}

// ModelSupport lists the settings that a provider accepts for models whose names begin with Prefix.
// The provider would reject a request with any other setting.
type ModelSupport struct {
	// Prefix is the beginning of the model's name in the form that agents use.
	Prefix string `json:"prefix"`
	// Temperature and TopP are the ranges of the accepted values. nil means that the model does not
	// accept the setting.
	Temperature *Range   `json:"temperature"`
	TopP        *Range   `json:"topP"`
	Efforts     []string `json:"reasoningEffort"` // nil: the model does not accept the setting
	Seed        bool     `json:"seed"`
	Stop        bool     `json:"stop"`
	Parallel    bool     `json:"parallelToolCalls"`
	// SamplesWithoutEffort means that temperature and topP need the reasoning effort none, which is
	// the model's default.
	SamplesWithoutEffort bool `json:"samplesWithoutEffort,omitempty"`
	// OneOfSampling means that temperature and topP exclude each other.
	OneOfSampling bool `json:"oneOfSampling,omitempty"`
	// VisibleStop means that each stop text must contain a character that is not white space.
	VisibleStop bool `json:"visibleStop,omitempty"`
}

// Ranges and efforts that several entries of the tables of models share.
var (
	to2      = &Range{0, 2}
	to1      = &Range{0, 1}
	only1    = &Range{1, 1} // reasoning models accept no other value
	low3     = []string{EffortLow, EffortMedium, EffortHigh}
	low4     = []string{EffortLow, EffortMedium, EffortHigh, EffortXHigh}
	minimal4 = []string{EffortMinimal, EffortLow, EffortMedium, EffortHigh}
	none4    = []string{EffortNone, EffortLow, EffortMedium, EffortHigh}
	none5    = []string{EffortNone, EffortLow, EffortMedium, EffortHigh, EffortXHigh}
)

// everything is the entry for servers and models that are not in the tables below: they get all
// settings of their protocol. The offline models accept the same settings, so that requests can be
// tested without a provider.
var everything = ModelSupport{Temperature: to2, TopP: to1, Efforts: ReasoningEfforts, Seed: true, Stop: true, Parallel: true}

// OpenAISupport lists OpenAI's own models. The first entry whose prefix matches applies; a model
// without an entry accepts everything. The list does not apply to other servers with
// OpenAI's protocol; see SupportFor.
var OpenAISupport = []ModelSupport{
	{Prefix: "openai/gpt-3.5", Temperature: to2, TopP: to1, Seed: true, Stop: true, Parallel: true},
	{Prefix: "openai/gpt-4", Temperature: to2, TopP: to1, Seed: true, Stop: true, Parallel: true},
	{Prefix: "openai/chatgpt-", Temperature: to2, TopP: to1, Seed: true, Stop: true, Parallel: true},
	{Prefix: "openai/gpt-5-chat", Temperature: to2, TopP: to1, Seed: true, Stop: true, Parallel: true},
	{Prefix: "openai/gpt-5-", Temperature: only1, TopP: only1, Efforts: minimal4, Seed: true, Parallel: true},
	{Prefix: "openai/gpt-5.1", Temperature: to2, TopP: to1, Efforts: none4, Seed: true, Parallel: true, SamplesWithoutEffort: true},
	{Prefix: "openai/gpt-5.2", Temperature: to2, TopP: to1, Efforts: none5, Seed: true, Parallel: true, SamplesWithoutEffort: true},
	{Prefix: "openai/gpt-5.3", Temperature: to2, TopP: to1, Efforts: none5, Seed: true, Parallel: true, SamplesWithoutEffort: true},
	{Prefix: "openai/gpt-5.4", Temperature: to2, TopP: to1, Efforts: none5, Seed: true, Parallel: true, SamplesWithoutEffort: true},
	{Prefix: "openai/gpt-5.", Temperature: to2, TopP: to1, Efforts: none5, Seed: true, Stop: true, Parallel: true, SamplesWithoutEffort: true},
	{Prefix: "openai/gpt-5", Temperature: only1, TopP: only1, Efforts: minimal4, Seed: true, Parallel: true},
	{Prefix: "openai/o1", Temperature: only1, TopP: only1, Efforts: low3, Seed: true, Stop: true},
	{Prefix: "openai/o3", Temperature: only1, TopP: only1, Efforts: low3, Seed: true},
	{Prefix: "openai/o4", Temperature: only1, TopP: only1, Efforts: low3, Seed: true},
}

// AnthropicSupport lists the models of Anthropic, and of servers with its protocol. The first entry
// whose prefix matches applies; the last entry matches all models. The protocol has no setting for
// a seed.
var AnthropicSupport = []ModelSupport{
	{Prefix: "anthropic/claude-3", Temperature: to1, TopP: to1, Stop: true, Parallel: true, VisibleStop: true},
	{
		Prefix: "anthropic/claude-opus-4-5", Temperature: to1, TopP: to1, Efforts: low3, Stop: true, Parallel: true,
		VisibleStop: true, OneOfSampling: true,
	},
	{
		Prefix: "anthropic/claude-opus-4-6", Temperature: to1, TopP: to1, Efforts: low3, Stop: true, Parallel: true,
		VisibleStop: true, OneOfSampling: true,
	},
	{
		Prefix: "anthropic/claude-sonnet-4-6", Temperature: to1, TopP: to1, Efforts: low3, Stop: true, Parallel: true,
		VisibleStop: true, OneOfSampling: true,
	},
	{Prefix: "anthropic/claude-opus-4-7", Temperature: only1, TopP: only1, Efforts: low4, Stop: true, Parallel: true, VisibleStop: true},
	{Prefix: "anthropic/claude-opus-4-8", Temperature: only1, TopP: only1, Efforts: low4, Stop: true, Parallel: true, VisibleStop: true},
	{
		Prefix: "anthropic/claude-opus-4", Temperature: to1, TopP: to1, Stop: true, Parallel: true,
		VisibleStop: true, OneOfSampling: true,
	},
	{
		Prefix: "anthropic/claude-sonnet-4", Temperature: to1, TopP: to1, Stop: true, Parallel: true,
		VisibleStop: true, OneOfSampling: true,
	},
	{
		Prefix: "anthropic/claude-haiku-4", Temperature: to1, TopP: to1, Stop: true, Parallel: true,
		VisibleStop: true, OneOfSampling: true,
	},
	{Prefix: "anthropic/claude-", Temperature: only1, TopP: only1, Efforts: low4, Stop: true, Parallel: true, VisibleStop: true},
	{Prefix: "anthropic/", Temperature: to1, TopP: to1, Efforts: low4, Stop: true, Parallel: true, VisibleStop: true},
}

// SupportFor returns the settings that a model accepts. The argument compatible means that the
// model is on a server with OpenAI's protocol that is not OpenAI's own.
func SupportFor(model string, compatible bool) ModelSupport {
	list := OpenAISupport
	switch {
	case strings.HasPrefix(model, "anthropic/"):
		list = AnthropicSupport
	case compatible:
		return everything
	}
	for _, s := range list {
		if strings.HasPrefix(model, s.Prefix) {
			return s
		}
	}
	return everything
}

// SettingFault is a setting that a model does not accept. Unsupported means that the model accepts
// no value of the setting. If the value conflicts with another setting, With is the other setting,
// and WithMessage is the message for the field of With.
type SettingFault struct {
	Setting     Setting
	Message     string
	Unsupported bool
	With        Setting
	WithMessage string
}

// Faults returns the settings that the model does not accept.
func (m ModelSupport) Faults(model string, s ModelSettings) []SettingFault {
	found := append(numberFault(model, SettingTemperature, s.Temperature, m.Temperature),
		numberFault(model, SettingTopP, s.TopP, m.TopP)...)

	// The message for a model that accepts no effort at all differs from the message for a model
	// that accepts other efforts.
	switch effort := s.ReasoningEffort; {
	case effort == nil || slices.Contains(m.Efforts, *effort):
	case len(m.Efforts) == 0:
		found = append(found, unsupported(SettingReasoningEffort, model))
	default:
		found = append(found, SettingFault{
			Setting: SettingReasoningEffort,
			Message: fmt.Sprintf("must be one of %s for the model %s", strings.Join(m.Efforts, ", "), model),
		})
	}

	if s.Seed != nil && !m.Seed {
		found = append(found, unsupported(SettingSeed, model))
	}
	switch {
	case len(s.Stop) > 0 && !m.Stop:
		found = append(found, unsupported(SettingStop, model))
	case m.VisibleStop && slices.ContainsFunc(s.Stop, isBlank):
		found = append(found, SettingFault{
			Setting: SettingStop, Message: "must not contain a blank entry for the model " + model,
		})
	}
	if s.ParallelToolCalls != nil && !*s.ParallelToolCalls && !m.Parallel { // true is every model's default
		found = append(found, unsupported(SettingParallelToolCalls, model))
	}
	return append(found, m.conflicts(model, s)...)
}

// unsupported returns the fault of a setting that a model does not accept with any value.
func unsupported(name Setting, model string) SettingFault {
	return SettingFault{Setting: name, Message: "is not supported by the model " + model, Unsupported: true}
}

// numberFault returns the fault of a number that is outside the accepted range, or none.
func numberFault(model string, name Setting, value *float64, accepted *Range) []SettingFault {
	switch {
	case value == nil:
		return nil
	case accepted == nil:
		return []SettingFault{unsupported(name, model)}
	case *value >= accepted.Min && *value <= accepted.Max:
		return nil
	case accepted.Min == accepted.Max:
		return []SettingFault{{Setting: name, Message: fmt.Sprintf("must be %v, the only value that the model %s accepts", accepted.Min, model)}}
	default:
		return []SettingFault{{Setting: name, Message: fmt.Sprintf(
			"must be between %v and %v for the model %s", accepted.Min, accepted.Max, model)}}
	}
}

// conflicts returns the faults of settings that the model accepts, but not together. The value 1 of
// temperature and topP is the default, so it conflicts with nothing.
func (m ModelSupport) conflicts(model string, s ModelSettings) (found []SettingFault) {
	colder, narrower := s.Temperature != nil && *s.Temperature != 1, s.TopP != nil && *s.TopP != 1
	if m.OneOfSampling && s.Temperature != nil && narrower {
		found = append(found, SettingFault{
			Setting: SettingTopP, With: SettingTemperature, Message: "must not be combined with temperature for the model " + model,
			WithMessage: "must not be combined with the agent's topP for the model " + model,
		})
	}
	if !m.SamplesWithoutEffort || s.ReasoningEffort == nil || *s.ReasoningEffort == EffortNone {
		return found
	}
	for _, one := range []struct {
		name Setting
		set  bool
	}{{SettingTemperature, colder}, {SettingTopP, narrower}} {
		if one.set {
			found = append(found, SettingFault{
				Setting: one.name, With: SettingReasoningEffort, Message: "requires reasoningEffort to be none for the model " + model,
				WithMessage: fmt.Sprintf("must be none, because the agent sets %s, for the model %s", one.name, model),
			})
		}
	}
	return found
}

// isBlank reports whether a text consists of white space. It returns true for an empty text.
func isBlank(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsSpace(r) })
}

// ModelRules describes the models of a deployment.
type ModelRules struct {
	DefaultModel     string // model of agents that do not name a model
	OpenAICompatible bool   // the models of the provider openai are on a server other than OpenAI's own
}

// Faults returns the settings that at least one of an agent's models does not accept, each once. A
// setting must suit the fallback models too, because a run may change to any of them.
func (r ModelRules) Faults(model string, fallbacks []string, s ModelSettings) (found []SettingFault) {
	if s.Pointer() == nil {
		return nil
	}
	if model == "" {
		model = r.DefaultModel
	}
	seen := map[Setting]bool{}
	for _, name := range append([]string{model}, fallbacks...) {
		for _, fault := range SupportFor(name, r.OpenAICompatible).Faults(name, s) {
			if !seen[fault.Setting] {
				seen[fault.Setting], found = true, append(found, fault)
			}
		}
	}
	return found
}

// ModelList contains the models that agents can use.
type ModelList struct {
	Default string   `json:"default"` // of agents without a model
	Models  []string `json:"models"`  // names of the models of each configured provider, in the form that agents use
}
