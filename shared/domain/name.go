package domain

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Characters with special rules in HiddenRune.
const (
	zeroWidthNonJoiner = '\u200C'
	zeroWidthJoiner    = '\u200D'
	brailleBlank       = '\u2800'
	wideSpace          = '\u3000' // typed with Chinese and Japanese keyboards
	textVariation      = '\uFE0E'
	emojiVariation     = '\uFE0F'
)

// HiddenRune returns the first character of text that is invisible or changes how the following
// text is displayed, such as a control or bidirectional character. It returns utf8.RuneError if
// there is none. Joiners and variation selectors are permitted within emoji and in scripts whose
// letters join.
func HiddenRune(text string) rune {
	// Most texts consist of printable ASCII characters, none of which is hidden.
	if !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) {
		return utf8.RuneError
	}

	runes := []rune(text)
	for i := range runes {
		if hidden(runes, i) {
			return runes[i]
		}
	}
	return utf8.RuneError
}

// NameFault returns the reason why text cannot be a name or a visible id: it contains a character
// that HiddenRune returns, or it consists of white space. It returns "" for a valid text and for an
// empty one.
func NameFault(text string) string {
	if r := HiddenRune(text); r != utf8.RuneError {
		return fmt.Sprintf("must not contain %U: control, invisible and bidirectional characters are not allowed", r)
	}
	if text != "" && strings.TrimSpace(text) == "" {
		return "must not be only white space"
	}
	return ""
}

// hidden reports whether HiddenRune treats the character at i as invisible or as changing the
// display.
func hidden(runes []rune, i int) bool {
	switch r := runes[i]; r {
	case zeroWidthJoiner, zeroWidthNonJoiner:
		return i == 0 || i == len(runes)-1 || !joins(runes[i-1]) || !joins(runes[i+1])
	case textVariation, emojiVariation:
		return i == 0 || unicode.IsLetter(runes[i-1])
	default:
		return r == brailleBlank || unicode.IsSpace(r) && r != ' ' && r != wideSpace || !unicode.IsGraphic(r) ||
			unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
	}
}

// joins reports whether a zero-width joiner next to r changes how the text looks. This is the case
// for emoji and for letters of scripts whose letters join.
func joins(r rune) bool {
	return unicode.In(r, unicode.So, unicode.Sk, unicode.M) ||
		unicode.IsLetter(r) && !unicode.In(r, unicode.Latin, unicode.Greek, unicode.Cyrillic, unicode.Han, unicode.Hangul)
}

// CleanText returns text without invalid UTF-8 and without the characters that HiddenRune
// returns, truncated to maxRunes characters. Every kind of white space becomes a space, and
// leading and trailing spaces are removed.
func CleanText(text string, maxRunes int) string {
	runes := make([]rune, 0, len(text))
	for _, r := range text {
		switch {
		case r == unicode.ReplacementChar:
		case r != wideSpace && unicode.IsSpace(r): // includes line breaks
			runes = append(runes, ' ')
		default:
			runes = append(runes, r)
		}
	}

	kept := trimmed(visible(runes))
	if len(kept) > maxRunes {
		kept = trimmed(visible(kept[:maxRunes])) // truncation may remove the character next to a joiner
	}
	return string(kept)
}

// visible returns the runes without the hidden runes. If the removal separates a joiner from
// the character that it joins, visible also removes all joiners and variation selectors.
func visible(runes []rune) []rune {
	kept := make([]rune, 0, len(runes))
	for i, r := range runes {
		if !hidden(runes, i) {
			kept = append(kept, r)
		}
	}
	if HiddenRune(string(kept)) != utf8.RuneError { // a joiner has lost the character next to it, so it is now hidden
		kept = slices.DeleteFunc(kept, func(r rune) bool { return unicode.In(r, unicode.Cf, unicode.Variation_Selector) })
	}
	return kept
}

// trimmed returns the runes without white space at both ends.
func trimmed(runes []rune) []rune { return []rune(strings.TrimSpace(string(runes))) }

// CleanName returns the file name at the end of a path, cleaned by CleanText. It returns "" if
// no visible character except dots is left.
func CleanName(name string, maxRunes int) string {
	name = CleanText(name[strings.LastIndexAny(name, `/\`)+1:], maxRunes)
	if strings.TrimFunc(name, func(r rune) bool { return r == '.' || unicode.IsSpace(r) }) == "" {
		return ""
	}
	return name
}
