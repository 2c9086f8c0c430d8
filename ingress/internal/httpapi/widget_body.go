package httpapi

import (
	"slices"

	"parley/shared/domain"
)

// Bounds of a widget's fields, in entries and characters.
const (
	originsMost    = 50
	identityLeast  = 16
	identityMost   = 256
	originMost     = 255
	identitySecret = "widget.identitySecret"
)

type widgetBody struct {
	Enabled        optional[bool]     `json:"enabled"`
	AllowedOrigins optional[[]string] `json:"allowedOrigins"`
	IdentitySecret optional[*string]  `json:"identitySecret"` // null removes it
}

func (b *widgetBody) Check(p *problems) {
	checkOrigins(p, b.AllowedOrigins.Value)
	if secret := b.IdentitySecret.Value; secret != nil && *secret != hidden {
		p.text(identitySecret, *secret, identityLeast, identityMost)
	}
}

// apply changes a widget to what the fields say. A new secret goes through seal.
func (b *widgetBody) apply(w *domain.Widget, seal func(string) string, p *problems) {
	w.Enabled = b.Enabled.or(w.Enabled)
	w.AllowedOrigins = b.AllowedOrigins.or(w.AllowedOrigins)
	switch secret := b.IdentitySecret.Value; {
	case !b.IdentitySecret.Set:
	case secret == nil:
		w.IdentitySecret = ""
	case *secret != hidden:
		w.IdentitySecret = seal(*secret)
	case w.IdentitySecret == "":
		p.add(identitySecret, codeInvalidValue, "there is no secret to keep: \"***\" stands for one that was set before")
	}
}

func checkOrigins(p *problems, origins []string) {
	const path = "widget.allowedOrigins"
	p.count(path, len(origins), originsMost)
	for i, origin := range origins {
		at := element(path, i)
		switch {
		case !isOrigin(origin):
			p.add(at, codeInvalidValue, "must be the scheme and host of one site as browsers send them, such as https://www.example.com: "+
				"in lower case, names of other letters as xn--…; there are no patterns")
		case slices.Contains(origins[:i], origin):
			p.add(at, codeDuplicate, "is given twice")
		}
	}
}
