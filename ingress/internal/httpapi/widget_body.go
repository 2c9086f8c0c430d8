package httpapi

import (
	"net/url"
	"slices"
	"strings"

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

func (b *widgetBody) check(p *problems) {
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
			p.add(at, codeInvalidValue, "must be a scheme and host in lower case, such as https://www.example.com")
		case slices.Contains(origins[:i], origin):
			p.add(at, codeDuplicate, "is given twice")
		}
	}
}

// isOrigin reports whether s is an origin exactly as browsers send it.
func isOrigin(s string) bool {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || len(s) > 255 {
		return false
	}
	standard := map[string]string{"http": "80", "https": "443"}[u.Scheme] // browsers leave it out
	return s == u.Scheme+"://"+u.Host && s == strings.ToLower(s) && u.Port() != standard && !strings.HasSuffix(s, ":")
}
