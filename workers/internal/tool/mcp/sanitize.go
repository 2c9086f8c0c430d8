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
		// Such characters can hide instructions that a person reviewing the tool does not see.
		case r == unicode.ReplacementChar, unicode.Is(unicode.Cf, r), unicode.Is(unicode.Co, r):
			return -1
		// These characters separate words in some texts, so a space replaces them.
		case unicode.IsControl(r), r == '\u2028', r == '\u2029':
			return ' '
		default:
			return r
		}
	}, strings.ToValidUTF8(text, ""))
}
