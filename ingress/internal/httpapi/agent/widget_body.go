package agent

import (
	"slices"

	"parley/ingress/internal/httpapi/httpx"
	"parley/shared/domain"
)

// Maximum sizes of a widget's fields, in entries and characters.
const (
	// Origins of pages that may embed a widget.
	maxOrigins = 50
	// Minimum length of the secret.
	minIdentity = 16
	// Maximum length of the secret.
	maxIdentity = 256

	// Path of the secret, for problems.
	identitySecret = "widget.identitySecret"
)

// widgetBody contains the fields of a widget in a request. A missing field stays unchanged. The
// widget is the chat that web pages embed.
type widgetBody struct {
	// Whether pages may embed the widget.
	Enabled httpx.Optional[bool] `json:"enabled"`
	// Origins of these pages; replaces the list.
	AllowedOrigins httpx.Optional[[]string] `json:"allowedOrigins"`
	// Whether visitors may send files.
	Attachments httpx.Optional[bool] `json:"attachments"`
	// Secret with which the site's server signs the identity of its visitors.
	IdentitySecret httpx.Optional[*string] `json:"identitySecret"` // null removes it
}

// Check checks the origins and a new secret. The secret *** means that the stored secret is kept;
// apply checks that there is one. A missing list of origins is valid.
func (b *widgetBody) Check(p *httpx.Problems) {
	checkOrigins(p, b.AllowedOrigins.Value)
	if secret := b.IdentitySecret.Value; secret != nil && *secret != hidden {
		p.Text(identitySecret, *secret, minIdentity, maxIdentity)
	}
}

// apply sets the widget's fields and encrypts a new secret. Unlike the headers of tools, the secret
// is not sent to another server, so it can be kept in any case.
func (b *widgetBody) apply(w *domain.Widget, seal func(string) string, p *httpx.Problems) {
	w.Enabled = b.Enabled.Or(w.Enabled)
	w.AllowedOrigins = b.AllowedOrigins.Or(w.AllowedOrigins)
	w.Attachments = b.Attachments.Or(w.Attachments)
	switch secret := b.IdentitySecret.Value; {
	case !b.IdentitySecret.Set:
	case secret == nil:
		w.IdentitySecret = ""
	case *secret != hidden:
		w.IdentitySecret = seal(*secret)
	case w.IdentitySecret == "":
		p.Add(identitySecret, httpx.CodeInvalidValue, "\"***\" keeps the stored secret, but no secret is stored yet")
	}
}

// checkOrigins checks the origins of pages that may embed a widget. Each must have exactly the form
// of the header Origin, because the service compares the two as texts.
func checkOrigins(p *httpx.Problems, origins []string) {
	const path = "widget.allowedOrigins"
	p.Count(path, len(origins), maxOrigins)
	for i, origin := range origins {
		at := httpx.Element(path, i)
		switch {
		case !httpx.IsOrigin(origin):
			p.Add(at, httpx.CodeInvalidValue, "must be an origin in the form that browsers send, such as https://www.example.com: "+
				"in lower case, with non-ASCII names as xn--…, and without patterns")
		case slices.Contains(origins[:i], origin):
			p.Add(at, httpx.CodeDuplicate, "is given twice")
		}
	}
}
