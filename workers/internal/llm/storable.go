package llm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// maxExponentDigits is the maximum number of digits in the exponent of a number. PostgreSQL's type
// jsonb stores numbers as numeric, whose upper limit is 10^131072.
const maxExponentDigits = 4

// CleanText removes NUL characters and replaces invalid UTF-8, because PostgreSQL stores neither.
func CleanText(s string) string {
	if strings.IndexByte(s, 0) >= 0 {
		s = strings.ReplaceAll(s, "\x00", "")
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// CleanJSON returns a tool's output as JSON that PostgreSQL can store. In strings, it removes NUL
// characters, and replaces lone surrogates and invalid UTF-8 with U+FFFD. It returns an error if
// the JSON is invalid or a number is out of range.
func CleanJSON(raw json.RawMessage) (json.RawMessage, error) {
	if !json.Valid(raw) {
		return nil, fmt.Errorf("cleaning JSON: invalid JSON")
	}
	if storable(raw) {
		return raw, nil
	}

	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, fmt.Errorf("cleaning JSON: %w", err)
	}

	b, err := json.Marshal(cleanValue(v))
	if err != nil {
		return nil, fmt.Errorf("cleaning JSON: %w", err)
	}

	// Cleaning changes only strings, so a number may still be out of range.
	if !storable(b) {
		return nil, fmt.Errorf("cleaning JSON: a number is out of range")
	}
	return b, nil
}

// cleanValue cleans all strings within a decoded JSON value.
func cleanValue(v any) any {
	switch v := v.(type) {
	case string:
		return CleanText(v)
	case []any:
		for i := range v {
			v[i] = cleanValue(v[i])
		}
		return v
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, item := range v {
			out[CleanText(k)] = cleanValue(item)
		}
		return out
	default:
		return v
	}
}

// storable reports whether valid JSON can be stored as jsonb. This type is stricter than JSON. It
// allows no NUL characters, lone surrogates or invalid UTF-8, and no numbers that are out of range.
func storable(raw []byte) bool {
	in := jsontext.NewDecoder(bytes.NewBuffer(raw), jsontext.AllowDuplicateNames(true))
	for {
		kind := in.PeekKind()
		if kind != '"' && kind != '0' {
			if _, err := in.ReadToken(); err != nil {
				return errors.Is(err, io.EOF)
			}
			continue
		}

		// ReadValue also returns an error for invalid UTF-8 and lone surrogates.
		value, err := in.ReadValue()
		if err != nil || kind == '"' && hasNUL(value) || kind == '0' && exponentDigits(value) > maxExponentDigits {
			return false
		}
	}
}

// hasNUL reports whether an encoded JSON string contains the character U+0000.
func hasNUL(quoted []byte) bool {
	if !bytes.Contains(quoted, []byte(`\u0000`)) {
		return false
	}
	text, err := jsontext.AppendUnquote(nil, quoted)
	return err != nil || bytes.IndexByte(text, 0) >= 0
}

// exponentDigits returns the number of digits in the exponent of a number, without leading zeros.
func exponentDigits(number []byte) int {
	_, exponent, _ := bytes.Cut(bytes.ToLower(number), []byte("e"))
	return len(bytes.TrimLeft(exponent, "+-0"))
}
