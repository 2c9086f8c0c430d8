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

// These constants are the operations of filters.
const (
	opEq       = "eq"
	opNe       = "ne"
	opIn       = "in"
	opContains = "contains"
	opExists   = "exists"
)

const (
	// MaxFilters is the maximum number of filters of a hook.
	MaxFilters = 20
	// Maximum number of values in the list of an "in" filter.
	maxFilterList = 100
	maxFilterText = 1000 // maximum length of a filter's value, in characters
	// maxCompared is the maximum size of a JSON value that can equal a filter's value, in bytes.
	maxCompared = charBytes*maxFilterText + 2
)

// condition is a filter in validated form. parseFilter creates it. The embedded piece says which
// value to compare.
type condition struct {
	piece
	op     string
	values []scalar // the values to compare with: a single value, or the elements of a list
	wanted bool     // operand of the operation "exists": whether the value must exist
}

// scalar is a JSON value that is neither an object nor a list. The zero value is null, which also
// stands for a missing value. The text of a number is its JSON.
type scalar struct {
	kind byte // type of the value: 's' text, 'n' number, 'b' true or false, 0 null
	text string
}

// readScalar parses a JSON value. ok is false for an object, a list, or a value that is too large
// to be equal to a filter's value. An empty value is null.
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
	// An object or a list is never equal to a filter's value.
	case '{', '[':
		return scalar{}, false
	}
	return scalar{'n', string(raw)}, true
}

// equal compares two values. Numbers are compared by value. Integers are compared digit by digit,
// because large ids may be equal as floating-point numbers. Values of different types are
// different, for example 1 and "1".
func (s scalar) equal(other scalar) bool {
	if s.kind != other.kind {
		return false
	}
	if s.text == other.text || s.kind != 'n' {
		return s.text == other.text
	}

	// Integers with different digits are different, although the same floating-point number may
	// represent both.
	if !strings.ContainsAny(s.text+other.text, ".eE") {
		return false
	}
	a, errA := strconv.ParseFloat(s.text, 64)
	b, errB := strconv.ParseFloat(other.text, 64)
	return errA == nil && errB == nil && a == b
}

// parseFilter validates one filter of a hook. If the filter is invalid, field names the invalid
// part. NewRules sets the index of the value later. The error is shown to the person who configures
// the hook.
func parseFilter(f domain.HookFilter) (c condition, field string, err error) {
	c.op = f.Op
	if c.piece, err = parsePlaceholder(f.Path); err != nil {
		return c, "path", err
	}

	// A filter compares only scalars, so it cannot compare the whole payload.
	if c.name == ofPayload {
		return c, "path", fmt.Errorf("%s cannot be used in a filter", ofPayload)
	}

	// The type of the value depends on the operation.
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

// scalars parses the values of a filter. It returns an error for an object, a list or a long text.
// The error is shown to the person who configures the hook.
func scalars(values ...[]byte) ([]scalar, error) {
	out := make([]scalar, 0, len(values))
	for _, raw := range values {
		s, ok := readScalar(raw)
		if !ok || len(raw) == 0 {
			return nil, fmt.Errorf("must be a string, a number, true, false or null")
		}
		if len([]rune(s.text)) > maxFilterText {
			return nil, fmt.Errorf("must have at most %d characters", maxFilterText)
		}
		out = append(out, s)
	}
	return out, nil
}

// listed parses the list of values of an "in" filter. The list must have 1 to maxFilterList
// scalars.
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

// holds reports whether a delivery satisfies the condition. A missing value equals null, and
// "exists" treats null as missing.
func (c *condition) holds(f *placeholderValues) bool {
	if c.op == opContains {
		return c.contained(f, f.raw(&c.piece))
	}

	// An object or a list is equal to no value. It therefore fails the operations "eq" and "in",
	// and satisfies "ne".
	value, simple := f.scalar(&c.piece)
	among := simple && slices.ContainsFunc(c.values, value.equal)
	switch c.op {
	case opEq, opIn:
		return among
	case opNe:
		return !among
	}
	return (simple && value.kind == 0) != c.wanted // the operation is "exists"
}

// contained reports whether a text contains the value of the condition as a part, or whether a list
// contains the value as an element. Elements are compared like values of "eq". Any other type
// contains nothing.
func (c *condition) contained(f *placeholderValues, raw []byte) bool {
	wanted := c.values[0]
	switch {
	case len(raw) == 0:
		return false
	// A text matches if it contains the value of the condition as a part.
	case raw[0] == '"' && wanted.kind == 's':
		return strings.Contains(c.textIn(f, raw), wanted.text)
	case raw[0] != '[':
		return false
	}

	// The list is read element by element, because it may be too large to decode as a whole.
	in := newReader(raw)
	_, _ = in.ReadToken()
	for {
		entry, err := in.ReadValue()
		if err != nil { // end of the list
			return false
		}
		if wanted.encoded(entry) {
			return true
		}
	}
}

// textIn returns the complete text in which the condition searches. It decodes a text only once for
// all conditions. A name such as @event is not cached.
func (c *condition) textIn(f *placeholderValues, raw []byte) string {
	if c.name != "" {
		return textFor(raw)
	}
	return once(&f.decoded, c.at, func() string { return textFor(raw) })
}

// encoded reports whether an element of a list is equal to the value. It decodes only elements that
// may be equal. The element is valid JSON.
func (s scalar) encoded(entry []byte) bool {
	if s.kind == 's' && (len(entry) == 0 || entry[0] != '"') {
		return false
	}
	// A string without escapes can be compared without being decoded.
	if s.kind == 's' && bytes.IndexByte(entry, '\\') < 0 {
		return string(entry[1:len(entry)-1]) == s.text
	}
	value, simple := readScalar(entry)
	return simple && value.equal(s)
}

// scalar returns the value that a condition refers to; see readScalar. An empty name of an event
// counts as missing.
func (f *placeholderValues) scalar(p *piece) (s scalar, ok bool) {
	text, named := f.named(p)
	switch {
	case !named:
		return readScalar(f.raw(p))
	case text == "":
		return scalar{}, true
	}
	return scalar{'s', text}, true
}

// raw returns the JSON value that a condition refers to, or nil if it is missing. An empty name of
// an event counts as missing.
func (f *placeholderValues) raw(p *piece) []byte {
	// The name of the event and the id of the delivery are not part of the payload. They are
	// treated like JSON strings.
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
		return nil // every text has a JSON form, so this is unreachable
	}
	return out
}
