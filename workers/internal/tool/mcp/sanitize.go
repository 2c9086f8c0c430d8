package mcp

import (
	"strings"
	"unicode"
)

// clean removes invisible characters from a text, and white space at both ends.
func clean(text string) string { return strings.TrimSpace(visible(text)) }

// visible removes control characters, and characters that only format or hide text.
func visible(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t':
			return r
		// Remove characters that can hide instructions from a person who reviews the tool.
		case r == unicode.ReplacementChar, unicode.Is(unicode.Cf, r), unicode.Is(unicode.Co, r):
			return -1
		// Replace each control character and line separator by a space, because such characters
		// separate words in some texts.
		case unicode.IsControl(r), r == '\u2028', r == '\u2029':
			return ' '
		default:
			return r
		}
	}, strings.ToValidUTF8(text, ""))
}
