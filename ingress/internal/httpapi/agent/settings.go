package agent

import (
	"reflect"
	"slices"

	"parley/ingress/internal/httpapi/httpx"
	"parley/shared/domain"
)

// checkSettings checks the model settings without regard to the models; see checkModels. The list
// of overridable settings must have known names, each at most once.
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
			return // stop here: no valid list is longer
		}
	}
}

// applySettings sets the agent's model settings. If requests may change all settings, it stores
// nil, which includes the settings of later releases. The caller must have called checkSettings.
func (f *agentFields) applySettings(a *domain.Agent) {
	s := f.Settings(&httpx.Problems{}) // Check has reported the problems

	// The method Over keeps the agent's settings that the request does not have.
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
// need no check, so that an agent can still be changed when its model no longer accepts one of its
// settings. needsModelCheck compares the names of the models. It does not detect that the default
// model of the service has changed.
func needsModelCheck(before, after *domain.Agent) bool {
	return before.Model != after.Model || !slices.Equal(before.FallbackModels, after.FallbackModels) ||
		!reflect.DeepEqual(before.ModelSettings, after.ModelSettings)
}

// checkModels adds a problem for each setting of an agent that one of its models does not accept.
// The problem's path is the name of the setting.
func (h *Handler) checkModels(a *domain.Agent, p *httpx.Problems) {
	for _, fault := range h.Faults(a.Model, a.FallbackModels, a.ModelSettings) {
		p.Add(string(fault.Setting), httpx.CodeInvalidValue, "%s", fault.Message)
	}
}

// applyPrompt sets the agent's system prompt. It does not check an unchanged prompt, because
// prompts from before the introduction of prompt variables may contain any text. If the prompt is
// invalid, applyPrompt adds a problem to p, but sets the prompt nevertheless.
func (f *agentFields) applyPrompt(a *domain.Agent, p *httpx.Problems) {
	if !f.SystemPrompt.Set || f.SystemPrompt.Value == a.SystemPrompt {
		return
	}
	a.SystemPrompt = f.SystemPrompt.Value
	if err := domain.CheckPrompt(a.SystemPrompt); err != nil {
		p.Add("systemPrompt", httpx.CodeInvalidValue, "%s", err)
	}
}

// shownAgent is an agent in the form of responses. Model settings that the agent does not set are
// null. The JSON has the fields of all three parts on one level. A field of shownSettings hides the
// field of domain.Agent with the same name.
type shownAgent struct {
	domain.Agent
	shownSettings

	// Names of the settings that a request may override; never null.
	Overridable []domain.Setting `json:"overridable"`
}

// shownSettings has the fields of domain.ModelSettings. Its fields have no omitempty, so responses
// always have all settings.
type shownSettings struct {
	Temperature       *float64 `json:"temperature"`
	TopP              *float64 `json:"topP"`
	MaxOutputTokens   *int64   `json:"maxOutputTokens"`
	ReasoningEffort   *string  `json:"reasoningEffort"`
	Seed              *int64   `json:"seed"`
	Stop              []string `json:"stop"`
	ParallelToolCalls *bool    `json:"parallelToolCalls"`
}

// withSettings returns an agent in the form of responses, with its settings. A nil list of
// overridable settings stands for all of them.
func withSettings(agent domain.Agent) shownAgent {
	overridable := domain.ModelSettingNames
	if agent.Overridable != nil {
		overridable = *agent.Overridable
	}
	return shownAgent{agent, shownSettings(agent.ModelSettings), overridable}
}
