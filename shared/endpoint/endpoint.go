// Package endpoint parses the URLs and signing secrets of the endpoints that an agent may call. The
// ingress validates them when an agent is saved, and tool workers use them.
//
// The arguments come from a model and are untrusted. A template therefore fixes the scheme, the
// host and the structure of the path and of the query; arguments fill only segments and values. The
// package assumes that servers may unescape a path more than once. It opens no connections; package
// outbound decides which addresses may be reached.
package endpoint

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Template is the URL of an endpoint. Segments of its path and values of its query may contain
// {name} for arguments. An argument can neither change the host nor leave its segment or value. A
// template is never changed, so it is safe for concurrent use.
type Template struct {
	base     string // scheme and authority, as written
	at       *url.URL
	path     []segment
	query    []pair
	hasQuery bool // it contains a question mark
}

// segment is the part of a path between two slashes.
type segment []piece

// pair is a part of a query: "name=value", or a literal part without variables.
type pair struct {
	name  string // including the equals sign
	value []piece
}

// piece is a literal, as written, or a variable.
type piece struct {
	literal  string
	variable string
}

// maxBytes is the maximum length of a template.
const maxBytes = 2048

// variableName matches the names that model providers accept as a property of a tool's arguments.
var variableName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

// Parse parses a template. The text of its errors continues a sentence that begins with the name of
// the field.
func Parse(raw string) (*Template, error) {
	switch {
	case len(raw) > maxBytes:
		return nil, fmt.Errorf("must have at most %d characters", maxBytes)
	// Clients treat spaces, backslashes and control characters differently, so none of these may
	// reach a request.
	case !utf8.ValidString(raw) || strings.ContainsFunc(raw, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '\\' }):
		return nil, errors.New("must not contain spaces, backslashes or control characters")
	case strings.Contains(raw, "#"):
		return nil, errors.New("must not contain a fragment")
	}

	scheme, rest, found := strings.Cut(raw, "://")
	if scheme = strings.ToLower(scheme); !found || scheme != "http" && scheme != "https" {
		return nil, errors.New("must be a URL that begins with https:// or http://")
	}

	// The authority of a URL ends where the path or the query begins.
	end := len(rest)
	if at := strings.IndexAny(rest, "/?"); at >= 0 {
		end = at
	}

	t := &Template{base: scheme + "://" + rest[:end]}
	if err := t.readAuthority(); err != nil {
		return nil, err
	}

	path, query, hasQuery := strings.Cut(rest[end:], "?")
	t.hasQuery = hasQuery
	if err := t.readPath(path); err != nil {
		return nil, err
	}

	return t, t.readQuery(query)
}

// readAuthority checks the host and the port. The text of the error continues a sentence, as in
// Parse.
func (t *Template) readAuthority() error {
	_, authority, _ := strings.Cut(t.base, "://")
	switch {
	// A variable in the host would let a model choose the server.
	case strings.ContainsAny(authority, "{}"):
		return errors.New("must not contain variables in its host or port")
	case strings.Contains(authority, "@"):
		return errors.New("must not contain a user name or password: send them in a header")
	}

	u, err := url.Parse(t.base)
	if err != nil || u.Hostname() == "" || u.Host != authority {
		return errors.New("must have a valid host")
	}

	if text := u.Port(); text != "" || strings.HasSuffix(u.Host, ":") {
		if port, err := strconv.ParseUint(text, 10, 16); err != nil || port == 0 {
			return errors.New("must have a valid port")
		}
	}

	t.at = u
	return nil
}

// readPath splits the path into segments. The text of the error continues a sentence, as in Parse.
func (t *Template) readPath(path string) error {
	for part := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		pieces, err := splitPieces(part)
		if err != nil {
			return err
		}
		if plain, err := url.PathUnescape(literals(pieces)); err != nil {
			return errors.New("has a path that is not escaped correctly")
			// A template must not contain "." or ".." as a segment: servers remove these segments,
			// and for ".." also the previous segment.
		} else if len(pieces) == 1 && isDots(plain) {
			return errors.New("must not have a segment . or .. in its path")
		}
		t.path = append(t.path, pieces)
	}

	return nil
}

// readQuery splits the query into pairs. The text of the error continues a sentence, as in Parse.
func (t *Template) readQuery(query string) error {
	if query == "" {
		return nil
	}

	for part := range strings.SplitSeq(query, "&") {
		name, value, found := strings.Cut(part, "=")
		// The name of a query parameter must not be a variable, because an argument could then be
		// the name of a fixed parameter.
		if strings.ContainsAny(name, "{}") {
			return errors.New("may contain variables in the values of its query, after an equals sign, but not in other parts of the query")
		}
		pieces, err := splitPieces(value)
		if err != nil {
			return err
		}
		if _, err := url.QueryUnescape(name + literals(pieces)); err != nil {
			return errors.New("has a query that is not escaped correctly")
		}
		if found {
			name += "="
		}
		t.query = append(t.query, pair{name: name, value: pieces})
	}

	return nil
}

// splitPieces splits a text into literals and variables, in order. A text without variables becomes
// one literal, which may be empty.
func splitPieces(text string) ([]piece, error) {
	var pieces []piece
	for {
		before, rest, found := strings.Cut(text, "{")
		if strings.Contains(before, "}") {
			return nil, errors.New("has a closing brace without an opening brace")
		}
		if before != "" || !found && pieces == nil {
			pieces = append(pieces, piece{literal: before})
		}
		if !found {
			return pieces, nil
		}
		name, after, closed := strings.Cut(rest, "}")
		// The name of a variable becomes a property of the tool's schema, so model providers must
		// accept it.
		if !closed || !variableName.MatchString(name) {
			return nil, errors.New("must have variables as {name}, of 1 to 64 letters, digits, dots, underscores and hyphens")
		}
		pieces = append(pieces, piece{variable: name})
		text = after
	}
}

// literals joins the literal pieces and omits the variables.
func literals(pieces []piece) string {
	var b strings.Builder
	for _, p := range pieces {
		b.WriteString(p.literal)
	}
	return b.String()
}

// isDots reports whether a segment refers to its folder or to the parent folder.
func isDots(s string) bool { return s == "." || s == ".." }

// Origin returns scheme, host and port, for example "https://example.com:443". Two templates with
// the same origin call the same server. The host is in lower case.
func (t *Template) Origin() string {
	port := t.at.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[t.at.Scheme]
	}
	host := strings.ToLower(strings.TrimSuffix(t.at.Host, ":"+t.at.Port()))
	return t.at.Scheme + "://" + host + ":" + port
}

// Variables returns the distinct names in the path and in the query, in order. Arguments for the
// path are required, and arguments for the query are optional.
func (t *Template) Variables() (path, query []string) {
	for _, s := range t.path {
		path = named(path, s)
	}
	for _, p := range t.query {
		query = named(query, p.value)
	}
	return path, query
}

// named adds the variables of pieces to names, each once.
func named(names []string, pieces []piece) []string {
next:
	for _, p := range pieces {
		if p.variable == "" {
			continue
		}
		for _, known := range names {
			if known == p.variable {
				continue next
			}
		}
		names = append(names, p.variable)
	}
	return names
}

const (
	// prefix of Standard Webhooks
	secretPrefix = "whsec_"
	minSecret    = 24 // bytes, recommended by Standard Webhooks
	maxSecret    = 64
)

// CheckSecret returns an error unless a signing secret is "whsec_" followed by base64, as in
// Standard Webhooks.
func CheckSecret(secret string) error {
	encoded, found := strings.CutPrefix(secret, secretPrefix)
	key, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if !found || err != nil || strings.ContainsAny(encoded, "\r\n") || len(key) < minSecret || len(key) > maxSecret {
		return fmt.Errorf("must be %s followed by %d to %d bytes in base64", secretPrefix, minSecret, maxSecret)
	}
	return nil
}
