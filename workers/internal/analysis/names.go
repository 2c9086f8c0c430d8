package analysis

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Names returns the words of a query that are probably names, in the same spelling as [Query].
// These are words with a digit, and capitalized words that do not begin a sentence. For German,
// which capitalizes all nouns, capitals are ignored.
func Names(text string) map[string]bool {
	names := map[string]bool{}
	capitals := Detect(text) != "de"

	// The first word of a sentence is always capitalized, so its capital means nothing.
	begins := true
	for field := range strings.FieldsSeq(text) {
		bare := strings.TrimFunc(field, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
		first, _ := utf8.DecodeRuneInString(bare)
		named := capitals && !begins && unicode.IsUpper(first)
		if named || strings.ContainsFunc(bare, unicode.IsDigit) {
			for _, w := range Query(bare) {
				if simple(w.Text) && (named || strings.ContainsFunc(w.Text, unicode.IsDigit)) {
					names[w.Text] = true
				}
			}
		}
		begins = strings.ContainsAny(field[len(field)-1:], ".!?:")
	}
	return names
}

// simple reports whether a word is a single word and not a code with several parts.
func simple(word string) bool {
	return !strings.ContainsFunc(word, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) })
}
