package analysis

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// kind is how a token is made into terms.
type kind uint8

const (
	none      kind = iota
	wordToken      // letters and digits of a script that writes spaces, with what may join them
	hanToken       // Chinese, Japanese and Korean
	seaToken       // Thai, Lao, Khmer, Burmese
	joinToken      // only while scanning: it joins two words when it stands between them
)

// token is a run of characters of one kind.
type token struct {
	text  string
	kind  kind
	asked bool // it is of a search: only what is needed to find it
}

// longest is how many bytes of a token count: nobody searches for more, and the store takes no more.
const longest = 192

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

// kindFor says what a character is.
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

func southEastern(r rune) bool {
	return r >= 0x0E00 && r < 0x0F00 || r >= 0x1000 && r < 0x10A0 || r >= 0x1780 && r < 0x1800 || r >= 0xAA60 && r < 0xAA80
}

func eastern(r rune) bool {
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Bopomofo)
}

func wordIf(is bool) kind {
	if is {
		return wordToken
	}
	return none
}

// invisible characters within words say how a word is drawn or broken, and nothing else.
func invisible(r rune) bool {
	return r == '\u00AD' || r == '\u200C' || r == '\u200D' || r == '\u2060' || r == '\uFEFF'
}

// scanner reads the tokens of a text.
type scanner struct {
	text       string
	each       func(token)
	start, end int  // of the token that is open
	open       kind // none when none is
	joined     bool // the character before was a joining one
}

// scan gives the tokens of a text. A single joining character between two characters of words belongs to the word; "++" and "#"
// behind a letter do too (C++, C#).
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

// step takes a character and says how many bytes were read.
func (s *scanner) step(at int, r rune, width int) int {
	switch k := kindFor(r); {
	case k == joinToken && s.open == wordToken && (!s.joined || invisible(r)):
		s.joined = true
	case k == none || k == joinToken:
		if suffix := suffixed(s.text[at:]); s.open == wordToken && s.end == at && suffix > 0 {
			s.end, width = at+suffix, suffix
		}
		s.give()
	case k == s.open:
		s.end, s.joined = at+width, false
	default:
		s.give()
		s.start, s.end, s.open = at, at+width, k
	}
	return width
}

func (s *scanner) give() {
	if s.open != none {
		s.each(token{text: bounded(s.text[s.start:s.end]), kind: s.open})
	}
	s.open, s.joined = none, false
}

// suffixed says how many bytes behind a word are part of its name.
func suffixed(rest string) int {
	for _, sign := range [...]string{"++", "#"} {
		if behind, has := strings.CutPrefix(rest, sign); has && (behind == "" || behind[0] < utf8.RuneSelf && ascii[behind[0]] != wordToken) {
			return len(sign)
		}
	}
	return 0
}

func bounded(text string) string {
	if len(text) <= longest {
		return text
	}
	end := longest
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}
