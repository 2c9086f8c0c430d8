package httpapi

import (
	"unicode"
	"unicode/utf8"
)

// Characters that a reader cannot tell from others.
const (
	zeroWidthNonJoiner = '\u200C'
	zeroWidthJoiner    = '\u200D'
	brailleBlank       = '\u2800'
	wideSpace          = '\u3000' // of Chinese and Japanese keyboards
	textVariation      = '\uFE0E'
	emojiVariation     = '\uFE0F'
)

// hiddenRune gives the first character of a text that a reader does not see or that changes how the rest reads;
// utf8.RuneError when there is none. Emoji and scripts whose letters join keep what they need.
func hiddenRune(text string) rune {
	runes := []rune(text)
	for i, r := range runes {
		switch {
		case r == zeroWidthJoiner || r == zeroWidthNonJoiner:
			if i == 0 || i == len(runes)-1 || !joins(runes[i-1]) || !joins(runes[i+1]) {
				return r
			}
		case r == textVariation || r == emojiVariation:
			if i == 0 || unicode.IsLetter(runes[i-1]) {
				return r
			}
		case r == brailleBlank, unicode.IsSpace(r) && r != ' ' && r != wideSpace, !unicode.IsGraphic(r),
			unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector):
			return r
		}
	}
	return utf8.RuneError
}

// joins reports whether a zero-width joiner beside a character changes what is seen: emoji, and letters of scripts other than
// those in which nothing joins.
func joins(r rune) bool {
	return unicode.In(r, unicode.So, unicode.Sk, unicode.M) ||
		unicode.IsLetter(r) && !unicode.In(r, unicode.Latin, unicode.Greek, unicode.Cyrillic, unicode.Han, unicode.Hangul)
}
