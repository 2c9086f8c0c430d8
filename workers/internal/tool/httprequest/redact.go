package httprequest

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
)

// leastSecret is how long a text must be to be taken out wherever it occurs: shorter ones occur by chance.
const leastSecret = 6

const hidden = "***"

// redactor takes an endpoint's secrets out of what it answers: the model must never learn them, whatever is echoed.
type redactor struct {
	texts  []string // longest first
	broken bool     // what it reads was cut off somewhere, which may be in the middle of a secret
}

// header adds what a header's value may give away.
func (r *redactor) header(name, value string) {
	switch name {
	case "Accept", "Accept-Language", "Content-Type", "User-Agent": // which are no secrets, and whose values are common words
		return
	}
	r.add(value)
	scheme, token, found := strings.Cut(value, " ")
	if !found {
		return
	}
	token = strings.TrimSpace(token)
	r.add(token)
	if strings.EqualFold(scheme, "Basic") {
		if plain, err := base64.StdEncoding.DecodeString(token); err == nil {
			_, password, _ := strings.Cut(string(plain), ":")
			r.add(string(plain), password)
		}
	}
}

// add adds texts, and the forms that they take inside of JSON and addresses.
func (r *redactor) add(texts ...string) {
	for _, text := range texts {
		if len(text) < leastSecret {
			continue
		}
		forms := []string{text, url.QueryEscape(text), url.PathEscape(text)}
		if b, err := json.Marshal(text); err == nil {
			forms = append(forms, string(b[1:len(b)-1]))
		}
		if b, err := encode(text); err == nil {
			forms = append(forms, string(b[1:len(b)-1]))
		}
		r.texts = append(r.texts, forms...)
	}
	slices.SortFunc(r.texts, func(a, b string) int { // a part of another must not go first
		return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b))
	})
	r.texts = slices.Compact(r.texts)
}

// text gives a text without secrets, and without what no database keeps.
func (r *redactor) text(s string) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "")
	for _, secret := range r.texts {
		s = strings.ReplaceAll(s, secret, hidden)
	}
	if r.broken {
		return r.trim(s)
	}
	return s
}

// trim takes the beginning of a secret away from the end of a text.
func (r *redactor) trim(s string) string {
	s = strings.TrimRight(s, "\uFFFD") // half a character
	longest := 0
	for _, secret := range r.texts {
		for n := min(len(secret), len(s)); n > longest; n-- {
			if strings.HasSuffix(s, secret[:n]) {
				longest = n
			}
		}
	}
	return s[:len(s)-longest]
}

// value does the same to all that a value of JSON holds.
func (r *redactor) value(v any) any {
	switch v := v.(type) {
	case string:
		return r.text(v)
	case json.Number:
		if text := r.text(v.String()); text != v.String() {
			return text
		}
		return v
	case []any:
		for i := range v {
			v[i] = r.value(v[i])
		}
		return v
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, item := range v {
			out[r.text(name)] = r.value(item)
		}
		return out
	default:
		return v
	}
}
