package websearch

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/html"
	"golang.org/x/text/unicode/norm"

	"parley/shared/truncate"
)

const maxLine = 2000 // maximum length of a title or snippet in characters

// visible removes invisible characters, which could hide instructions to a model: control,
// zero-width and bidirectional characters, tags and fillers. Tabs and newlines are kept. Joiners
// are kept if they change the appearance: in emoji, and between letters of scripts that join
// letters.
func visible(s string) string {
	if plain(s) {
		return s
	}
	runes := []rune(strings.ToValidUTF8(s, "\uFFFD"))
	var b strings.Builder
	b.Grow(len(s))
	last := rune(-1) // the last rune that was written
	for i, r := range runes {
		switch {
		case r == '\u2028', r == '\u2029', r == '\u0085', r == '\v', r == '\f':
			r = '\n'
		case joiner(r):
			if i+1 >= len(runes) || !joins(r, last, runes[i+1]) {
				continue
			}
		case r == '\uFE0F', r == '\uFE0E': // variation selectors choose the appearance of an emoji; several in a row could carry hidden data
			if last < 0 || unicode.IsSpace(last) || unicode.Is(unicode.Variation_Selector, last) {
				continue
			}
		case isInvisible(r):
			continue
		}
		b.WriteRune(r)
		last = r
	}
	return b.String()
}

// plain reports whether a text consists only of printable ASCII, tabs and newlines. Most texts do.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c >= utf8.RuneSelf-1 || c < ' ' && c != '\n' && c != '\t' {
			return false
		}
	}
	return true
}

// joiner reports whether a character is a zero-width joiner or non-joiner.
func joiner(r rune) bool { return r == '\u200C' || r == '\u200D' }

// joins reports whether the joiner r affects the appearance of the characters before and after it.
func joins(r, before, after rune) bool {
	if r == '\u200D' && pictograph(before) && pictograph(after) {
		return true
	}
	return unicode.In(before, joining...) && unicode.In(after, joining...)
}

// pictograph reports whether a character is an emoji or another symbol.
func pictograph(r rune) bool {
	return unicode.Is(unicode.So, r) || r == '↔' || r == '↕' || r == '\uFE0F' || r >= 0x1F3FB && r <= 0x1F3FF // the last range is skin tones
}

// joining lists the scripts in which a joiner may change the form of letters.
var joining = []*unicode.RangeTable{
	unicode.Arabic, unicode.Syriac, unicode.Nko, unicode.Mongolian, unicode.Devanagari, unicode.Bengali, unicode.Gurmukhi, unicode.Gujarati,
	unicode.Oriya, unicode.Tamil, unicode.Telugu, unicode.Kannada, unicode.Malayalam, unicode.Sinhala, unicode.Khmer, unicode.Myanmar,
}

// isInvisible reports whether a character is invisible: a control, format or private-use character,
// a filler, or a noncharacter. Newlines and tabs are not invisible.
func isInvisible(r rune) bool {
	switch r {
	case '\n', '\t':
		return false
	case '\u034F', '\u115F', '\u1160', '\u17B4', '\u17B5', '\u180B', '\u180C', '\u180D', '\u180F', '\u3164', '\uFFA0':
		return true // fillers and similar characters, which are not displayed
	}
	return unicode.In(r, unicode.Cc, unicode.Co, unicode.Variation_Selector, unicode.Noncharacter_Code_Point) ||
		unicode.Is(unicode.Cf, r) && !unicode.Is(unicode.Prepended_Concatenation_Mark, r)
}

// line converts a text to a single line of visible characters with single spaces. Combining
// characters are composed. The line has at most maxLine characters.
func line(s string) string {
	// Shorten the text first, so that the cost does not depend on the length of an untrusted text.
	if len(s) > utf8.UTFMax*maxLine {
		s = s[:utf8.UTFMax*maxLine]
	}
	return truncateRunes(norm.NFC.String(strings.Join(strings.Fields(visible(s)), " ")), maxLine)
}

// markupLine removes HTML tags from a text, decodes entities, and returns the text as a single
// line, like the function line.
func markupLine(s string) string {
	if !strings.ContainsAny(s, "<&") {
		return line(s)
	}
	if len(s) > utf8.UTFMax*maxLine {
		s = s[:utf8.UTFMax*maxLine]
	}
	var b strings.Builder
	for tokens := html.NewTokenizer(strings.NewReader(s)); ; {
		switch tokens.Next() {
		case html.ErrorToken:
			return line(b.String())
		case html.TextToken:
			b.Write(tokens.Text())
		default:
		}
	}
}

// truncateRunes truncates a text to at most limit characters. It removes white space at the end of
// a truncated text.
func truncateRunes(s string, limit int) string {
	kept := truncate.Runes(s, limit)
	if len(kept) == len(s) {
		return s
	}
	return strings.TrimRightFunc(kept, unicode.IsSpace)
}
