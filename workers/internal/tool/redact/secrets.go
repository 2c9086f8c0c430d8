// Package redact removes an organization's secrets from the responses of other servers. A server
// that receives a key may send it back. The key must reach neither the model nor a log.
//
//	Secrets (headers, addresses, keys of one call) ─► Redactor ─► texts, JSON values, causes of errors
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
	minSecret = 6  // minimum length of a secret in bytes; shorter texts occur by chance
	minKey    = 16 // minimum number of characters of a key in an address
)

// secretName matches the names of query parameters whose values are considered secret.
var secretName = regexp.MustCompile(`(?i)(key|token|secret|password|passwd|pwd|sig|signature|auth|authorization|credentials?|jwt)$`)

// Secrets collects the secrets of a call. The zero value has none.
type Secrets struct{ forms []string }

// Header adds the secrets in a header's value. name must be in canonical form.
func (s *Secrets) Header(name, value string) {
	switch name {
	case "Accept", "Accept-Language", "Content-Type", "User-Agent": // the values of these headers are common words and not secrets
		return
	}
	s.Add(value)

	// A server may quote only the token of an Authorization header, or the decoded form of a Basic
	// token.
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

// Address adds the keys in an address. Most parts of an address are ordinary words. A part is
// considered a key because of the name of its query parameter or because of its form. Parts with a
// template variable are ignored.
func (s *Secrets) Address(address string) {
	address, _, _ = strings.Cut(address, "#")

	// Each value is added in encoded and decoded form, because a response may quote the address or
	// only the value.
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
	// The part of the host before the @ may contain a user name and a password.
	if user, _, found := strings.Cut(authority, "@"); found {
		_, password, _ := strings.Cut(user, ":")
		s.Add(user, password)
	}

	// Some services have keys in the path. Only path segments that look generated are considered
	// keys.
	for segment := range strings.SplitSeq(path, "/") {
		if plain, err := url.PathUnescape(segment); err == nil && isKey(plain) && !strings.ContainsAny(segment, "{}") {
			s.Add(segment, plain)
		}
	}
}

// isKey reports whether a text looks like a generated key: it is long and has a part with both
// letters and digits.
func isKey(text string) bool {
	if len(text) < minKey {
		return false
	}
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return strings.ContainsRune("-_. ", r) }) {
		// Ordinary words rarely contain both letters and digits.
		if len(word) >= minKey/2 && strings.ContainsFunc(word, unicode.IsDigit) && strings.ContainsFunc(word, unicode.IsLetter) {
			return true
		}
	}
	return false
}

// Add adds secrets, together with their encodings in JSON, URLs, hexadecimal and base64.
func (s *Secrets) Add(texts ...string) {
	for _, text := range texts {
		// Replacing a short text would damage ordinary words in the response.
		if len(text) < minSecret {
			continue
		}
		s.forms = append(s.forms, text, url.QueryEscape(text), url.PathEscape(text), hex.EncodeToString([]byte(text)))
		s.forms = append(s.forms, base64Forms(text)...)

		// JSON encoders differ in whether they escape HTML characters, so both forms are added.
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

// base64Forms returns the forms of a text within the base64 encoding of a longer text, in both
// alphabets. Three bytes become four characters, so there are three forms, one for each position of
// the text's beginning. Characters that also encode bits of adjacent bytes are omitted.
func base64Forms(text string) []string {
	const bits = 6 // number of bits that one character encodes
	var out []string
	for before := range 3 {
		padded := append(make([]byte, before), text...)
		first, end := (8*before+bits-1)/bits, 8*len(padded)/bits
		out = append(out, base64.RawStdEncoding.EncodeToString(padded)[first:end], base64.RawURLEncoding.EncodeToString(padded)[first:end])
	}
	return out
}

// Redactor returns a redactor for the secrets added so far.
func (s *Secrets) Redactor() *Redactor { return newRedactor(s.forms) }
