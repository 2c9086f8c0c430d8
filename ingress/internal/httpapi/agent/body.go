package agent

import (
	"encoding/json"
	"regexp"
	"slices"

	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/httpapi/runbody"
	"parley/shared/domain"
)

// Maximum sizes of an agent's fields, in characters and entries.
const (
	// System prompt, before its variables are replaced.
	maxPrompt = 32_000

	// Number of fallback models.
	maxFallbacks = 3

	// Number of suggestions, and the length of each.
	maxSuggestions, maxSuggestion = 6, 200
)

// modelName matches the names of the offline models and of the providers' models, whether or not
// the service has a key for the provider. An empty name selects the service's default model.
var modelName = regexp.MustCompile(`^(offline(/echo)?|(openai|anthropic)/[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,188})?$`)

// agentFields contains the fields of an agent that callers can set. Each field may be missing.
// Optional fields keep the agent's value if they are missing. Removable fields may also be null,
// which sets their default.
type agentFields struct {
	// Name of the agent, as lists show it.
	Name        httpx.Optional[string]  `json:"name"`
	Description httpx.Removable[string] `json:"description"`
	// Instructions for the model, which may contain prompt variables.
	SystemPrompt httpx.Optional[string] `json:"systemPrompt"`
	// Name of the model; empty: the default model of the service.
	Model httpx.Removable[string] `json:"model"`
	// Models to use, in this order, if the model fails.
	FallbackModels httpx.Removable[[]string] `json:"fallbackModels"`
	// Tools by name; see toolsBody.
	Tools httpx.Removable[toolsBody] `json:"tools"`
	// Kinds of callers that may call the agent; null: users only.
	AllowedCallers httpx.Removable[[]domain.CallerKind] `json:"allowedCallers"`
	Widget         httpx.Removable[widgetBody]          `json:"widget"`
	// JSON Schema of the answers; null: answers are text.
	OutputSchema httpx.Removable[json.RawMessage] `json:"outputSchema"`
	// Whether answers of the API under /v1 end with a list of their sources and files.
	AppendSources httpx.Removable[bool] `json:"appendSources"`
	// Questions that an empty chat offers.
	Suggestions httpx.Removable[[]string] `json:"suggestions"`
	// Settings of the model, each as a separate field.
	runbody.SettingsBody
	// Settings that a request may override for its run; null: all.
	Overridable httpx.Removable[[]domain.Setting] `json:"overridable"`
}

// defaultCallers returns the kinds of callers that may use an agent if its creator does not list
// them. Automations, whose kind is system, must be permitted explicitly.
func defaultCallers() []domain.CallerKind { return []domain.CallerKind{domain.CallerUser} }

// createAgentBody is the body of POST /api/agents.
type createAgentBody struct {
	agentFields
	// Template to start from.
	TemplateID httpx.Optional[string] `json:"templateId"`
}

// updateAgentBody is the body of a PUT. It accepts all fields of an agent that was read with GET.
// If it contains a version, the update fails unless the agent has this version. Read-only fields
// must have their current values; see httpx.Unchanged.
type updateAgentBody struct {
	agentFields
	// Version that the agent must have; missing: any.
	Version   httpx.Optional[int]           `json:"version"`
	ID        httpx.ReadOnly                `json:"id"`
	CreatedAt httpx.ReadOnly                `json:"createdAt"`
	UpdatedAt httpx.ReadOnly                `json:"updatedAt"`
	LastCheck httpx.Volatile[lastCheckBody] `json:"lastCheck"`
}

// lastCheckBody is the result of an agent's last check. Clients that read the agent may send it
// back. Its content is not checked, because the service sets it.
type lastCheckBody struct {
	Version   int               `json:"version"`
	CheckedAt string            `json:"checkedAt"`
	OK        bool              `json:"ok"`
	Checks    []json.RawMessage `json:"checks"`
}

// Check checks the fields. Name and system prompt are required unless a template provides them.
func (b *createAgentBody) Check(p *httpx.Problems) {
	b.agentFields.Check(p)
	if b.TemplateID.Set {
		return // the template provides name and system prompt
	}
	if !b.Name.Set {
		p.Add("name", httpx.CodeRequired, "is required")
	}
	if !b.SystemPrompt.Set {
		p.Add("systemPrompt", httpx.CodeRequired, "is required")
	}
}

// Check checks the fields. All of them may be missing. Checks that depend on the stored agent are
// made in apply.
func (b *updateAgentBody) Check(p *httpx.Problems) {
	b.agentFields.Check(p)
	if b.Version.Set && b.Version.Value < 1 {
		p.Add("version", httpx.CodeInvalidValue, "must be 1 or more")
	}
}

// Check checks the fields independently of the agent's previous state. It reports all problems that
// can be found without the database, so that one response contains them.
func (f *agentFields) Check(p *httpx.Problems) {
	if f.Name.Set {
		p.Name("name", f.Name.Value, httpx.MaxName)
	}
	if f.Description.Set {
		p.Prose("description", f.Description.Value, httpx.MaxDescription)
	}
	if f.SystemPrompt.Set {
		p.Text("systemPrompt", f.SystemPrompt.Value, 1, maxPrompt)
	}
	if f.Model.Set && !modelName.MatchString(f.Model.Value) {
		p.Add("model", httpx.CodeInvalidValue, invalidModel)
	}

	// For null and for a missing list, the value is an empty list, which is valid.
	checkFallbacks(p, f.FallbackModels.Value)
	if f.Tools.Set {
		f.Tools.Value.Check(p)
	}
	if f.AllowedCallers.Set && !f.AllowedCallers.Null {
		checkCallers(p, f.AllowedCallers.Value)
	}

	f.Widget.Value.Check(p)
	checkSuggestions(p, f.Suggestions.Value)
	runbody.CheckOutputSchema(p, "outputSchema", f.OutputSchema.Value)
	f.checkSettings(p)
}

// invalidModel is the message for a name that does not match modelName.
const invalidModel = "must be offline, offline/echo, or a model of openai or anthropic, such as openai/gpt-5-mini"

// checkFallbacks checks the names of the fallback models. A name must not be empty or occur twice.
// apply checks that the agent's own model is not among them.
func checkFallbacks(p *httpx.Problems, models []string) {
	const path = "fallbackModels"
	for i, model := range models[:min(len(models), maxFallbacks)] {
		at := httpx.Element(path, i)
		switch {
		case model == "" || !modelName.MatchString(model):
			p.Add(at, httpx.CodeInvalidValue, invalidModel)
		case slices.Contains(models[:i], model):
			p.Add(at, httpx.CodeDuplicate, "is given twice")
		}
	}

	p.Count(path, len(models), maxFallbacks) // last, because a problem of the list suppresses problems of its entries
}

// checkSuggestions checks the questions that an empty chat offers. Each is a single line of at most
// maxSuggestion characters.
func checkSuggestions(p *httpx.Problems, questions []string) {
	const path = "suggestions"
	for i, question := range questions[:min(len(questions), maxSuggestions)] {
		at := httpx.Element(path, i)
		p.Name(at, question, maxSuggestion)
		if slices.Contains(questions[:i], question) {
			p.Add(at, httpx.CodeDuplicate, "is given twice")
		}
	}

	p.Count(path, len(questions), maxSuggestions)
}

// checkCallers checks the kinds of callers who may call an agent. It must not be called for null,
// which selects the default.
func checkCallers(p *httpx.Problems, callers []domain.CallerKind) {
	if len(callers) == 0 {
		p.Add("allowedCallers", httpx.CodeTooShort, "must not be empty")
	}

	for i, kind := range callers {
		at := httpx.Element("allowedCallers", i)
		switch {
		case kind != domain.CallerUser && kind != domain.CallerSystem:
			p.Add(at, httpx.CodeInvalidValue, "must be user or system")
		case slices.Contains(callers[:i], kind):
			p.Add(at, httpx.CodeDuplicate, "is given twice")
		}
		if i > 4 {
			return // stop early: a valid list has at most two entries
		}
	}
}

// apply sets the agent's fields and encrypts new secrets. It also makes the checks that depend on
// the agent's previous state. Problems are added to p. After a problem, the agent is incomplete and
// must not be stored. Check must have succeeded before. Missing fields keep the agent's values. In
// a new agent, these are the values of its template.
func (f *agentFields) apply(a *domain.Agent, seal seals, p *httpx.Problems) {
	a.Name = f.Name.Or(a.Name)
	a.Description = f.Description.Or(a.Description)
	f.applyPrompt(a, p)
	a.Model = f.Model.Or(a.Model)
	a.FallbackModels = f.FallbackModels.Or(a.FallbackModels)

	// Compare the model with its fallbacks after both fields are set, because a request may change
	// only one of the fields.
	if i := slices.Index(a.FallbackModels, a.Model); i >= 0 {
		p.Add(httpx.Element("fallbackModels", i), httpx.CodeDuplicate, "must differ from the agent's model")
	}

	a.AllowedCallers = f.AllowedCallers.Or(a.AllowedCallers)
	if f.AllowedCallers.Null {
		a.AllowedCallers = defaultCallers()
	}
	a.AppendSources = f.AppendSources.Or(a.AppendSources)
	a.Suggestions = f.Suggestions.Or(a.Suggestions)

	// Null removes all tools. The body then contains no tools to apply.
	if f.Tools.Null {
		a.Tools = domain.Tools{}
	}

	f.Tools.Value.apply(&a.Tools, seal.headers, p)
	if f.Widget.Null {
		a.Widget = domain.Widget{AllowedOrigins: []string{}}
	}

	f.Widget.Value.apply(&a.Widget, seal.identity, p)
	a.OutputSchema = domain.JSONSchema(f.OutputSchema.Or(json.RawMessage(a.OutputSchema)))
	f.applySettings(a)
}
