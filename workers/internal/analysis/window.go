package analysis

import (
	"slices"
	"strings"
	"unicode"
)

const (
	windowSize    = 4 * sample // bytes; enough for as many letters as a language is told from, in most scripts
	sentenceWords = 8          // a line of fewer is taken for a heading, an entry, a cell
	longText      = 400_000    // bytes that are looked at
)

// windows are the parts of a text that its language is told from, the best first: sentences of its beginning and of its middle, then
// whatever stands at its beginning and in its middle.
func windows(text string) []string {
	text = strings.ToValidUTF8(text[:min(len(text), longText)], "")
	var all, sentences strings.Builder
	for line := range strings.Lines(text) {
		short := reduced(line)
		all.WriteString(short)
		if isSentence(line, short) {
			sentences.WriteString(short)
		}
	}
	found := []string{window(all.String(), 0)}
	if all.Len() > 2*windowSize {
		found = append(found, window(all.String(), all.Len()/2))
	}
	if sentences.Len() > windowSize/4 {
		found = slices.Insert(found, 0, window(sentences.String(), 0))
	}
	if sentences.Len() > 2*windowSize {
		found = slices.Insert(found, 1, window(sentences.String(), sentences.Len()/2))
	}
	return found
}

// window is the part of a text from so many bytes on.
func window(text string, from int) string {
	return strings.ToValidUTF8(text[from:min(len(text), from+windowSize)], "")
}

// isSentence reports whether a line reads like running text: it has many words, and not much of it went when it was reduced.
func isSentence(line, short string) bool {
	return len(short)*5 >= len(line)*4 && (len(strings.Fields(short)) >= sentenceWords || unspaced(short))
}

// unspaced reports a line of a script that has no spaces between words.
func unspaced(line string) bool {
	n := 0
	for _, r := range line {
		if unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar) {
			n++
		}
	}
	return n >= sentenceWords
}

// reduced is a text without numbers, and with one for each run of the same sign: what leads from a heading to its page says nothing
// of the language, however long it is.
func reduced(text string) string {
	var b strings.Builder
	b.Grow(len(text))
	space, last := false, rune(0) // last: the sign that was written, when no letter was since
	for _, r := range text {
		switch {
		case r == '\n':
			b.WriteByte('\n')
			space = true
		case unicode.IsDigit(r), unicode.IsSpace(r):
			if !space {
				b.WriteByte(' ')
			}
			space = true
		case unicode.IsLetter(r), unicode.IsMark(r):
			b.WriteRune(r)
			space, last = false, 0
		case r != last:
			b.WriteRune(r)
			space, last = false, r
		}
	}
	return b.String()
}
