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
	// wordGap is the minimum space between two words of a line, as a share of their height. Poppler
	// divides words at any space, however narrow. It also divides words where the font changes,
	// although there is almost no space.
	wordGap = 0.02
	// wideGap is the minimum space between two words in scripts without spaces, as a share of their
	// height.
	wideGap = 0.6
)

// lineText returns the text of a line in reading order. leftToRight is the direction of the page.
func (p *page) lineText(l line, leftToRight bool) string {
	var b strings.Builder
	b.Grow(max(l.size(p), 0) + l.end - l.first) // words are separated by single spaces
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
	if turned && !p.logical {
		text = reorder([]rune(text), leftToRight)
	}
	return expand(text)
}

// apart reports whether there is a space between two consecutive words of a line.
func (p *page) apart(i, j int) bool {
	a, b := &p.words[i], &p.words[j]
	gap, size := max(b.x0-a.x1, a.x0-b.x1), min(a.height(), b.height())
	if upright := max(b.y0-a.y1, a.y0-b.y1); upright > gap { // the line is vertical, so use the vertical distance
		gap, size = upright, min(a.width(), b.width())
	}
	if unspaced(lastRune(p.word(i))) && unspaced(firstRune(p.word(j))) {
		return gap >= wideGap*size
	}
	return gap >= wordGap*size
}

// leftToRight reports whether most of the page is written from left to right.
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

// hasRightToLeft reports whether a text contains right-to-left letters. There are none below
// U+0590.
func hasRightToLeft(text []byte) bool {
	for i := 0; i < len(text); {
		if text[i] < 0xD6 { // the first byte of every character below U+0580 is less than this
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

// class returns L, R, EN for any digit, or ON for any other character.
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

// reorder converts a line from visual order, beginning at the left, to reading order. It reverses
// the characters within each run of right-to-left text. On a right-to-left page, it also reverses
// the order of the runs. Neutral characters inside a run belong to the run.
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

// against reports whether r begins a run against the page's direction. along reports whether r ends
// such a run.
func against(r rune, leftToRight bool) bool {
	c := class(r)
	if leftToRight {
		return c == bidi.R
	}
	return c == bidi.L || c == bidi.EN
}

func along(r rune, leftToRight bool) bool {
	c := class(r)
	if leftToRight {
		return c == bidi.L || c == bidi.EN
	}
	return c == bidi.R
}

// marksBehind moves the vowel signs of right-to-left letters behind their letters. After the
// reversal, the signs precede their letters, unless the document stores its lines backwards. A word
// that begins with a sign shows that the signs must be moved.
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

// expand replaces ligatures and presentation forms by letters.
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

// unspaced reports whether r belongs to a script without spaces between words.
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
