package analysis

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Names gives the words of a search, as Query has them, that name something: those with a digit, and those written with a capital
// where a sentence does not begin. In German every noun is, so that capitals say nothing there.
func Names(text string) map[string]bool {
	names := map[string]bool{}
	capitals := Detect(text) != "de"
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

// simple says whether a word is no code of several parts: these are words too.
func simple(word string) bool {
	return !strings.ContainsFunc(word, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) })
}
