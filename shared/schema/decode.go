package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"parley/shared/truncate"
)

const (
	maxDepth    = 64
	maxNumber   = 100 // characters
	maxExponent = 400 // a number becomes a fraction, and 1e999999999 would have that many digits
)

// decode parses one JSON value of at most limit bytes. It rejects repeated keys, because a
// receiver might use a different one than was checked.
func decode(raw []byte, limit int) (any, error) {
	if len(raw) > limit {
		return nil, fmt.Errorf("longer than %d bytes", limit)
	}
	if !json.Valid(raw) {
		return nil, errors.New("not JSON")
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	return value(d, 0)
}

func value(d *json.Decoder, depth int) (any, error) {
	token, err := d.Token()
	if err != nil {
		return nil, fmt.Errorf("reading JSON: %w", err)
	}

	switch t := token.(type) {
	case json.Number:
		return t, number(t.String())
	case json.Delim:
		if depth == maxDepth {
			return nil, fmt.Errorf("nested deeper than %d levels", maxDepth)
		}
		if t == '{' {
			return object(d, depth+1)
		}
		return list(d, depth+1)
	default:
		return t, nil
	}
}

func object(d *json.Decoder, depth int) (any, error) {
	o := map[string]any{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return nil, fmt.Errorf("reading JSON: %w", err)
		}
		key, _ := token.(string)
		if _, twice := o[key]; twice {
			return nil, fmt.Errorf("duplicate key %s", truncate.Ellipsis(strconv.Quote(key), maxWord))
		}
		if o[key], err = value(d, depth); err != nil {
			return nil, err
		}
	}

	_, err := d.Token()
	return o, err //nolint:wrapcheck // the closing brace is there: the whole is valid
}

func list(d *json.Decoder, depth int) (any, error) {
	l := []any{}
	for d.More() {
		v, err := value(d, depth)
		if err != nil {
			return nil, err
		}
		l = append(l, v)
	}
	_, err := d.Token()
	return l, err //nolint:wrapcheck // the closing bracket is there: the whole is valid
}

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
