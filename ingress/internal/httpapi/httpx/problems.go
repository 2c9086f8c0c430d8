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

// Codes of a field's problems.
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

// maxProblems limits the number of problems in a response.
const maxProblems = 32

// Problems collects the problems of a request, so that a response lists all of them. It belongs to
// one request. The order is that in which the problems were found.
type Problems struct{ List []apierr.Field }

// Add adds a problem of a field. If the field or one of its parents already has a problem, Add does
// nothing, so that each mistake is reported once.
func (p *Problems) Add(field, code, message string, args ...any) {
	if len(p.List) >= maxProblems || p.Has(field) {
		return
	}
	p.List = append(p.List, apierr.Field{Field: field, Code: code, Message: fmt.Sprintf(message, args...)})
}

// Has reports whether a field or one of its parents has a problem.
func (p *Problems) Has(field string) bool {
	for _, known := range p.List {
		rest, within := strings.CutPrefix(field, known.Field)
		if within && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			return true
		}
	}
	return false
}

// Text checks that a text has at least the number of characters (Unicode code points) in the
// argument least, and at most the number in the argument maximum. It also checks that the text is
// UTF-8 without U+0000. This check is for header values, which may contain any bytes: PostgreSQL
// would reject other encodings and U+0000. Decoded bodies are always UTF-8. The codes are
// invalid_value, too_short and too_long.
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

// Name checks a text that people read in lists, such as a name or a URL. It must not be blank or
// contain line breaks, invisible characters or characters that change the order of the text.
func (p *Problems) Name(field, value string, maximum int) {
	p.Text(field, value, 1, maximum)
	p.fault(field, value)
}

// Prose checks that a text has at most maximum characters. The text may contain line breaks and
// tabs, but no other control characters, and no invisible or bidirectional characters.
func (p *Problems) Prose(field, value string, maximum int) {
	p.Text(field, value, 0, maximum)
	p.Visible(field, strings.NewReplacer("\r\n", " ", "\n", " ", "\t", " ").Replace(value))
}

// Visible checks that a field contains no control, invisible or bidirectional characters.
func (p *Problems) Visible(field, value string) {
	if r := domain.HiddenRune(value); r != utf8.RuneError {
		p.Add(field, CodeInvalidValue, "must not contain %U: control, invisible and bidirectional characters are not allowed", r)
	}
}

// Email checks that a field is an email address without a display name.
func (p *Problems) Email(field, value string) {
	p.Name(field, value, MaxEmail)
	if address, err := mail.ParseAddress(value); err != nil || address.Address != value {
		p.Add(field, CodeInvalidValue, "must be an email address")
	}
}

// fault adds a problem if the value is not a valid name, as domain.NameFault defines it.
func (p *Problems) fault(field, value string) {
	if fault := domain.NameFault(value); fault != "" {
		p.Add(field, CodeInvalidValue, "%s", fault)
	}
}

// Count checks that a list with n entries does not exceed the maximum.
func (p *Problems) Count(field string, n, maximum int) {
	if n > maximum {
		p.Add(field, CodeTooLong, "must have at most %d entries, not %d", maximum, n)
	}
}

// Take moves problems from err to p. If err is an error with the code invalid_request, Take adds
// its problems and returns nil. It returns any other error unchanged.
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

// Err returns one error for all problems, or nil if there are none.
func (p *Problems) Err() error { return apierr.InvalidFields(p.List) }

// Element returns the path of an entry of a list, such as tools[2].
func Element(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// Bounds that several bodies and filters share.
const (
	MaxMetadata      = 20 // maximum number of entries
	MaxMetadataValue = 256
	MaxSearch        = 120
	maxURL           = 2_048
)

// MetadataName matches a metadata name.
var MetadataName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

// CheckURL checks that address is an absolute HTTP URL without credentials or a fragment. It does
// not check whether Parley may send requests to the host. This may change, so it is checked before
// each request.
func CheckURL(p *Problems, at, address string) {
	u, err := url.Parse(address)
	switch {
	case domain.HiddenRune(address) != utf8.RuneError:
		p.Visible(at, address)
	case len(address) > maxURL:
		p.Add(at, CodeTooLong, "must have at most %d characters", maxURL)
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		p.Add(at, CodeInvalidValue, "must be a URL that begins with https:// or http://")
	case u.User != nil:
		p.Add(at, CodeInvalidValue, "must not contain a user name or password: send them in a header")
	case u.Fragment != "":
		p.Add(at, CodeInvalidValue, "must not contain a fragment")
	}
}

// CheckMetadata checks the names and values of metadata, or of a filter for metadata.
func CheckMetadata(p *Problems, at string, metadata map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(metadata)) { // in sorted order, the same request always gets the same response
		if !MetadataName.MatchString(name) {
			p.Add(at, CodeInvalidValue, "contains an invalid name: names have 1 to 64 letters, digits, dots, underscores and hyphens")
			continue
		}
		p.Text(at+"."+name, metadata[name], 0, MaxMetadataValue)
	}
	p.Count(at, len(metadata), MaxMetadata) // last, because a problem of the map suppresses problems of its entries
}

// MaxDescription is the maximum length of a description in characters.
const MaxDescription = 2_000

// OneOf checks that a value is one of the possible values.
func OneOf[T ~string](p *Problems, field string, value T, possible ...T) {
	if !slices.Contains(possible, value) {
		p.Add(field, CodeInvalidValue, "must be one of %s", Enumerated(possible))
	}
}

// Enumerated joins values with commas, for messages.
func Enumerated[T ~string](values []T) string {
	words := make([]string, len(values))
	for i, value := range values {
		words[i] = string(value)
	}
	return strings.Join(words, ", ")
}

// OneName returns "a" or "one of a, b" for the names that a value may have, for messages.
func OneName(names []string) string {
	if len(names) == 1 {
		return names[0]
	}
	return "one of " + strings.Join(names, ", ")
}

// HiddenSecret replaces a secret in responses. In a request body it means that the secret stays
// unchanged.
const HiddenSecret = "***"

// DefaultOverlap is the default time in seconds for which a rotated secret stays valid.
const DefaultOverlap = 24 * 60 * 60

// MaxOverlap is the maximum time in seconds for which a rotated secret may stay valid.
const MaxOverlap = 7 * DefaultOverlap

const (
	// MaxName is the maximum length of a name in characters.
	MaxName = 120
	// MaxEmail is the maximum length of an email address in characters.
	MaxEmail = 254
)

// IsVisible reports whether s contains only printable ASCII characters other than spaces.
func IsVisible(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) < 0
}

// MaxAutomationID is the maximum length of an automation's name in characters.
const MaxAutomationID = 128

// CheckAutomationID checks the name of an automation.
func CheckAutomationID(found *Problems, field, name string) {
	n := utf8.RuneCountInString(name)
	if n < 1 || n > MaxAutomationID || !utf8.ValidString(name) || domain.NameFault(name) != "" {
		found.Add(field, CodeInvalidValue, "must be 1 to %d printable characters, and not only white space", MaxAutomationID)
	}
}

// HeaderName matches the name of an HTTP header.
var HeaderName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}$")
