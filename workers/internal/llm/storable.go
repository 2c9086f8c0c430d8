package llm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// maxExponentDigits is the longest exponent of a number that is let through: PostgreSQL's
// numeric, which jsonb is made of, ends at 10^131072.
const maxExponentDigits = 4

// CleanText takes out NUL characters and invalid UTF-8, neither of which PostgreSQL can keep; clean text is returned as it is.
func CleanText(s string) string {
	if strings.IndexByte(s, 0) >= 0 {
		s = strings.ReplaceAll(s, "\x00", "")
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// CleanJSON gives a tool's output as JSON that PostgreSQL can keep: NUL, lone surrogates and invalid
// UTF-8 are taken out of its texts; what is no JSON, or holds numbers out of range, is an error.
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
	if !storable(b) {
		return nil, fmt.Errorf("cleaning JSON: number out of range")
	}
	return b, nil
}

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

// storable reports whether valid JSON can go into a jsonb column, which is stricter than JSON
// itself: no NUL, no half surrogate pair, no invalid UTF-8, no number beyond numeric's range.
func storable(raw []byte) bool {
	if !utf8.Valid(raw) {
		return false
	}
	inString := false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case c == '"':
			inString = !inString
		case inString && c == '\\':
			n := escapeLength(raw[i:])
			if n == 0 {
				return false
			}
			i += n - 1
		case !inString && (c == 'e' || c == 'E') && exponentDigits(raw[i+1:]) > maxExponentDigits:
			return false
		}
	}
	return true
}

// escapeLength gives the length of the escape that valid JSON has at its start, a surrogate pair
// counting as one; 0 means that it cannot be stored.
func escapeLength(raw []byte) int {
	if raw[1] != 'u' {
		return 2
	}
	hex := strings.ToLower(string(raw[2:6]))
	switch {
	case hex == "0000", isLowSurrogate(hex):
		return 0
	case hex[0] != 'd' || hex[1] < '8':
		return 6
	}
	if len(raw) < 12 || raw[6] != '\\' || raw[7] != 'u' || !isLowSurrogate(strings.ToLower(string(raw[8:12]))) {
		return 0
	}
	return 12
}

func isLowSurrogate(hex string) bool { return hex[0] == 'd' && hex[1] >= 'c' }

func exponentDigits(raw []byte) int {
	n := 0
	for i, c := range raw {
		switch {
		case i == 0 && (c == '+' || c == '-'), c == '0' && n == 0:
		case c >= '0' && c <= '9':
			n++
		default:
			return n
		}
	}
	return n
}
