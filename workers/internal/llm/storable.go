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

// maxExponentDigits is the maximum number of digits in a number's exponent. jsonb stores numbers as
// PostgreSQL's numeric, which ends at 10^131072.
const maxExponentDigits = 4

// CleanText removes NUL characters and replaces invalid UTF-8, because PostgreSQL can store
// neither.
func CleanText(s string) string {
	if strings.IndexByte(s, 0) >= 0 {
		s = strings.ReplaceAll(s, "\x00", "")
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// CleanJSON returns a tool's output as JSON that PostgreSQL can store. It removes NUL characters,
// lone surrogates and invalid UTF-8 from strings. It fails for invalid JSON and for numbers that
// are out of range.
func CleanJSON(raw json.RawMessage) (json.RawMessage, error) {
	if !json.Valid(raw) {
		return nil, fmt.Errorf("cleaning JSON: not valid")
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
		return nil, fmt.Errorf("cleaning JSON: number out of range")
	}
	return b, nil
}

// cleanValue cleans all strings in a decoded JSON value.
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

// storable reports whether valid JSON can be stored as jsonb. The type is stricter than JSON: it
// allows no NUL character, lone surrogate or invalid UTF-8, and no number outside the range of
// numeric.
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

		// Reading a value also detects invalid UTF-8 and lone surrogates.
		value, err := in.ReadValue()
		if err != nil || kind == '"' && hasNUL(value) || kind == '0' && exponentDigits(value) > maxExponentDigits {
			return false
		}
	}
}

// hasNUL reports whether a JSON string contains the character U+0000.
func hasNUL(quoted []byte) bool {
	if !bytes.Contains(quoted, []byte(`\u0000`)) {
		return false
	}
	text, err := jsontext.AppendUnquote(nil, quoted)
	return err != nil || bytes.IndexByte(text, 0) >= 0
}

// exponentDigits counts the digits of a number's exponent without leading zeros.
func exponentDigits(number []byte) int {
	_, exponent, _ := bytes.Cut(bytes.ToLower(number), []byte("e"))
	return len(bytes.TrimLeft(exponent, "+-0"))
}
