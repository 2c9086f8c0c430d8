package webhookin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"parley/shared/domain"
)

// The operations of filters.
const (
	opEq       = "eq"
	opNe       = "ne"
	opIn       = "in"
	opContains = "contains"
	opExists   = "exists"
)

const (
	// MaxFilters bounds the filters of a hook.
	MaxFilters    = 20
	maxFilterList = 100
	maxFilterText = 1000 // characters of a value
	// Maximum bytes of a JSON value that can equal a filter's value.
	maxCompared = charBytes*maxFilterText + 2
)

// condition is a validated filter.
type condition struct {
	piece
	op     string
	values []scalar // one value, or the values of a list
	wanted bool     // the operand of exists
}

// scalar is a JSON value that is neither an object nor a list. The zero value is null, which also
// stands for a missing value.
type scalar struct {
	kind byte // 's' text, 'n' number, 'b' true or false, 0 null
	text string
}

// readScalar parses a value. ok is false for objects, lists, and values larger than a filter's
// value can be.
func readScalar(raw []byte) (s scalar, ok bool) {
	if len(raw) == 0 || string(raw) == "null" {
		return scalar{}, true
	}
	if len(raw) > maxCompared {
		return scalar{}, false
	}

	switch raw[0] {
	case '"':
		return scalar{'s', textFor(raw)}, true
	case 't', 'f':
		return scalar{'b', string(raw)}, true
	// Objects and lists equal nothing.
	case '{', '[':
		return scalar{}, false
	}
	return scalar{'n', string(raw)}, true
}

// equal compares numbers by value, and integers digit by digit, because large ids differ only in
// the last digits.
func (s scalar) equal(other scalar) bool {
	if s.kind != other.kind {
		return false
	}
	if s.text == other.text || s.kind != 'n' {
		return s.text == other.text
	}

	// Two integers with different digits are different. As floats, large ones could be equal.
	if !strings.ContainsAny(s.text+other.text, ".eE") {
		return false
	}
	a, errA := strconv.ParseFloat(s.text, 64)
	b, errB := strconv.ParseFloat(other.text, 64)
	return errA == nil && errB == nil && a == b
}

// parseFilter validates one filter of a hook. field names the invalid part.
func parseFilter(f domain.HookFilter) (c condition, field string, err error) {
	c.op = f.Op
	if c.piece, err = parsePlace(f.Path); err != nil {
		return c, "path", err
	}

	// The whole payload is not a single value to compare with.
	if c.name == ofPayload {
		return c, "path", fmt.Errorf("%s cannot be used in a filter", ofPayload)
	}

	// Each operation accepts its own kind of value.
	value := bytes.TrimSpace(f.Value)
	switch f.Op {
	case opExists:
		c.wanted = string(value) != "false"
		if len(value) > 0 && string(value) != "true" && c.wanted {
			return c, "value", fmt.Errorf("must be true or false")
		}
	case opEq, opNe, opContains:
		c.values, err = scalars(value)
	case opIn:
		c.values, err = listed(value)
	default:
		return c, "op", fmt.Errorf("must be %s", strings.Join([]string{opEq, opNe, opIn, opContains, opExists}, ", "))
	}
	return c, "value", err
}

// scalars parses the values of a filter. It returns an error for objects, lists and long texts.
func scalars(values ...[]byte) ([]scalar, error) {
	out := make([]scalar, 0, len(values))
	for _, raw := range values {
		s, ok := readScalar(raw)
		if !ok || len(raw) == 0 {
			return nil, fmt.Errorf("must be a text, a number, true, false or null")
		}
		if len([]rune(s.text)) > maxFilterText {
			return nil, fmt.Errorf("must have at most %d characters", maxFilterText)
		}
		out = append(out, s)
	}
	return out, nil
}

// listed parses the list of an "in" filter.
func listed(value []byte) ([]scalar, error) {
	var list []json.RawMessage
	if json.Unmarshal(value, &list) != nil || len(list) == 0 || len(list) > maxFilterList {
		return nil, fmt.Errorf("must be a list of 1 to %d values", maxFilterList)
	}
	raw := make([][]byte, len(list))
	for i := range list {
		raw[i] = list[i]
	}
	return scalars(raw...)
}

// holds reports whether a delivery meets the condition.
func (c *condition) holds(f *placeholderValues) bool {
	raw := f.raw(&c.piece)
	if c.op == opContains {
		return c.contained(f, raw)
	}

	// A value that is not a scalar equals nothing, so it fails eq and in, and passes ne.
	value, simple := readScalar(raw)
	among := simple && slices.ContainsFunc(c.values, value.equal)
	switch c.op {
	case opEq, opIn:
		return among
	case opNe:
		return !among
	}
	return (simple && value.kind == 0) != c.wanted // for exists
}

// contained reports whether a text contains the value, or a list has it as an element.
func (c *condition) contained(f *placeholderValues, raw []byte) bool {
	wanted := c.values[0]
	switch {
	case len(raw) == 0:
		return false
	// A text contains another text as a part.
	case raw[0] == '"' && wanted.kind == 's':
		return strings.Contains(c.textIn(f, raw), wanted.text)
	case raw[0] != '[':
		return false
	}

	// The list is read element by element and not decoded, because it may be large.
	in := newReader(raw)
	_, _ = in.ReadToken()
	for {
		entry, err := in.ReadValue()
		if err != nil { // the end of the list
			return false
		}
		if wanted.encoded(entry) {
			return true
		}
	}
}

// textIn returns the whole text to search. The payload's text is decoded once.
func (c *condition) textIn(f *placeholderValues, raw []byte) string {
	if c.name != "" {
		return textFor(raw)
	}
	return once(f.decoded, c.at, func() string { return textFor(raw) })
}

// encoded reports whether a list element equals the value. It decodes only elements that may be
// equal.
func (s scalar) encoded(entry []byte) bool {
	if s.kind == 's' && (len(entry) == 0 || entry[0] != '"') {
		return false
	}
	// Without escapes the bytes are the text.
	if s.kind == 's' && bytes.IndexByte(entry, '\\') < 0 {
		return string(entry[1:len(entry)-1]) == s.text
	}
	value, simple := readScalar(entry)
	return simple && value.equal(s)
}

// raw returns the JSON value that a condition names, or nil if it is missing.
func (f *placeholderValues) raw(p *piece) []byte {
	// The event and the delivery's id are texts outside of the payload. They are compared like JSON
	// strings.
	text := ""
	switch p.name {
	case "":
		return f.values[p.at]
	case ofEvent:
		text = f.event
	case ofDelivery:
		text = f.deliveryID
	}
	if text == "" {
		return nil
	}
	out, err := json.Marshal(text)
	if err != nil {
		return nil // unreachable: a text has a JSON form
	}
	return out
}
