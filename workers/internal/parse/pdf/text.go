package pdf

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/bidi"
	"golang.org/x/text/unicode/norm"
)

const (
	// wordGap is the minimum space between two words in a line, as a fraction of their height.
	// Poppler also separates words at narrower spaces, and where only the font changes.
	wordGap = 0.02
	// wideGap is the minimum space between two words in scripts without spaces, as a fraction of
	// their height.
	wideGap = 0.6
)

// lineText returns the text of a line in reading order. The argument leftToRight is true if the
// page is written from left to right. Words are separated by single spaces where the gap between
// them is wide enough. Ligatures are replaced by letters.
func (p *page) lineText(l line, leftToRight bool) string {
	var b strings.Builder
	b.Grow(max(l.size(p), 0) + l.end - l.first) // a single space is added between words
	turned := false
	for i := l.first; i < l.end; i++ {
		if i > l.first && p.apart(i-1, i) {
			b.WriteByte(' ')
		}
		text := p.word(i)
		turned = turned || hasRightToLeft(text)
		b.Write(text)
	}

	text := b.String()
	// Poppler outputs words in visual order, in which right-to-left text is reversed. Tesseract
	// does not.
	if turned && !p.logical {
		text = reorder([]rune(text), leftToRight)
	}
	return expand(text)
}

// apart reports whether two consecutive words of a line are separated by a space. The arguments i
// and j are the indexes of the words in the page.
func (p *page) apart(i, j int) bool {
	a, b := &p.words[i], &p.words[j]
	gap, size := max(b.x0-a.x1, a.x0-b.x1), min(a.height(), b.height())
	if upright := max(b.y0-a.y1, a.y0-b.y1); upright > gap { // the line is vertical, so the vertical distance counts
		gap, size = upright, min(a.width(), b.width())
	}
	if unspaced(lastRune(p.word(i))) && unspaced(firstRune(p.word(j))) {
		return gap >= wideGap*size
	}
	return gap >= wordGap*size
}

// leftToRight reports whether most text of the page is written from left to right. A page without
// text is left to right.
func (p *page) leftToRight() bool {
	balance := 0
	if !hasRightToLeft(p.text) {
		return true
	}

	for _, r := range string(p.text) {
		switch class(r) { //nolint:exhaustive // other classes have no direction
		case bidi.L:
			balance++
		case bidi.R:
			balance--
		}
	}
	return balance >= 0
}

// hasRightToLeft reports whether a text contains right-to-left letters. All such letters are at or
// above U+0590.
func hasRightToLeft(text []byte) bool {
	for i := 0; i < len(text); {
		if text[i] < 0xD6 { // skip the byte: characters above U+057F begin with a byte of at least 0xD6
			i++
			continue
		}
		r, n := utf8.DecodeRune(text[i:])
		if class(r) == bidi.R {
			return true
		}
		i += n
	}
	return false
}

// class returns the direction of a character: L, R, EN for any digit, or ON for other characters.
func class(r rune) bidi.Class {
	properties, _ := bidi.LookupRune(r)
	switch c := properties.Class(); c {
	case bidi.L:
		return bidi.L
	case bidi.R, bidi.AL:
		return bidi.R
	case bidi.EN, bidi.AN:
		return bidi.EN
	default:
		return bidi.ON
	}
}

// reorder converts a line from visual order, which begins at the left, to reading order. It
// reverses the characters in each sequence of right-to-left text. On a right-to-left page, it also
// reverses the order of the sequences. Neutral characters inside of a sequence belong to the
// sequence. reorder changes the argument seen.
func reorder(seen []rune, leftToRight bool) string {
	if !leftToRight {
		slices.Reverse(seen)
	}
	for i := 0; i < len(seen); i++ {
		if !against(seen[i], leftToRight) {
			continue
		}
		end := i + 1
		for k := end; k < len(seen) && !along(seen[k], leftToRight); k++ {
			if against(seen[k], leftToRight) || unicode.Is(unicode.Mn, seen[k]) {
				end = k + 1
			}
		}
		slices.Reverse(seen[i:end])
		i = end - 1
	}
	return string(marksBehind(seen))
}

// against reports whether r begins a sequence that runs against the direction of the page. The
// function along reports whether r ends such a sequence.
func against(r rune, leftToRight bool) bool {
	c := class(r)
	if leftToRight {
		return c == bidi.R
	}
	return c == bidi.L || c == bidi.EN
}

// along reports whether r has the direction of the page, so that it ends a sequence that runs
// against this direction.
func along(r rune, leftToRight bool) bool {
	c := class(r)
	if leftToRight {
		return c == bidi.L || c == bidi.EN
	}
	return c == bidi.R
}

// marksBehind moves vowel signs of right-to-left letters after their letters. Reversed text has the
// signs before their letters, unless the document stores its lines backwards. The signs are moved
// if a word begins with a sign. marksBehind changes the slice text and returns it.
func marksBehind(text []rune) []rune {
	wrong := false
	for i, r := range text {
		wrong = wrong || unicode.Is(unicode.Mn, r) && (i == 0 || text[i-1] == ' ')
	}

	for i := 0; wrong && i < len(text); i++ {
		marks := i
		for i < len(text) && unicode.Is(unicode.Mn, text[i]) {
			i++
		}
		if i > marks && i < len(text) && class(text[i]) == bidi.R {
			letter := text[i]
			copy(text[marks+1:], text[marks:i])
			text[marks] = letter
		}
	}
	return text
}

// expand replaces ligatures and presentation forms with letters, so that a search for the letters
// finds the text.
func expand(text string) string {
	if strings.IndexFunc(text, isShape) < 0 {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if isShape(r) {
			b.WriteString(norm.NFKC.String(string(r)))
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// isShape reports whether r is a Latin, Armenian or Hebrew ligature, or an Arabic presentation
// form.
func isShape(r rune) bool {
	return r >= 0xFB00 && r <= 0xFDFF && r != 0xFD3E && r != 0xFD3F || r >= 0xFE70 && r <= 0xFEFC
}

// unspaced reports whether r belongs to a script that has no spaces between words.
func unspaced(r rune) bool {
	if r < 0x0E00 {
		return false
	}
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar) ||
		r >= 0x3000 && r <= 0x303F || r >= 0xFF00 && r <= 0xFFEF
}

func firstRune(text []byte) rune {
	r, _ := utf8.DecodeRune(text)
	return r
}

func lastRune(text []byte) rune {
	r, _ := utf8.DecodeLastRune(text)
	return r
}
