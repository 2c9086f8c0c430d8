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
	// MaxFilters bounds a hook's filter.
	MaxFilters    = 20
	maxFilterList = 100
	maxFilterText = 1000 // characters of a value
	// Bytes of a value that may be equal to one of a filter's.
	maxCompared = charBytes*maxFilterText + 2
)

// condition is a filter that was checked.
type condition struct {
	piece
	op     string
	values []scalar // one, or those of a list
	wanted bool     // of exists
}

// scalar is a JSON value that is neither an object nor a list. The zero value is null, as which what is missing counts.
type scalar struct {
	kind byte // 's' text, 'n' number, 'b' true or false, 0 null
	text string
}

// readScalar reads a value; ok is false for objects and lists, and for what is larger than any value of a filter.
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
	case '{', '[':
		return scalar{}, false
	}
	return scalar{'n', string(raw)}, true
}

// equal compares numbers by their value, and whole ones digit by digit: large ids differ in the last of them.
func (s scalar) equal(other scalar) bool {
	if s.kind != other.kind {
		return false
	}
	if s.text == other.text || s.kind != 'n' {
		return s.text == other.text
	}
	if !strings.ContainsAny(s.text+other.text, ".eE") {
		return false
	}
	a, errA := strconv.ParseFloat(s.text, 64)
	b, errB := strconv.ParseFloat(other.text, 64)
	return errA == nil && errB == nil && a == b
}

// parseFilter checks one of a hook's filters; field says which part of it is wrong.
func parseFilter(f domain.HookFilter) (c condition, field string, err error) {
	c.op = f.Op
	if c.piece, err = parsePlace(f.Path); err != nil {
		return c, "path", err
	}
	if c.name == ofPayload {
		return c, "path", fmt.Errorf("%s cannot be filtered by", ofPayload)
	}
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
func (c *condition) holds(f *filled) bool {
	raw := f.raw(&c.piece)
	if c.op == opContains {
		return c.contained(f, raw)
	}
	value, simple := readScalar(raw)
	among := simple && slices.ContainsFunc(c.values, value.equal)
	switch c.op {
	case opEq, opIn:
		return among
	case opNe:
		return !among
	}
	return (simple && value.kind == 0) != c.wanted // exists
}

// contained reports whether a text has the value in it, or a list has it among its entries.
func (c *condition) contained(f *filled, raw []byte) bool {
	wanted := c.values[0]
	switch {
	case len(raw) == 0:
		return false
	case raw[0] == '"' && wanted.kind == 's':
		return strings.Contains(c.textIn(f, raw), wanted.text)
	case raw[0] != '[':
		return false
	}
	in := newReader(raw)
	_, _ = in.ReadToken()
	for {
		entry, err := in.ReadValue()
		if err != nil { // the end of the list
			return false
		}
		if wanted.written(entry) {
			return true
		}
	}
}

// textIn is the whole text that is looked into; that of the payload is decoded once.
func (c *condition) textIn(f *filled, raw []byte) string {
	if c.name != "" {
		return textFor(raw)
	}
	return once(f.decoded, c.at, func() string { return textFor(raw) })
}

// written reports whether an entry of a list is the value. Most are told apart without being decoded.
func (s scalar) written(entry []byte) bool {
	if s.kind == 's' && (len(entry) == 0 || entry[0] != '"') {
		return false
	}
	if s.kind == 's' && bytes.IndexByte(entry, '\\') < 0 {
		return string(entry[1:len(entry)-1]) == s.text
	}
	value, simple := readScalar(entry)
	return simple && value.equal(s)
}

// raw is the JSON of what a condition asks for; nil for what is not there.
func (f *filled) raw(p *piece) []byte {
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
		return nil // not reached: a text has a JSON form
	}
	return out
}
