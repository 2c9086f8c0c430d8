package domain

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Setting is the name of a model setting in the HTTP API.
type Setting string

// The model settings.
const (
	SettingTemperature       Setting = "temperature"
	SettingTopP              Setting = "topP"
	SettingMaxOutputTokens   Setting = "maxOutputTokens"
	SettingReasoningEffort   Setting = "reasoningEffort"
	SettingSeed              Setting = "seed"
	SettingStop              Setting = "stop"
	SettingParallelToolCalls Setting = "parallelToolCalls"
)

// ModelSettingNames lists all model settings in the order of the documentation.
var ModelSettingNames = []Setting{
	SettingTemperature, SettingTopP, SettingMaxOutputTokens, SettingReasoningEffort, SettingSeed, SettingStop, SettingParallelToolCalls,
}

// The values of ModelSettings.ReasoningEffort.
const (
	EffortNone    = "none"
	EffortMinimal = "minimal"
	EffortLow     = "low"
	EffortMedium  = "medium"
	EffortHigh    = "high"
	EffortXHigh   = "xhigh"
)

// ReasoningEfforts lists the values of ModelSettings.ReasoningEffort, the smallest first.
var ReasoningEfforts = []string{EffortNone, EffortMinimal, EffortLow, EffortMedium, EffortHigh, EffortXHigh}

// ModelSettings are settings of a model call. A nil or empty field means the model's default.
type ModelSettings struct {
	Temperature       *float64 `json:"temperature,omitempty"`     // 0 to 2, for Anthropic 0 to 1
	TopP              *float64 `json:"topP,omitempty"`            // 0 to 1
	MaxOutputTokens   *int64   `json:"maxOutputTokens,omitempty"` // at least 1, in the model's own tokens
	ReasoningEffort   *string  `json:"reasoningEffort,omitempty"` // one of ReasoningEfforts
	Seed              *int64   `json:"seed,omitempty"`
	Stop              []string `json:"stop,omitempty"` // 1 to 4 texts, each of which ends the answer
	ParallelToolCalls *bool    `json:"parallelToolCalls,omitempty"`
}

// Has reports whether a setting has a value. An empty list of stop texts is no value.
func (s *ModelSettings) Has(name Setting) bool {
	switch name {
	case SettingTemperature:
		return s.Temperature != nil
	case SettingTopP:
		return s.TopP != nil
	case SettingMaxOutputTokens:
		return s.MaxOutputTokens != nil
	case SettingReasoningEffort:
		return s.ReasoningEffort != nil
	case SettingSeed:
		return s.Seed != nil
	case SettingStop:
		return len(s.Stop) > 0
	case SettingParallelToolCalls:
		return s.ParallelToolCalls != nil
	default:
		return false
	}
}

// Copy sets a setting to its value in the argument from. If from has no value for it, the setting
// is removed.
func (s *ModelSettings) Copy(name Setting, from ModelSettings) {
	switch name {
	case SettingTemperature:
		s.Temperature = from.Temperature
	case SettingTopP:
		s.TopP = from.TopP
	case SettingMaxOutputTokens:
		s.MaxOutputTokens = from.MaxOutputTokens
	case SettingReasoningEffort:
		s.ReasoningEffort = from.ReasoningEffort
	case SettingSeed:
		s.Seed = from.Seed
	case SettingStop:
		s.Stop = from.Stop
	case SettingParallelToolCalls:
		s.ParallelToolCalls = from.ParallelToolCalls
	}
}

// Pointer returns a copy of the settings, or nil if none has a value. The JSON form of a run then
// omits the settings.
func (s *ModelSettings) Pointer() *ModelSettings {
	if !slices.ContainsFunc(ModelSettingNames, s.Has) {
		return nil
	}
	copied := *s
	return &copied
}

// RunSettings are the model settings of a request. They take precedence over the agent's.
type RunSettings struct {
	ModelSettings
	// Cleared lists the settings for which the request selects the model's default instead of the
	// agent's value.
	Cleared []Setting `json:"cleared,omitempty"`
}

// Names lists the settings that the request changes, in the order of ModelSettingNames.
func (s *RunSettings) Names() []Setting {
	var names []Setting
	if s == nil {
		return nil
	}
	for _, name := range ModelSettingNames {
		if s.Has(name) || slices.Contains(s.Cleared, name) {
			names = append(names, name)
		}
	}
	return names
}

// Over returns an agent's settings, overridden by the settings of the request. A cleared setting
// has no value in the result. A nil RunSettings changes nothing.
func (s *RunSettings) Over(agent ModelSettings) ModelSettings {
	for _, name := range s.Names() {
		// A cleared setting has no value in the request, so Copy removes the agent's value.
		agent.Copy(name, s.ModelSettings)
	}
	return agent
}

// Bounds of the settings' values. Models may accept less: see ModelSupport.
const (
	maxTemperature  = 2
	maxOutputTokens = 1_000_000
	maxSeed         = 1<<53 - 1 // the largest number that JavaScript can express exactly
	maxStops        = 4
	maxStop         = 256 // characters of a stop text
)

// SettingProblem is a value that no model accepts. Path is the setting's name. If the value is an
// entry of a list, the entry's index follows.
type SettingProblem struct {
	Setting Setting
	Path    string
	Kind    SettingProblemKind
	Message string
}

// SettingProblemKind is the kind of a SettingProblem.
type SettingProblemKind int

// The kinds of problems: the value is outside the bounds, or a text or list is too long or too
// short.
const (
	SettingValue SettingProblemKind = iota
	SettingLong
	SettingShort
)

// Problems returns the values that no model accepts.
func (s *ModelSettings) Problems() (found []SettingProblem) {
	number := func(name Setting, ok bool, format string, args ...any) {
		if !ok {
			found = append(found, SettingProblem{name, string(name), SettingValue, fmt.Sprintf(format, args...)})
		}
	}
	if s.Temperature != nil {
		number(SettingTemperature, *s.Temperature >= 0 && *s.Temperature <= maxTemperature, "must be between 0 and %d", maxTemperature)
	}
	if s.TopP != nil {
		number(SettingTopP, *s.TopP >= 0 && *s.TopP <= 1, "must be between 0 and 1")
	}
	if s.MaxOutputTokens != nil {
		number(SettingMaxOutputTokens, *s.MaxOutputTokens >= 1 && *s.MaxOutputTokens <= maxOutputTokens,
			"must be between 1 and %d", maxOutputTokens)
	}
	if s.ReasoningEffort != nil {
		number(SettingReasoningEffort, slices.Contains(ReasoningEfforts, *s.ReasoningEffort),
			"must be one of %s", strings.Join(ReasoningEfforts, ", "))
	}
	if s.Seed != nil {
		number(SettingSeed, *s.Seed >= -maxSeed && *s.Seed <= maxSeed, "must be between -%d and %d", maxSeed, maxSeed)
	}
	return append(found, stopProblems(s.Stop)...)
}

// stopProblems returns the problems of stop texts. A list that is too long has only this one
// problem.
func stopProblems(stop []string) (found []SettingProblem) {
	if len(stop) > maxStops {
		return []SettingProblem{{
			SettingStop, string(SettingStop), SettingLong, fmt.Sprintf("must have at most %d entries, not %d", maxStops, len(stop)),
		}}
	}
	for i, text := range stop {
		at := fmt.Sprintf("%s[%d]", SettingStop, i)
		n := utf8.RuneCountInString(text)
		switch {
		case n == 0:
			found = append(found, SettingProblem{SettingStop, at, SettingShort, "must not be empty"})
		case n > maxStop:
			found = append(found, SettingProblem{SettingStop, at, SettingLong, fmt.Sprintf("must have at most %d characters, not %d", maxStop, n)})
		case strings.ContainsRune(text, 0):
			found = append(found, SettingProblem{SettingStop, at, SettingValue, "must not contain U+0000"})
		}
	}
	return found
}
