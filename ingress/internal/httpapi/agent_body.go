package httpapi

import (
	"regexp"
	"slices"
	"strconv"

	"parley/shared/domain"
)

// Bounds of an agent's fields, in characters and entries.
const (
	promptMost      = 32_000
	descriptionMost = 2_000
	fallbacksMost   = 3
)

// modelName is what model names look like: the offline models, or those of a provider, whether this service has a
// key for it or not; empty is the service's default.
var modelName = regexp.MustCompile(`^(offline(/echo)?|(openai|anthropic)/[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,188})?$`)

// agentFields are the fields of an agent that callers set. Each may be left out.
type agentFields struct {
	Name           optional[string]               `json:"name"`
	Description    removable[string]              `json:"description"`
	SystemPrompt   optional[string]               `json:"systemPrompt"`
	Model          removable[string]              `json:"model"`
	FallbackModels removable[[]string]            `json:"fallbackModels"`
	Tools          removable[toolsBody]           `json:"tools"`
	AllowedCallers removable[[]domain.CallerKind] `json:"allowedCallers"`
	Widget         removable[widgetBody]          `json:"widget"`
}

// defaultCallers may call an agent that does not say who may.
func defaultCallers() []domain.CallerKind { return []domain.CallerKind{domain.CallerUser} }

type createAgentBody struct {
	agentFields
	TemplateID optional[string] `json:"templateId"`
}

// updateAgentBody takes back what reading an agent gave. A version makes the update conditional.
type updateAgentBody struct {
	agentFields
	Version   optional[int] `json:"version"`
	ID        readOnly      `json:"id"`
	CreatedAt readOnly      `json:"createdAt"`
	UpdatedAt readOnly      `json:"updatedAt"`
}

func (b *createAgentBody) Check(p *problems) {
	b.agentFields.Check(p)
	if b.TemplateID.Set {
		return // which brings a name and a system prompt
	}
	if !b.Name.Set {
		p.add("name", codeRequired, "is required")
	}
	if !b.SystemPrompt.Set {
		p.add("systemPrompt", codeRequired, "is required")
	}
}

func (b *updateAgentBody) Check(p *problems) {
	b.agentFields.Check(p)
	if b.Version.Set && b.Version.Value < 1 {
		p.add("version", codeInvalidValue, "must be 1 or more")
	}
}

// Check finds what is wrong with fields by themselves, whatever the agent was before.
func (f *agentFields) Check(p *problems) {
	if f.Name.Set {
		p.name("name", f.Name.Value, nameMost)
	}
	if f.Description.Set {
		p.text("description", f.Description.Value, 0, descriptionMost)
	}
	if f.SystemPrompt.Set {
		p.text("systemPrompt", f.SystemPrompt.Value, 1, promptMost)
	}
	if f.Model.Set && !modelName.MatchString(f.Model.Value) {
		p.add("model", codeInvalidValue, noModel)
	}
	checkFallbacks(p, f.FallbackModels.Value)
	if f.Tools.Set {
		f.Tools.Value.Check(p)
	}
	if f.AllowedCallers.Set && !f.AllowedCallers.Null {
		checkCallers(p, f.AllowedCallers.Value)
	}
	f.Widget.Value.Check(p)
}

const noModel = "must be offline, offline/echo, or a model of openai or anthropic, such as openai/gpt-5-mini"

func checkFallbacks(p *problems, models []string) {
	const path = "fallbackModels"
	for i, model := range models[:min(len(models), fallbacksMost)] {
		at := element(path, i)
		switch {
		case model == "" || !modelName.MatchString(model):
			p.add(at, codeInvalidValue, noModel)
		case slices.Contains(models[:i], model):
			p.add(at, codeDuplicate, "is given twice")
		}
	}
	p.count(path, len(models), fallbacksMost) // last: a list's own problem would hide those of its entries
}

func checkCallers(p *problems, callers []domain.CallerKind) {
	if len(callers) == 0 {
		p.add("allowedCallers", codeTooShort, "must not be empty")
	}
	for i, kind := range callers {
		at := element("allowedCallers", i)
		switch {
		case kind != domain.CallerUser && kind != domain.CallerSystem:
			p.add(at, codeInvalidValue, "must be user or system")
		case slices.Contains(callers[:i], kind):
			p.add(at, codeDuplicate, "is given twice")
		}
		if i > 4 {
			return // no list of two words is this long
		}
	}
}

// element names one entry of a list in problems.
func element(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// apply changes an agent to what the fields say. What only makes sense with what the agent was before
// is checked here. New secrets go through the seals.
func (f *agentFields) apply(a *domain.Agent, seal seals, p *problems) {
	a.Name = f.Name.or(a.Name)
	a.Description = f.Description.or(a.Description)
	a.SystemPrompt = f.SystemPrompt.or(a.SystemPrompt)
	a.Model = f.Model.or(a.Model)
	a.FallbackModels = f.FallbackModels.or(a.FallbackModels)
	if i := slices.Index(a.FallbackModels, a.Model); i >= 0 {
		p.add(element("fallbackModels", i), codeDuplicate, "is the model itself")
	}
	a.AllowedCallers = f.AllowedCallers.or(a.AllowedCallers)
	if f.AllowedCallers.Null {
		a.AllowedCallers = defaultCallers()
	}
	if f.Tools.Null {
		a.Tools = domain.Tools{}
	}
	f.Tools.Value.apply(&a.Tools, seal.headers, p)
	if f.Widget.Null {
		a.Widget = domain.Widget{AllowedOrigins: []string{}}
	}
	f.Widget.Value.apply(&a.Widget, seal.identity, p)
}
