package httpapi

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"parley/shared/apierr"
	"parley/shared/domain"
)

// Codes of what can be wrong with a field.
const (
	codeRequired     = "required"
	codeUnknown      = "unknown_field"
	codeDuplicate    = "duplicate"
	codeConflict     = "conflict"
	codeInvalidType  = "invalid_type"
	codeInvalidValue = "invalid_value"
	codeInvalidJSON  = "invalid_json"
	codeTooLong      = "too_long"
	codeTooShort     = "too_short"
	codeTooDeep      = "too_deep"
)

// maxProblems bounds an answer: whoever sends a thousand wrong fields learns of the first ones.
const maxProblems = 32

// problems collects what is wrong with a request, so that a caller learns of all of it at once.
type problems struct{ list []apierr.Field }

// add notes what is wrong with a field, unless something is known to be wrong with it or with what it
// is in: one mistake is reported once.
func (p *problems) add(field, code, message string, args ...any) {
	if len(p.list) >= maxProblems || p.has(field) {
		return
	}
	p.list = append(p.list, apierr.Field{Field: field, Code: code, Message: fmt.Sprintf(message, args...)})
}

func (p *problems) has(field string) bool {
	for _, known := range p.list {
		rest, within := strings.CutPrefix(field, known.Field)
		if within && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			return true
		}
	}
	return false
}

// text checks that a text has between least and most characters, in Unicode code points. Bodies are UTF-8 by
// then, but headers may hold any bytes, and the database takes no others.
func (p *problems) text(field, value string, least, most int) {
	n := utf8.RuneCountInString(value)
	switch {
	case !utf8.ValidString(value) || strings.ContainsRune(value, 0):
		p.add(field, codeInvalidValue, "must be UTF-8 without U+0000")
	case n < least && n == 0:
		p.add(field, codeTooShort, "must not be empty")
	case n < least:
		p.add(field, codeTooShort, "must have at least %d characters", least)
	case n > most:
		p.add(field, codeTooLong, "must have at most %d characters, not %d", most, n)
	}
}

// name is text for a name or an address that people read beside others: it must look like what it is, so nothing in it
// may be invisible, change the order of the text, or end the line.
func (p *problems) name(field, value string, most int) {
	p.text(field, value, 1, most)
	if at := domain.HiddenRune(value); at != utf8.RuneError {
		p.add(field, codeInvalidValue, "must not contain %U: control, invisible and bidirectional characters are not allowed", at)
	}
}

// count checks that a list has at most that many entries.
func (p *problems) count(field string, n, most int) {
	if n > most {
		p.add(field, codeTooLong, "must have at most %d entries, not %d", most, n)
	}
}

// take adds what an error says to be wrong with fields, and gives back one that says anything else.
func (p *problems) take(err error) error {
	coded, ok := errors.AsType[*apierr.Error](err)
	if !ok || coded.Code != apierr.InvalidRequest {
		return err
	}
	for _, f := range coded.Fields {
		p.add(f.Field, f.Code, "%s", f.Message)
	}
	return nil
}

// err makes one error of all problems, nil when there are none.
func (p *problems) err() error { return apierr.InvalidFields(p.list) }
