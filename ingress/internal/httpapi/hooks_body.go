package httpapi

import (
	"encoding/json"
	"slices"

	"parley/ingress/internal/webhookin"
	"parley/shared/domain"
)

// Bounds of a hook's fields.
const (
	hookSecretLeast = 8  // characters, of what sources give
	ownSecretLeast  = 16 // of what people think of themselves
	hookSecretMost  = 512
	windowMost      = 3600 // seconds
	keyTextMost     = 1000 // characters
	hiddenSecret    = "***"
)

// Headers of sources that sign in their own way, unless the hook names others.
const (
	defaultSignatureHeader = "X-Signature"
	defaultTokenHeader     = "X-Token"
)

// hookFields are the fields of a hook that callers set. Each may be left out.
type hookFields struct {
	Name             optional[string]            `json:"name"`
	AgentID          optional[string]            `json:"agentId"`
	KeyID            optional[string]            `json:"keyId"`
	SignatureHeader  removable[string]           `json:"signatureHeader"`
	DeliveryIDHeader removable[string]           `json:"deliveryIdHeader"`
	MessageTemplate  optional[string]            `json:"messageTemplate"`
	Filter           removable[[]hookFilterBody] `json:"filter"`
	Coalesce         optional[*hookGatherBody]   `json:"coalesce"`
	Enabled          optional[bool]              `json:"enabled"`
}

type hookFilterBody struct {
	Path  string          `json:"path" need:"yes"`
	Op    string          `json:"op" need:"yes"`
	Value json.RawMessage `json:"value"`
}

type hookGatherBody struct {
	Key            string `json:"key" need:"yes"`
	WindowSeconds  int    `json:"windowSeconds" need:"yes"`
	MaxWaitSeconds int    `json:"maxWaitSeconds" need:"yes"`
}

type newHookBody struct {
	hookFields

	Source domain.HookSource `json:"source" need:"yes"`
	Secret optional[string]  `json:"secret"`
}

// hookChangeBody takes back what reading a hook gave. The source stays what it is, and the secret is rotated by an action of its own.
type hookChangeBody struct {
	hookFields

	Secret         optional[string] `json:"secret"`
	Source         readOnly         `json:"source"`
	ID             readOnly         `json:"id"`
	URL            readOnly         `json:"url"`
	PreviousUntil  readOnly         `json:"previousSecretUntil"`
	LastDeliveryAt readOnly         `json:"lastDeliveryAt"`
	CreatedAt      readOnly         `json:"createdAt"`
	UpdatedAt      readOnly         `json:"updatedAt"`
}

func (b *newHookBody) Check(p *problems) {
	b.hookFields.Check(p)
	for _, of := range []struct {
		name string
		set  bool
	}{{"name", b.Name.Set}, {"agentId", b.AgentID.Set}, {"messageTemplate", b.MessageTemplate.Set}} {
		if !of.set {
			p.add(of.name, codeRequired, "is required")
		}
	}
	if !slices.Contains(domain.HookSources, b.Source) {
		if !p.has("source") {
			p.add("source", codeInvalidValue, "must be github, stripe, slack, standard, hmac or token")
		}
		return
	}
	b.checkHeaders(p, b.Source)
	if b.Secret.Set {
		checkSecret(p, b.Source, b.Secret.Value)
	}
}

func (b *hookChangeBody) Check(p *problems) {
	b.hookFields.Check(p)
	if b.Secret.Set && b.Secret.Value != hiddenSecret {
		p.add("secret", codeInvalidValue, "is changed by action=rotate, which lets the one before hold for a while")
	}
}

// Check finds what is wrong with fields by themselves, whatever the hook is.
func (f *hookFields) Check(p *problems) {
	if f.Name.Set {
		p.name("name", f.Name.Value, nameMost)
	}
	if f.MessageTemplate.Set {
		p.text("messageTemplate", f.MessageTemplate.Value, 1, webhookin.TemplateMost)
	}
	p.count("filter", len(f.Filter.Value), webhookin.FiltersMost)
	if by := f.Coalesce.Value; by != nil {
		p.text("coalesce.key", by.Key, 1, keyTextMost)
		if by.WindowSeconds < 1 || by.WindowSeconds > windowMost {
			p.add("coalesce.windowSeconds", codeInvalidValue, "must be from 1 to %d", windowMost)
		}
		if by.MaxWaitSeconds < by.WindowSeconds || by.MaxWaitSeconds > windowMost {
			p.add("coalesce.maxWaitSeconds", codeInvalidValue, "must be from windowSeconds to %d", windowMost)
		}
	}
	_, faults := webhookin.NewRules(f.MessageTemplate.Value, f.filter(), f.coalesce())
	for _, fault := range faults {
		p.add(fault.Field, codeInvalidValue, "%s", fault.Err)
	}
}

// checkHeaders checks the headers that a hook of a source may name.
func (f *hookFields) checkHeaders(p *problems, source domain.HookSource) {
	named := source == domain.HookHMAC || source == domain.HookToken
	for _, of := range []struct {
		name  string
		given removable[string]
		empty bool // allowed
	}{{"signatureHeader", f.SignatureHeader, !named}, {"deliveryIdHeader", f.DeliveryIDHeader, true}} {
		switch {
		case !of.given.Set || of.given.Null || of.given.Value == "" && of.empty:
		case !named:
			p.add(of.name, codeInvalidValue, "is for the sources hmac and token: %s names its own headers", source)
		case !headerName.MatchString(of.given.Value):
			p.add(of.name, codeInvalidValue, "must be the name of a header, of 1 to 128 characters")
		}
	}
}

func checkSecret(p *problems, source domain.HookSource, secret string) {
	least := hookSecretLeast
	if source == domain.HookHMAC || source == domain.HookToken {
		least = ownSecretLeast
	}
	p.text("secret", secret, least, hookSecretMost)
	if err := webhookin.CheckSecret(source, secret); err != nil {
		p.add("secret", codeInvalidValue, "%s", err)
	}
}

func (f *hookFields) filter() []domain.HookFilter {
	out := make([]domain.HookFilter, len(f.Filter.Value))
	for i, by := range f.Filter.Value {
		out[i] = domain.HookFilter{Path: by.Path, Op: by.Op, Value: by.Value}
	}
	return out
}

func (f *hookFields) coalesce() *domain.HookCoalesce {
	by := f.Coalesce.Value
	if by == nil {
		return nil
	}
	return &domain.HookCoalesce{Key: by.Key, WindowSeconds: by.WindowSeconds, MaxWaitSeconds: by.MaxWaitSeconds}
}

// hook is the hook that a body describes, but for its id, key and secret.
func (b *newHookBody) hook() domain.Hook {
	h := domain.Hook{
		Name: b.Name.Value, AgentID: b.AgentID.Value, Source: b.Source, DeliveryIDHeader: b.DeliveryIDHeader.Value,
		MessageTemplate: b.MessageTemplate.Value, Filter: b.filter(), Coalesce: b.coalesce(), Enabled: b.Enabled.or(true),
	}
	if h.SignatureHeader = b.SignatureHeader.Value; h.SignatureHeader == "" {
		h.SignatureHeader = defaultHeader(b.Source)
	}
	return h
}

// defaultHeader is the header that the signature, or the token, of a source is in unless the hook names another one.
func defaultHeader(source domain.HookSource) string {
	switch source {
	case domain.HookHMAC:
		return defaultSignatureHeader
	case domain.HookToken:
		return defaultTokenHeader
	case domain.HookGitHub, domain.HookStripe, domain.HookSlack, domain.HookStandard: // the protocol names it
	}
	return ""
}

type rotateHookBody struct {
	Secret      optional[string] `json:"secret"`
	KeepSeconds optional[int]    `json:"keepSeconds"`
}

func (b *rotateHookBody) Check(p *problems) {
	if n := b.KeepSeconds.Value; n < 0 || n > overlapMost {
		p.add("keepSeconds", codeInvalidValue, "must be from 0 to %d", overlapMost)
	}
}

type testHookBody struct {
	Event   optional[string]          `json:"event"`
	Payload optional[json.RawMessage] `json:"payload"`
}

func (b *testHookBody) Check(p *problems) {
	if b.Event.Set {
		p.name("event", b.Event.Value, nameMost)
	}
}
