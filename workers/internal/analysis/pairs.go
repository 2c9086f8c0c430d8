package analysis

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// pairs adds the pairs of neighbouring characters of a run in a script that writes no spaces. Documents also have each single
// character of Chinese, which may be a word; searches have single ones only where they stand alone.
func pairs(terms []Lexeme, position int, run token) ([]Lexeme, int) {
	text := fold(run.text)
	before, at := "", 0
	for at < len(text) {
		end := at + cluster(text[at:], run.kind)
		one := text[at:end]
		position++
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

// cluster is a character with the vowels and tones around it.
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

func single(text string) bool {
	r, _ := utf8.DecodeRuneInString(text)
	return unicode.Is(unicode.Han, r)
}
