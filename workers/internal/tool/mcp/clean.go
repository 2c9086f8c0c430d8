package mcp

import (
	"strings"
	"unicode"
)

// clean takes out of a text what a reader would not see: control characters, and those that only format or hide.
func clean(text string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t':
			return r
		case r == unicode.ReplacementChar, unicode.Is(unicode.Cf, r), unicode.Is(unicode.Co, r):
			return -1
		case unicode.IsControl(r), r == '\u2028', r == '\u2029':
			return ' '
		default:
			return r
		}
	}, strings.ToValidUTF8(text, "")))
}

// cut gives the first characters of a text.
func cut(text string, most int) string {
	n := 0
	for at := range text {
		if n == most {
			return text[:at]
		}
		n++
	}
	return text
}

// cleanTexts cleans the titles and descriptions inside a schema, in place.
func cleanTexts(value any) {
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			if text, ok := inner.(string); ok && (key == "description" || key == "title") {
				v[key] = cut(clean(text), maxDescription)
				continue
			}
			cleanTexts(inner)
		}
	case []any:
		for _, inner := range v {
			cleanTexts(inner)
		}
	}
}

// withoutNUL takes the one character out of every text of a value that no database keeps.
func withoutNUL(value any) any {
	switch v := value.(type) {
	case string:
		return strings.ReplaceAll(v, "\x00", "")
	case map[string]any:
		clean := make(map[string]any, len(v))
		for key, inner := range v {
			clean[strings.ReplaceAll(key, "\x00", "")] = withoutNUL(inner)
		}
		return clean
	case []any:
		for i := range v {
			v[i] = withoutNUL(v[i])
		}
	}
	return value
}
