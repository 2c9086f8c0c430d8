package analysis

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"parley/shared/truncate"
)

// kind is the kind of the characters in a token. It determines how the token is converted to terms.
type kind uint8

const (
	none      kind = iota
	wordToken      // letters and digits of scripts with spaces between words, and joining characters
	hanToken       // Chinese, Japanese and Korean characters
	seaToken       // characters of Thai, Lao, Khmer and Burmese
	joinToken      // used only during the scan: a character that joins two words if it stands between them
)

// token is a sequence of characters of one kind.
type token struct {
	text  string
	kind  kind
	asked bool // part of a query, so only the terms needed for a search are extracted
}

// maxToken is the number of bytes of a token that are indexed. The rest is ignored, because people
// do not search for longer words and the database does not accept them.
const maxToken = 192

// ascii contains the kind of each ASCII character. The table is fast, and most texts are mainly
// ASCII.
var ascii = func() (kinds [utf8.RuneSelf]kind) {
	for r := range kinds {
		switch {
		case r >= '0' && r <= '9', r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z':
			kinds[r] = wordToken
		case r == '\'', r == '-', r == '_', r == '.', r == '@', r == ',':
			kinds[r] = joinToken
		}
	}
	return kinds
}()

// kindFor returns the kind of a character.
func kindFor(r rune) kind {
	written := unicode.IsLetter(r) || unicode.IsMark(r)
	switch {
	case r < utf8.RuneSelf:
		return ascii[r]
	case dash(r), r == '’', r == '·', invisible(r):
		return joinToken
	case written && southEastern(r):
		return seaToken
	case r == 'ー', r >= 0x1100 && eastern(r) && (written || unicode.IsNumber(r)):
		return hanToken
	}
	return wordIf(written || unicode.IsDigit(r))
}

// southEastern reports whether r is in one of the Unicode blocks of Thai, Lao, Burmese or Khmer.
func southEastern(r rune) bool {
	return r >= 0x0E00 && r < 0x0F00 || r >= 0x1000 && r < 0x10A0 || r >= 0x1780 && r < 0x1800 || r >= 0xAA60 && r < 0xAA80
}

// eastern reports whether r belongs to an East Asian script.
func eastern(r rune) bool {
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Bopomofo)
}

// wordIf returns wordToken if the argument is true, and otherwise none.
func wordIf(is bool) kind {
	if is {
		return wordToken
	}
	return none
}

// invisible reports whether a character affects only how a word is displayed or hyphenated.
func invisible(r rune) bool {
	return r == '\u00AD' || r == '\u200C' || r == '\u200D' || r == '\u2060' || r == '\uFEFF'
}

// scanner splits a text into tokens. A token ends where the kind of the characters changes.
type scanner struct {
	text       string
	each       func(token)
	start, end int  // offsets of the token that is being read
	open       kind // kind of the token that is being read; none between tokens
	joined     bool // true if the last character joins two parts of a word
}

// scan calls the function each with the tokens of a text, in order. A single joining character
// between two word characters, such as "-", is part of the word, and so is "++" or "#" after a
// letter (C++, C#). Other punctuation separates tokens.
func scan(text string, each func(token)) {
	s := scanner{text: text, each: each}
	for at := 0; at < len(text); {
		r, width := rune(text[at]), 1
		if r >= utf8.RuneSelf {
			r, width = utf8.DecodeRuneInString(text[at:])
		}
		at += s.step(at, r, width)
	}
	s.give()
}

// step processes the character r. at is the offset of r. It returns the number of bytes processed.
func (s *scanner) step(at int, r rune, width int) int {
	switch k := kindFor(r); {
	// The character joins two parts only if a word character follows. Until then, end stays after
	// the last word character.
	case k == joinToken && s.open == wordToken && (!s.joined || invisible(r)):
		s.joined = true
	case k == none || k == joinToken:
		if suffix := suffixed(s.text[at:]); s.open == wordToken && s.end == at && suffix > 0 {
			s.end, width = at+suffix, suffix
		}
		s.give()
	case k == s.open:
		s.end, s.joined = at+width, false
	// A character of another kind begins a new token, even without a space between them.
	default:
		s.give()
		s.start, s.end, s.open = at, at+width, k
	}
	return width
}

// give passes the current token, if there is one, to the function each.
func (s *scanner) give() {
	if s.open != none {
		s.each(token{text: truncate.Bytes(s.text[s.start:s.end], maxToken), kind: s.open})
	}
	s.open, s.joined = none, false
}

// suffixed returns the length of a suffix such as "++" that belongs to the preceding word, or 0.
// rest is the text after the word.
func suffixed(rest string) int {
	for _, sign := range [...]string{"++", "#"} {
		if behind, has := strings.CutPrefix(rest, sign); has && (behind == "" || behind[0] < utf8.RuneSelf && ascii[behind[0]] != wordToken) {
			return len(sign)
		}
	}
	return 0
}
