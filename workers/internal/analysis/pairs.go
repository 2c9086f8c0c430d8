package analysis

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// pairs appends the pairs of adjacent characters in a token of a script without spaces. In a
// document, it also appends each Chinese character, because a single character may be a word. In a
// query, it appends a single character only if the token consists of this character. Each character
// has a position of its own. pairs returns the position of the last character.
func pairs(terms []Lexeme, position int, run token) ([]Lexeme, int) {
	text := fold(run.text)
	before, at := "", 0
	for at < len(text) {
		end := at + cluster(text[at:], run.kind)
		one := text[at:end]
		position++
		// A token of a single character contains no pair, so without this term it could not be
		// found.
		alone := before == "" && end == len(text)
		if alone || !run.asked && run.kind == hanToken && single(one) {
			terms = append(terms, Lexeme{one, position})
		}
		if before != "" {
			terms = append(terms, Lexeme{text[at-len(before) : end], position - 1})
		}
		before, at = one, end
	}
	return terms, position
}

// cluster returns the number of bytes of the first character, including its vowel signs and tone
// marks in the scripts of Southeast Asia.
func cluster(text string, k kind) int {
	_, end := utf8.DecodeRuneInString(text)
	for k == seaToken && end < len(text) {
		r, width := utf8.DecodeRuneInString(text[end:])
		if !unicode.IsMark(r) && !strings.ContainsRune("ะาำๅະາຳ", r) {
			break
		}
		end += width
	}
	return end
}

// single reports whether a text begins with a Chinese character.
func single(text string) bool {
	r, _ := utf8.DecodeRuneInString(text)
	return unicode.Is(unicode.Han, r)
}
