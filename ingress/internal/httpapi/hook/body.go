package hook

import (
	"encoding/json"
	"slices"

	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/httpapi/runbody"
	"parley/ingress/internal/webhookin"
	"parley/shared/domain"
)

// Bounds of a hook's fields. Text fields without a limit here are limited by package webhookin.
const (
	minSourceSecret = 8  // minimum number of characters in secrets that the source creates
	minChosenSecret = 16 // minimum number of characters in secrets that people choose
	// Maximum number of characters in any secret.
	maxHookSecret = 512
	// Maximum time for which deliveries are combined.
	maxWindow = 3600 // seconds
	// Maximum length of the expression for a key.
	maxKeyText = 1000 // characters

)

// Default headers for sources whose protocol does not define a header. They are used if the creator
// of the hook names none.
const (
	defaultSignatureHeader = "X-Signature"
	defaultTokenHeader     = "X-Token"
)

// hookFields contains the fields of a hook that callers can set. Each field may be missing.
// Removable fields may also be null, which sets their default. Rules that depend on the source are
// checked by checkHeaders.
type hookFields struct {
	Name httpx.Optional[string] `json:"name"`
	// Agent that the deliveries start.
	AgentID httpx.Optional[string] `json:"agentId"`
	// Id of one of the organization's API keys; the runs start with the rights of this key.
	KeyID httpx.Optional[string] `json:"keyId"`
	// Header with the signature or token.
	SignatureHeader httpx.Removable[string] `json:"signatureHeader"`
	// Header with the id of a delivery; "": the id is derived from the body.
	DeliveryIDHeader httpx.Removable[string] `json:"deliveryIdHeader"`
	// Message of the run, with variables for parts of the delivery.
	MessageTemplate httpx.Optional[string] `json:"messageTemplate"`
	// JSON Schema of the answers.
	OutputSchema httpx.Removable[json.RawMessage] `json:"outputSchema"`
	// Conditions that a delivery must meet to start a run.
	Filter httpx.Removable[[]hookFilterBody] `json:"filter"`
	// Rule for combining deliveries; null: each delivery starts a run.
	Coalesce httpx.Optional[*hookCoalesceBody] `json:"coalesce"`
	// Whether the hook accepts deliveries; missing in a new hook: true.
	Enabled httpx.Optional[bool] `json:"enabled"`
}

// hookFilterBody is a condition on a delivery's payload. The operators and their values are defined
// by package webhookin.
type hookFilterBody struct {
	Path  string          `json:"path" required:"true"`
	Op    string          `json:"op" required:"true"`
	Value json.RawMessage `json:"value"`
}

// hookCoalesceBody is the rule for combining several deliveries with the same key into one run. The
// run waits until no further delivery has arrived for the time of the window, but at most for the
// maximum wait.
type hookCoalesceBody struct {
	// Template of the key.
	Key string `json:"key" required:"true"`
	// Time for which the run waits after the latest delivery.
	WindowSeconds int `json:"windowSeconds" required:"true"`
	// Maximum time after the first delivery.
	MaxWaitSeconds int `json:"maxWaitSeconds" required:"true"`
}

// newHookBody is the body of POST /api/hooks. The service generates a secret if the body has none.
type newHookBody struct {
	hookFields

	Source domain.HookSource      `json:"source" required:"true"`
	Secret httpx.Optional[string] `json:"secret"`
}

// hookChangeBody is the body of a PUT. It accepts all fields of a hook that was read with GET. It
// can change neither the source nor the secret; the action rotate changes the secret. The headers
// are checked against the source of the stored hook.
type hookChangeBody struct {
	hookFields

	Secret         httpx.Optional[string] `json:"secret"`
	Source         httpx.ReadOnly         `json:"source"`
	ID             httpx.ReadOnly         `json:"id"`
	URL            httpx.ReadOnly         `json:"url"`
	PreviousUntil  httpx.Volatile[string] `json:"previousSecretUntil"`
	LastDeliveryAt httpx.Volatile[string] `json:"lastDeliveryAt"`
	LastRejectedAt httpx.Volatile[string] `json:"lastRejectedAt"`
	CreatedAt      httpx.ReadOnly         `json:"createdAt"`
	UpdatedAt      httpx.ReadOnly         `json:"updatedAt"`
}

// Check checks the fields. Some rules for the headers and the secret depend on the source. Missing
// required fields are reported together with the other problems.
func (b *newHookBody) Check(p *httpx.Problems) {
	b.hookFields.Check(p)
	for _, field := range []struct {
		name string
		set  bool
	}{{"name", b.Name.Set}, {"agentId", b.AgentID.Set}, {"messageTemplate", b.MessageTemplate.Set}} {
		if !field.set {
			p.Add(field.name, httpx.CodeRequired, "is required")
		}
	}

	// The rules below depend on the source, so they cannot be checked if the source is unknown.
	if !slices.Contains(domain.HookSources, b.Source) {
		if !p.Has("source") {
			p.Add("source", httpx.CodeInvalidValue, "must be github, stripe, slack, standard, hmac or token")
		}
		return
	}

	b.checkHeaders(p, b.Source)
	if b.Secret.Set {
		checkSecret(p, b.Source, b.Secret.Value)
	}
}

// Check checks the fields whose rules do not depend on the source, which this body does not
// contain. The handler checks the headers when it knows the source.
func (b *hookChangeBody) Check(p *httpx.Problems) {
	b.hookFields.Check(p)
	if b.Secret.Set && b.Secret.Value != httpx.HiddenSecret {
		p.Add("secret", httpx.CodeInvalidValue, "cannot be changed here: use action=rotate, which keeps the previous secret valid for a while")
	}
}

// Check checks the fields independently of the hook's source. Templates, conditions and the key of
// coalescing are parsed by webhookin.NewRules, so that a delivery cannot fail because of them.
func (f *hookFields) Check(p *httpx.Problems) {
	if f.Name.Set {
		p.Name("name", f.Name.Value, httpx.MaxName)
	}
	if f.MessageTemplate.Set {
		p.Text("messageTemplate", f.MessageTemplate.Value, 1, webhookin.MaxTemplate)
	}

	runbody.CheckOutputSchema(p, "outputSchema", f.OutputSchema.Value)
	p.Count("filter", len(f.Filter.Value), webhookin.MaxFilters)
	if by := f.Coalesce.Value; by != nil {
		p.Text("coalesce.key", by.Key, 1, maxKeyText)
		if by.WindowSeconds < 1 || by.WindowSeconds > maxWindow {
			p.Add("coalesce.windowSeconds", httpx.CodeInvalidValue, "must be from 1 to %d", maxWindow)
		}
		if by.MaxWaitSeconds < by.WindowSeconds || by.MaxWaitSeconds > maxWindow {
			p.Add("coalesce.maxWaitSeconds", httpx.CodeInvalidValue, "must be from windowSeconds to %d", maxWindow)
		}
	}

	// Missing parts are parsed as empty, which is valid.
	_, faults := webhookin.NewRules(f.MessageTemplate.Value, f.filter(), f.coalesce())
	for _, fault := range faults {
		p.Add(fault.Field, httpx.CodeInvalidValue, "%s", fault.Err)
	}
}

// checkHeaders checks the names of a hook's headers by the rules for the hook's source. The names
// can be chosen only for the generic sources, hmac and token.
func (f *hookFields) checkHeaders(p *httpx.Problems, source domain.HookSource) {
	named := source == domain.HookHMAC || source == domain.HookToken
	for _, field := range []struct {
		name   string
		header httpx.Removable[string]
		empty  bool // the header name may be empty
	}{{"signatureHeader", f.SignatureHeader, !named}, {"deliveryIdHeader", f.DeliveryIDHeader, true}} {
		switch {
		case !field.header.Set || field.header.Null || field.header.Value == "" && field.empty:
		case !named:
			p.Add(field.name, httpx.CodeInvalidValue, "can be set only for the sources hmac and token; the headers of %s are fixed", source)
		case !httpx.HeaderName.MatchString(field.header.Value):
			p.Add(field.name, httpx.CodeInvalidValue, "must be a header name of 1 to 128 characters")
		}
	}
}

// checkSecret checks a hook's secret by the rules for the hook's source. Secrets that people choose
// must be longer than secrets that a source creates. Problems are added to p; they never contain
// the secret.
func checkSecret(p *httpx.Problems, source domain.HookSource, secret string) {
	minimum := minSourceSecret
	if source == domain.HookHMAC || source == domain.HookToken {
		minimum = minChosenSecret
	}
	p.Text("secret", secret, minimum, maxHookSecret)
	if err := webhookin.CheckSecret(source, secret); err != nil {
		p.Add("secret", httpx.CodeInvalidValue, "%s", err)
	}
}

// filter returns the conditions in the form that is stored. The result is never nil. The conditions
// must have been checked.
func (f *hookFields) filter() []domain.HookFilter {
	out := make([]domain.HookFilter, len(f.Filter.Value))
	for i, by := range f.Filter.Value {
		out[i] = domain.HookFilter{Path: by.Path, Op: by.Op, Value: by.Value}
	}
	return out
}

// coalesce returns the coalescing rule, or nil if the body has none. The result is also nil for
// null, which removes the rule.
func (f *hookFields) coalesce() *domain.HookCoalesce {
	by := f.Coalesce.Value
	if by == nil {
		return nil
	}
	return &domain.HookCoalesce{Key: by.Key, WindowSeconds: by.WindowSeconds, MaxWaitSeconds: by.MaxWaitSeconds}
}

// hook returns the hook that a body describes, without id, key and secret. Missing optional fields
// have their defaults. The body must have been checked.
func (b *newHookBody) hook() domain.Hook {
	h := domain.Hook{
		Name: b.Name.Value, AgentID: b.AgentID.Value, Source: b.Source, DeliveryIDHeader: b.DeliveryIDHeader.Value,
		MessageTemplate: b.MessageTemplate.Value, Filter: b.filter(), Coalesce: b.coalesce(), Enabled: b.Enabled.Or(true),
		OutputSchema: domain.JSONSchema(b.OutputSchema.Value),
	}
	if h.SignatureHeader = b.SignatureHeader.Value; h.SignatureHeader == "" {
		h.SignatureHeader = defaultHeader(b.Source)
	}
	return h
}

// defaultHeader returns the default header for a source's signature or token, or "" if the source
// always uses the same header. Unknown sources have no default.
func defaultHeader(source domain.HookSource) string {
	switch source {
	case domain.HookHMAC:
		return defaultSignatureHeader
	case domain.HookToken:
		return defaultTokenHeader
	case domain.HookGitHub, domain.HookStripe, domain.HookSlack, domain.HookStandard: // the protocol defines it
	}
	return ""
}

// rotateHookBody is the optional body of a rotation. Without a secret, the service generates one.
// The previous secret stays valid for KeepSeconds.
type rotateHookBody struct {
	// New secret.
	Secret httpx.Optional[string] `json:"secret"`
	// Time in seconds; missing: httpx.DefaultOverlap.
	KeepSeconds httpx.Optional[int] `json:"keepSeconds"`
}

// Check checks how long the previous secret stays valid. The new secret is checked later, because
// the rules for it depend on the hook's source. A missing value is valid.
func (b *rotateHookBody) Check(p *httpx.Problems) {
	if n := b.KeepSeconds.Value; n < 0 || n > httpx.MaxOverlap {
		p.Add("keepSeconds", httpx.CodeInvalidValue, "must be from 0 to %d", httpx.MaxOverlap)
	}
}

// testHookBody is the optional body of a test delivery. Without this body, the delivery has the
// event "test" and a fixed payload.
type testHookBody struct {
	// Name of the event.
	Event httpx.Optional[string] `json:"event"`
	// Payload of the delivery, as JSON.
	Payload httpx.Optional[json.RawMessage] `json:"payload"`
}

// Check checks the event's name. Any JSON is accepted as the payload. A missing field is valid.
func (b *testHookBody) Check(p *httpx.Problems) {
	if b.Event.Set {
		p.Name("event", b.Event.Value, httpx.MaxName)
	}
}
