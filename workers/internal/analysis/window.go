package analysis

import (
	"slices"
	"strings"
	"unicode"
)

const (
	windowSize    = 4 * sample // bytes; in most scripts, this contains at least sample letters
	sentenceWords = 8          // a line with fewer words is considered a heading, a list item or a cell
	longText      = 400_000    // number of bytes of a text that are examined
)

// windows returns the parts of a text that are most suitable for detecting its language, the best
// first. Sentences from the beginning and the middle come first, then any text from the beginning
// and the middle. There are one to four parts of at most windowSize bytes.
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

	// Running text is inserted before this part, because it is more reliable than headings and
	// tables.
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

// window returns at most windowSize bytes of a text, beginning at offset from. Incomplete
// characters at its ends are dropped.
func window(text string, from int) string {
	return strings.ToValidUTF8(text[from:min(len(text), from+windowSize)], "")
}

// isSentence reports whether a line is probably running text. Such a line has many words, and most
// of it remains in short, which is the line after reduced.
func isSentence(line, short string) bool {
	return len(short)*5 >= len(line)*4 && (len(strings.Fields(short)) >= sentenceWords || unspaced(short))
}

// unspaced reports whether a line is written in a script without spaces between words.
func unspaced(line string) bool {
	n := 0
	for _, r := range line {
		if unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar) {
			n++
		}
	}
	return n >= sentenceWords
}

// reduced returns a text without digits, and with each sequence of equal signs reduced to one sign.
// For example, it removes the dots between a heading and its page number in a table of contents.
func reduced(text string) string {
	var b strings.Builder
	b.Grow(len(text))
	space, last := false, rune(0) // last is the last sign that was written, or 0 after a letter
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
