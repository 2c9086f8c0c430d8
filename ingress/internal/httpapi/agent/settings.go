package agent

import (
	"reflect"
	"slices"

	"parley/ingress/internal/httpapi/httpx"
	"parley/shared/domain"
)

// checkSettings checks the model settings by themselves. checkModels checks whether the models
// accept them.
func (f *agentFields) checkSettings(p *httpx.Problems) {
	f.Settings(p)
	for i, name := range f.Overridable.Value {
		at := httpx.Element("overridable", i)
		switch {
		case !slices.Contains(domain.ModelSettingNames, name):
			p.Add(at, httpx.CodeInvalidValue, "must be one of %s", httpx.Enumerated(domain.ModelSettingNames))
		case slices.Contains(f.Overridable.Value[:i], name):
			p.Add(at, httpx.CodeDuplicate, "is given twice")
		}
		if i > len(domain.ModelSettingNames) {
			return // stop early: a valid list has no more entries
		}
	}
}

// applySettings sets the agent's model settings. If the agent permits all overrides, the permission
// includes settings that a later release adds.
func (f *agentFields) applySettings(a *domain.Agent) {
	s := f.Settings(&httpx.Problems{}) // Check has reported the problems
	a.ModelSettings = s.Over(a.ModelSettings)
	switch {
	case !f.Overridable.Set:
	case f.Overridable.Null || len(f.Overridable.Value) == len(domain.ModelSettingNames):
		a.Overridable = nil
	default:
		a.Overridable = &f.Overridable.Value
	}
}

// needsModelCheck reports whether a change concerns the models or their settings. Other changes
// skip the check, so that they stay possible after a model has ceased to accept a setting.
func needsModelCheck(before, after *domain.Agent) bool {
	return before.Model != after.Model || !slices.Equal(before.FallbackModels, after.FallbackModels) ||
		!reflect.DeepEqual(before.ModelSettings, after.ModelSettings)
}

// checkModels adds a problem for each setting of an agent that one of its models does not accept.
func (h *Handler) checkModels(a *domain.Agent, p *httpx.Problems) {
	for _, fault := range h.Faults(a.Model, a.FallbackModels, a.ModelSettings) {
		p.Add(string(fault.Setting), httpx.CodeInvalidValue, "%s", fault.Message)
	}
}

// applyPrompt sets the agent's system prompt. An unchanged prompt is not checked, because agents
// from before prompt variables may contain any text.
func (f *agentFields) applyPrompt(a *domain.Agent, p *httpx.Problems) {
	if !f.SystemPrompt.Set || f.SystemPrompt.Value == a.SystemPrompt {
		return
	}
	a.SystemPrompt = f.SystemPrompt.Value
	if err := domain.CheckPrompt(a.SystemPrompt); err != nil {
		p.Add("systemPrompt", httpx.CodeInvalidValue, "%s", err)
	}
}

// shownAgent is an agent in the form that callers see. Model settings that are not set are null.
type shownAgent struct {
	domain.Agent
	shownSettings

	Overridable []domain.Setting `json:"overridable"`
}

// shownSettings has the fields of domain.ModelSettings.
type shownSettings struct {
	Temperature       *float64 `json:"temperature"`
	TopP              *float64 `json:"topP"`
	MaxOutputTokens   *int64   `json:"maxOutputTokens"`
	ReasoningEffort   *string  `json:"reasoningEffort"`
	Seed              *int64   `json:"seed"`
	Stop              []string `json:"stop"`
	ParallelToolCalls *bool    `json:"parallelToolCalls"`
}

// withSettings adds the settings to an agent that callers see.
func withSettings(agent domain.Agent) shownAgent {
	overridable := domain.ModelSettingNames
	if agent.Overridable != nil {
		overridable = *agent.Overridable
	}
	return shownAgent{agent, shownSettings(agent.ModelSettings), overridable}
}
