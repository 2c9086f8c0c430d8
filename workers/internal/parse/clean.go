package parse

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/language"
	"golang.org/x/text/unicode/norm"

	"parley/shared/truncate"
	"parley/workers/internal/document"
)

// cleanBlock cleans the text of a block. The block's kind determines whether its lines and spaces
// are kept. Headings and rows become single lines. The result is "" if the text has no visible
// characters.
func cleanBlock(kind document.Kind, s string) string {
	switch kind {
	case document.Verbatim:
		return verbatim(s)
	case document.Paragraph, document.Item:
		return paragraph(s)
	default:
		return Line(s, 0)
	}
}

// Clean converts arbitrary bytes to clean text: valid UTF-8 in composed form, with \n for each line
// break. It removes invisible characters, such as control characters, direction overrides and soft
// hyphens.
//
// Invisible characters are removed because they could contain instructions that a model reads and a
// person cannot see.
func Clean(s string) string {
	if plain(s) {
		return s
	}

	// Compose the characters, so that equal texts consist of equal bytes. The search depends on
	// this.
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\r\n", "\n")
	return norm.NFC.String(strings.Map(seen, s))
}

// plain reports whether a text consists of printable ASCII, newlines and tabs. Such a text needs no
// cleaning.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c >= 0x7f || c < ' ' && c != '\n' && c != '\t' {
			return false
		}
	}
	return true
}

// seen returns the replacement for a character: the character itself, a newline, or -1 if the
// character must be removed.
func seen(r rune) rune {
	switch {
	case r == '\n' || r == '\t':
		return r
	case r == '\r' || r == '\v' || r == '\f' || r == 0x85 || r == 0x2028 || r == 0x2029:
		return '\n'
	case r == 0x200C || r == 0x200D: // joiners occur in Persian and Indic words and in emoji
		return r
	case unicode.Is(unicode.Cc, r), unicode.Is(unicode.Cf, r) && !writtenFormat(r), unicode.Is(blank, r):
		return -1
	default:
		return r
	}
}

// blank contains characters without a visible form: noncharacters, fillers and variation selectors.
var blank = &unicode.RangeTable{
	R16: []unicode.Range16{
		{0x115F, 0x1160, 1}, {0x2800, 0x2800, 1}, {0x3164, 0x3164, 1}, {0xFDD0, 0xFDEF, 1}, {0xFFA0, 0xFFA0, 1}, {0xFFFE, 0xFFFF, 1},
	},
	R32: []unicode.Range32{
		{0x1FFFE, 0x1FFFF, 1}, {0x2FFFE, 0x2FFFF, 1}, {0xE0100, 0xE01EF, 1}, {0xFFFFE, 0xFFFFF, 1}, {0x10FFFE, 0x10FFFF, 1},
	},
}

// writtenFormat reports whether r is visible although Unicode classifies it as a format character.
// Arabic, Syriac, Kaithi and other scripts have such characters.
func writtenFormat(r rune) bool {
	return r >= 0x0600 && r <= 0x0605 || r == 0x06DD || r == 0x070F || r == 0x0890 || r == 0x0891 || r == 0x08E2 ||
		r == 0x110BD || r == 0x110CD || r >= 0x13430 && r <= 0x1345F
}

// Line returns a text as a single clean line with single spaces. If maximum is not 0, it truncates
// the line to maximum characters, of which the last is an ellipsis.
func Line(s string, maximum int) string {
	s = strings.Join(strings.Fields(Clean(s)), " ")
	if maximum > 0 && utf8.RuneCountInString(s) > maximum {
		return strings.TrimSpace(truncate.Runes(s, maximum-1)) + "…"
	}
	return s
}

// paragraph returns text as clean lines with single spaces and without empty lines.
func paragraph(s string) string {
	s = Clean(s)

	// Most paragraphs consist of a single line.
	if !strings.Contains(s, "\n") {
		return strings.Join(strings.Fields(s), " ")
	}

	var b strings.Builder
	for l := range strings.SplitSeq(s, "\n") {
		l = strings.Join(strings.Fields(l), " ")
		if l == "" {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(l)
	}
	return b.String()
}

// verbatim returns a text with its lines and spaces. It removes spaces from the ends of lines, and
// empty lines from the beginning and the end of the text. Empty lines inside of the text remain.
func verbatim(s string) string {
	lines := strings.Split(Clean(s), "\n")
	for i, l := range lines {
		lines[i] = strings.TrimRightFunc(l, unicode.IsSpace)
	}
	for len(lines) > 0 && lines[0] == "" {
		lines = lines[1:]
	}
	for len(lines) > 0 && lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return strings.Join(lines, "\n")
}

// split divides a text that is longer than maximum bytes into its first piece and the rest. The
// first piece ends after a line if possible, otherwise after a sentence, after a word, or between
// two characters. A text of at most maximum bytes is one piece. White space at the division is
// removed.
func split(s string, maximum int) (piece, rest string) {
	if len(s) <= maximum {
		return s, ""
	}

	// The first piece should be at least half full. Otherwise a text could be divided into very
	// many pieces.
	head := s[:maximum]
	at := -1
	for _, end := range []string{"\n", ". ", "。", " "} {
		if i := strings.LastIndex(head, end); i > maximum/2 {
			at = i + len(end)
			break
		}
	}

	if at < 0 {
		at = boundary(s, maximum)
	}
	return strings.TrimRightFunc(s[:at], unicode.IsSpace), strings.TrimLeft(s[at:], "\n ")
}

// boundary returns the largest offset up to maximum at which a text can be divided. The offset is
// between two characters and does not separate an accent from its letter. maximum must be less than
// the length of the text.
func boundary(s string, maximum int) int {
	for i := maximum; i > maximum/2; i-- {
		if !utf8.RuneStart(s[i]) {
			continue
		}
		if r, _ := utf8.DecodeRuneInString(s[i:]); !unicode.Is(unicode.M, r) && r != 0x200D {
			return i
		}
	}

	// In a text that consists only of accents, no offset keeps each accent with its letter. Divide
	// between two accents.
	for i := maximum; i > 0; i-- {
		if utf8.RuneStart(s[i]) {
			return i
		}
	}
	return maximum
}

// languageTag returns a document's language tag in canonical form, such as "de-AT", or "" if it is
// invalid.
func languageTag(s string) string {
	tag, err := language.Parse(strings.TrimSpace(s))
	if err != nil || tag == language.Und {
		return ""
	}
	return tag.String()
}

// Lines returns a text in which each line break is a single newline.
func Lines(s string) string {
	if !strings.Contains(s, "\r") {
		return s
	}
	return strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\r", "\n")
}
