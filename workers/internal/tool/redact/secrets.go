// Package redact takes an organization's secrets out of what others answer: a server that is given a key may send it
// back, and then it must reach neither the model nor a log.
//
//	Secrets (headers, addresses, keys of one call) ─► Redactor ─► texts, values of JSON, causes of errors
package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"regexp"
	"strings"
	"unicode"
)

const (
	leastSecret = 6  // bytes that a text must have to be taken out wherever it occurs: shorter ones occur by chance
	leastKey    = 16 // characters of a part of an address that is taken for a key by its looks
)

// secretName is how values in a query are called that are meant to be kept.
var secretName = regexp.MustCompile(`(?i)(key|token|secret|password|passwd|pwd|sig|signature|auth|authorization|credentials?|jwt)$`)

// Secrets gathers what must not be shown; the zero value has none.
type Secrets struct{ forms []string }

// Header adds what the value of a header may give away; name is the canonical one.
func (s *Secrets) Header(name, value string) {
	switch name {
	case "Accept", "Accept-Language", "Content-Type", "User-Agent": // which are no secrets, and whose values are common words
		return
	}
	s.Add(value)
	scheme, token, found := strings.Cut(value, " ")
	if !found {
		return
	}
	token = strings.TrimSpace(token)
	s.Add(token)
	if strings.EqualFold(scheme, "Basic") {
		if plain, err := base64.StdEncoding.DecodeString(token); err == nil {
			_, password, _ := strings.Cut(string(plain), ":")
			s.Add(string(plain), password)
		}
	}
}

// Address adds the keys that an address holds: most of it is not secret and made of common words, so that names and
// looks decide. What has a variable of a template in it is none.
func (s *Secrets) Address(address string) {
	address, _, _ = strings.Cut(address, "#")
	rest, query, _ := strings.Cut(address, "?")
	for pair := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(pair, "=")
		plain, err := url.QueryUnescape(value)
		if err != nil {
			plain = value
		}
		if !strings.ContainsAny(value, "{}") && (secretName.MatchString(name) || isKey(plain)) {
			s.Add(value, plain)
		}
	}
	_, rest, _ = strings.Cut(rest, "://")
	authority, path, _ := strings.Cut(rest, "/")
	if user, _, found := strings.Cut(authority, "@"); found {
		_, password, _ := strings.Cut(user, ":")
		s.Add(user, password)
	}
	for segment := range strings.SplitSeq(path, "/") {
		if plain, err := url.PathUnescape(segment); err == nil && isKey(plain) && !strings.ContainsAny(segment, "{}") {
			s.Add(segment, plain)
		}
	}
}

// isKey reports whether a text looks as if it were made by a machine: long, and not of words and numbers.
func isKey(text string) bool {
	if len(text) < leastKey {
		return false
	}
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return strings.ContainsRune("-_. ", r) }) {
		if len(word) >= leastKey/2 && strings.ContainsFunc(word, unicode.IsDigit) && strings.ContainsFunc(word, unicode.IsLetter) {
			return true
		}
	}
	return false
}

// Add adds texts, and the forms that they take inside of JSON and addresses, in hexadecimal digits and in base64.
func (s *Secrets) Add(texts ...string) {
	for _, text := range texts {
		if len(text) < leastSecret {
			continue
		}
		s.forms = append(s.forms, text, url.QueryEscape(text), url.PathEscape(text), hex.EncodeToString([]byte(text)))
		s.forms = append(s.forms, base64Forms(text)...)
		for _, escapeHTML := range []bool{true, false} {
			var b bytes.Buffer
			e := json.NewEncoder(&b)
			e.SetEscapeHTML(escapeHTML)
			if err := e.Encode(text); err == nil {
				quoted := strings.TrimSuffix(b.String(), "\n")
				s.forms = append(s.forms, quoted[1:len(quoted)-1])
			}
		}
	}
}

// base64Forms gives what a text looks like inside of a longer one's base64, in both alphabets. There is a form for each alignment: the
// bytes before the text are a multiple of three, or one or two more. The characters that also hold bits of a neighbour are left out.
func base64Forms(text string) []string {
	const bits = 6 // of a character
	var out []string
	for before := range 3 {
		padded := append(make([]byte, before), text...)
		first, end := (8*before+bits-1)/bits, 8*len(padded)/bits
		out = append(out, base64.RawStdEncoding.EncodeToString(padded)[first:end], base64.RawURLEncoding.EncodeToString(padded)[first:end])
	}
	return out
}

// Redactor gives what takes the secrets out that were added so far.
func (s *Secrets) Redactor() *Redactor { return newRedactor(s.forms) }
