package httpx

import (
	"errors"
	"fmt"
	"maps"
	"net/mail"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"parley/shared/apierr"
	"parley/shared/domain"
)

// Codes of what can be wrong with a field.
const (
	CodeRequired     = "required"
	CodeUnknown      = "unknown_field"
	CodeDuplicate    = "duplicate"
	CodeConflict     = "conflict"
	CodeInvalidType  = "invalid_type"
	CodeInvalidValue = "invalid_value"
	CodeInvalidJSON  = "invalid_json"
	CodeTooLong      = "too_long"
	CodeTooShort     = "too_short"
	CodeTooDeep      = "too_deep"
)

// maxProblems bounds an answer: whoever sends a thousand wrong fields learns of the first ones.
const maxProblems = 32

// Problems collects what is wrong with a request, so that a caller learns of all of it at once.
type Problems struct{ List []apierr.Field }

// Add notes what is wrong with a field, unless something is known to be wrong with it or with what it
// is in: one mistake is reported once.
func (p *Problems) Add(field, code, message string, args ...any) {
	if len(p.List) >= maxProblems || p.Has(field) {
		return
	}
	p.List = append(p.List, apierr.Field{Field: field, Code: code, Message: fmt.Sprintf(message, args...)})
}

// Has reports whether something is known to be wrong with a field, or with what it is in.
func (p *Problems) Has(field string) bool {
	for _, known := range p.List {
		rest, within := strings.CutPrefix(field, known.Field)
		if within && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			return true
		}
	}
	return false
}

// Text checks that a text has between least and most characters, in Unicode code points. Bodies are UTF-8 by
// then, but headers may hold any bytes, and the database takes no others.
func (p *Problems) Text(field, value string, least, maximum int) {
	n := utf8.RuneCountInString(value)
	switch {
	case !utf8.ValidString(value) || strings.ContainsRune(value, 0):
		p.Add(field, CodeInvalidValue, "must be UTF-8 without U+0000")
	case n < least && n == 0:
		p.Add(field, CodeTooShort, "must not be empty")
	case n < least:
		p.Add(field, CodeTooShort, "must have at least %d characters", least)
	case n > maximum:
		p.Add(field, CodeTooLong, "must have at most %d characters, not %d", maximum, n)
	}
}

// Name is text for a name or an address that people read beside others: it must look like what it is, so nothing in it
// may be invisible, change the order of the text, or end the line, and it is not blank.
func (p *Problems) Name(field, value string, maximum int) {
	p.Text(field, value, 1, maximum)
	p.fault(field, value)
}

// Prose is text of at most that many characters, of several lines. No other character in it is invisible or changes the
// order of the text.
func (p *Problems) Prose(field, value string, maximum int) {
	p.Text(field, value, 0, maximum)
	p.Visible(field, strings.NewReplacer("\r\n", " ", "\n", " ", "\t", " ").Replace(value))
}

// Visible checks that no character of a field is invisible or changes the order of the text.
func (p *Problems) Visible(field, value string) {
	if r := domain.HiddenRune(value); r != utf8.RuneError {
		p.Add(field, CodeInvalidValue, "must not contain %U: control, invisible and bidirectional characters are not allowed", r)
	}
}

// Email checks that a field is an email address without a name.
func (p *Problems) Email(field, value string) {
	p.Name(field, value, MaxEmail)
	if address, err := mail.ParseAddress(value); err != nil || address.Address != value {
		p.Add(field, CodeInvalidValue, "must be an email address")
	}
}

func (p *Problems) fault(field, value string) {
	if fault := domain.NameFault(value); fault != "" {
		p.Add(field, CodeInvalidValue, "%s", fault)
	}
}

// Count checks that a list has at most that many entries.
func (p *Problems) Count(field string, n, maximum int) {
	if n > maximum {
		p.Add(field, CodeTooLong, "must have at most %d entries, not %d", maximum, n)
	}
}

// Take adds what an error says to be wrong with fields, and gives back one that says anything else.
func (p *Problems) Take(err error) error {
	coded, ok := errors.AsType[*apierr.Error](err)
	if !ok || coded.Code != apierr.InvalidRequest {
		return err
	}
	for _, f := range coded.Fields {
		p.Add(f.Field, f.Code, "%s", f.Message)
	}
	return nil
}

// Err makes one error of all problems, nil when there are none.
func (p *Problems) Err() error { return apierr.InvalidFields(p.List) }

// Element names an entry of a list, such as tools[2].
func Element(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// Bounds of what several bodies and filters hold.
const (
	MaxMetadata      = 20 // names
	MaxMetadataValue = 256
	MaxSearch        = 120
	maxURL           = 2_048
)

// MetadataName matches a name of metadata.
var MetadataName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

// CheckURL takes absolute addresses without what belongs into headers. Which hosts may be reached is
// decided when a request is sent, for that can change.
func CheckURL(p *Problems, at, address string) {
	u, err := url.Parse(address)
	switch {
	case domain.HiddenRune(address) != utf8.RuneError:
		p.Visible(at, address)
	case len(address) > maxURL:
		p.Add(at, CodeTooLong, "must have at most %d characters", maxURL)
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		p.Add(at, CodeInvalidValue, "must be an address that begins with https:// or http://")
	case u.User != nil:
		p.Add(at, CodeInvalidValue, "must not contain a user name or password: send them in a header")
	case u.Fragment != "":
		p.Add(at, CodeInvalidValue, "must not contain a fragment")
	}
}

// CheckMetadata finds what is wrong with names and values that documents have, or must have to be found.
func CheckMetadata(p *Problems, at string, metadata map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(metadata)) { // the same request always gets the same answer
		if !MetadataName.MatchString(name) {
			p.Add(at, CodeInvalidValue, "contains an invalid name: names have 1 to 64 letters, digits, dots, underscores and hyphens")
			continue
		}
		p.Text(at+"."+name, metadata[name], 0, MaxMetadataValue)
	}
	p.Count(at, len(metadata), MaxMetadata) // last: its own problem would hide those of its entries
}

// MaxDescription is how many characters a description may have.
const MaxDescription = 2_000

// OneOf checks that a value is one of those that are possible.
func OneOf[T ~string](p *Problems, field string, value T, possible ...T) {
	if !slices.Contains(possible, value) {
		p.Add(field, CodeInvalidValue, "must be one of %s", Enumerated(possible))
	}
}

// Enumerated writes values as a sentence has them.
func Enumerated[T ~string](values []T) string {
	words := make([]string, len(values))
	for i, value := range values {
		words[i] = string(value)
	}
	return strings.Join(words, ", ")
}

// HiddenSecret stands for a secret in answers, and for an unchanged one in bodies.
const HiddenSecret = "***"

// DefaultOverlap is how many seconds a rotated secret stays good unless a request says otherwise.
const DefaultOverlap = 24 * 60 * 60

// MaxOverlap is how many seconds a rotated secret may stay good.
const MaxOverlap = 7 * DefaultOverlap

const (
	// MaxName is how many characters a name may have.
	MaxName = 120
	// MaxEmail is how many characters an email address may have.
	MaxEmail = 254
)

// IsVisible reports whether s holds printable ASCII and no spaces.
func IsVisible(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) < 0
}

// MaxAutomationID is how many characters the name of an automation may have.
const MaxAutomationID = 128

// CheckAutomationID checks the name of an automation.
func CheckAutomationID(found *Problems, field, name string) {
	n := utf8.RuneCountInString(name)
	if n < 1 || n > MaxAutomationID || !utf8.ValidString(name) || domain.NameFault(name) != "" {
		found.Add(field, CodeInvalidValue, "must be 1 to %d printable characters, and not only white space", MaxAutomationID)
	}
}

// HeaderName matches the name of a header.
var HeaderName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}$")
