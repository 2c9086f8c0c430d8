package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"parley/shared/truncate"
)

const (
	// maximum nesting of objects and lists, because a check needs stack for each level
	maxDepth    = 64
	maxNumber   = 100 // characters
	maxExponent = 400 // limit of exponents, because numbers become exact fractions: 1e999999999 would have a billion digits
)

// decode parses one JSON value of at most limit bytes. It rejects objects with repeated keys,
// because a receiver might use another value than the one that was checked. Objects become maps,
// lists become slices, and numbers become values of type json.Number. An error does not quote
// values, except a short form of a repeated key or of a number.
func decode(raw []byte, limit int) (any, error) {
	if len(raw) > limit {
		return nil, fmt.Errorf("longer than %d bytes", limit)
	}
	if !json.Valid(raw) {
		return nil, errors.New("not JSON")
	}
	p := parser{text: string(raw)}
	return p.value(0)
}

// parser parses valid JSON. It is several times as fast as the Token method of encoding/json. The
// strings it returns share the memory of a single copy of the text. Each method reads one token or
// value. Afterwards, the field at is the offset of the next character.
type parser struct {
	text string
	at   int
}

// next skips white space, commas and colons, and returns the next character. The separators need no
// check, because the JSON is valid.
func (p *parser) next() byte {
	for {
		switch c := p.text[p.at]; c {
		case ' ', '\t', '\n', '\r', ',', ':':
			p.at++
		default:
			return c
		}
	}
}

// value parses a value of any type. The argument depth is the number of objects and lists around
// it.
func (p *parser) value(depth int) (any, error) {
	switch c := p.next(); c {
	case '{', '[':
		if depth == maxDepth {
			return nil, fmt.Errorf("nested deeper than %d levels", maxDepth)
		}
		p.at++
		if c == '{' {
			return p.object(depth + 1)
		}
		return p.list(depth + 1)
	case '"':
		return p.string()
	case 't':
		p.at += len("true")
		return true, nil
	case 'f':
		p.at += len("false")
		return false, nil
	case 'n':
		p.at += len("null")
		return nil, nil //nolint:nilnil // the value null
	default:
		return p.number()
	}
}

// object parses the rest of an object, whose opening brace was read.
func (p *parser) object(depth int) (any, error) {
	o := map[string]any{}
	for p.next() != '}' {
		key, err := p.string()
		if err != nil {
			return nil, err
		}
		if _, twice := o[key]; twice {
			return nil, fmt.Errorf("duplicate key %s", truncate.Ellipsis(strconv.Quote(key), maxWord))
		}
		if o[key], err = p.value(depth); err != nil {
			return nil, err
		}
	}
	p.at++
	return o, nil
}

// list parses the rest of a list, whose opening bracket was read.
func (p *parser) list(depth int) (any, error) {
	l := []any{}
	for p.next() != ']' {
		v, err := p.value(depth)
		if err != nil {
			return nil, err
		}
		l = append(l, v)
	}
	p.at++
	return l, nil
}

// string parses a string. Only a string with escapes or invalid UTF-8 needs encoding/json.
func (p *parser) string() (s string, err error) {
	from, escaped := p.at, false
	// The loop finds a closing quote, because the text is valid JSON.
	for p.at++; p.text[p.at] != '"'; p.at++ {
		if p.text[p.at] == '\\' {
			escaped = true
			p.at++
		}
	}
	p.at++
	if inner := p.text[from+1 : p.at-1]; !escaped && utf8.ValidString(inner) {
		return inner, nil
	}
	if err := json.Unmarshal([]byte(p.text[from:p.at]), &s); err != nil {
		return "", fmt.Errorf("reading JSON: %w", err)
	}
	return s, nil
}

// number parses a number. The result is the number's text, because a float64 would lose digits.
func (p *parser) number() (any, error) {
	from := p.at
	for p.at < len(p.text) && strings.IndexByte("+-.eE0123456789", p.text[p.at]) >= 0 {
		p.at++
	}
	text := p.text[from:p.at]
	return json.Number(text), number(text)
}

// number returns an error if a number is too long or too large to be checked.
func number(text string) error {
	exponent := 0
	var err error
	if n := strings.IndexAny(text, "eE"); n >= 0 {
		exponent, err = strconv.Atoi(strings.TrimPrefix(text[n+1:], "+"))
	}
	if err != nil || len(text) > maxNumber || exponent > maxExponent || exponent < -maxExponent {
		return fmt.Errorf("a number is out of range: %s", truncate.Ellipsis(text, maxWord))
	}
	return nil
}
