package pdf

import (
	"bytes"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"parley/shared/domain"
	"parley/workers/internal/document"
)

const (
	// maxHeadingLines and maxHeadingSize, in bytes, limit the length of a heading. Text with a
	// heading's height that exceeds these limits is considered text in large print.
	maxHeadingLines = 4
	maxHeadingSize  = 250
	stepsPerPoint   = 4 // heights are rounded to quarters of a point
)

// levels contains the minimum height of headings for each level, beginning with level 1. The
// heights are multiples of the body height.
var levels = []float64{1.7, 1.38, 1.17}

// sizes contains the number of bytes of text for each height. The keys are heights in quarters of a
// point. The most frequent height is the body height, which is the height of ordinary text.
type sizes map[int]int

// add adds the text of a page to the counts. All text of a line is counted for the height that most
// of the line's text has.
func (s sizes) add(p *page) {
	for _, l := range p.lines {
		n := 0
		for i := l.first; i < l.end; i++ {
			n += p.words[i].to - p.words[i].from
		}
		s[int(p.lineHeight(l)*stepsPerPoint+0.5)] += n
	}
}

// body returns the body height in points, or 0 if no text was counted. If several heights are
// equally frequent, it returns the smallest.
func (s sizes) body() float64 {
	best := 0
	for size, n := range s {
		if n > s[best] || n == s[best] && size < best {
			best = size
		}
	}
	return float64(best) / stepsPerPoint
}

// lineHeight returns the height of most of the text in a line in points, so that a single high
// character does not make the line a heading. Words whose heights differ by less than 0.3 points
// have the same height.
func (p *page) lineHeight(l line) float64 {
	best, maximum := 0.0, 0
	for i := l.first; i < l.end; i++ {
		h, n := p.words[i].height(), 0
		for j := l.first; j < l.end; j++ {
			if d := p.words[j].height() - h; d < 0.3 && d > -0.3 {
				n += p.words[j].to - p.words[j].from
			}
		}
		if n > maximum {
			best, maximum = h, n
		}
		// No other height can have more text.
		if 2*maximum > l.size(p) {
			break
		}
	}
	return best
}

// size returns the number of bytes of a line's text.
func (l line) size(p *page) int {
	if l.end == l.first {
		return 0
	}
	return p.words[l.end-1].to - p.words[l.first].from
}

// layout converts a page to blocks. It is used for one page.
type layout struct {
	// page is the page to convert. body is the body height in points. leftToRight is true if most
	// of the page's text is written from left to right.
	page        *page
	body        float64
	leftToRight bool
	// put receives the blocks in reading order.
	put func(document.Block) error

	parts []string // lines of the block that is being assembled
	kind  document.Kind
	level int
	// box surrounds the lines in parts.
	box    box
	number int // number of the last item of a numbered list
	// err is the first error of put. After this error, no block is written.
	err error
}

// writePage calls put with each block of a page, in the order in which poppler outputs the text.
// body is the body height of the document; a page with enough text may have a larger body height of
// its own. It returns the first error of put.
func writePage(p *page, body float64, put func(document.Block) error) error {
	l := &layout{page: p, body: max(body, p.ownBody()), leftToRight: p.leftToRight(), put: put}
	for i := 0; i < len(p.blocks); i++ {
		if rows := l.table(i); len(rows) > 0 {
			l.end()
			l.writeRows(rows)
			i += cells(rows) - 1
			continue
		}
		b := p.blocks[i]
		l.block(b)
		// A paragraph that ends with a hyphen continues in the next block of the same flow, for
		// example in the next column.
		follows := i+1 < len(p.blocks) && p.blocks[i+1].flow == b.flow
		if !follows || !l.hyphenated() {
			l.end()
		}
	}
	return l.err
}

// enoughOwn is the number of bytes of text from which a page's own body height is determined. The
// font of a page may have higher letters than the document's main font at the same size.
const enoughOwn = 300

// ownBody returns the body height of the page itself in points, or 0 if the page has too little
// text.
func (p *page) ownBody() float64 {
	if len(p.text) < enoughOwn {
		return 0
	}
	own := sizes{}
	own.add(p)
	return own.body()
}

// hyphenated reports whether the last line of a paragraph ends with a hyphen. The next block then
// continues the paragraph.
func (l *layout) hyphenated() bool {
	n := len(l.parts)
	return n > 0 && l.kind == document.Paragraph && strings.HasSuffix(l.parts[n-1], "-")
}

// block adds the lines of a block as a heading, as list items or as paragraphs. The last heading,
// item or paragraph is not ended, because the next block may continue it.
func (l *layout) block(b block) {
	l.number = 0
	if level := l.headingLevel(b); level > 0 {
		l.end()

		for _, ln := range l.page.lines[b.first:b.end] {
			l.add(document.Heading, ln)
		}
		l.level = level
		return
	}
	for i := b.first; i < b.end; i++ {
		ln := l.page.lines[i]
		switch {
		case l.beginsItem(ln, i == b.first):
			l.end()
			l.add(document.Item, ln)
		case l.indented(b, i) && !l.hyphenated():
			l.end()
			l.add(document.Paragraph, ln)
		default:
			l.add(l.kind, ln)
		}
	}
}

// add appends a line to the block that is being assembled. If there is no such block, add begins a
// block of the given kind. The kind "" means a paragraph.
func (l *layout) add(kind document.Kind, ln line) {
	text := l.page.lineText(ln, l.leftToRight)
	if text == "" {
		return
	}
	if len(l.parts) == 0 {
		if kind == "" {
			kind = document.Paragraph
		}
		l.kind, l.box = kind, ln.box
	}
	l.parts = append(l.parts, text)
	l.box = l.box.with(ln.box)
}

// end writes the block that is being assembled, if there is one, and removes its lines. The next
// line then begins a new block.
func (l *layout) end() {
	if len(l.parts) > 0 && l.err == nil {
		bounds := domain.Box{l.box.x0, l.box.y0, l.box.x1, l.box.y1}
		l.err = l.put(document.Block{Kind: l.kind, Level: l.level, Text: join(l.parts), Box: &bounds})
	}
	l.parts, l.kind, l.level = l.parts[:0], "", 0
}

// join joins lines to running text. It removes a hyphen from the end of a line if the letters on
// both sides are lower-case; other hyphens are part of numbers and names. It inserts a space
// between lines, except in scripts without spaces and after a hyphen.
func join(lines []string) string {
	var b strings.Builder
	for i, text := range lines {
		if i+1 == len(lines) {
			b.WriteString(text)
			break
		}

		next, _ := utf8.DecodeRuneInString(lines[i+1])
		if cut, is := strings.CutSuffix(text, "-"); is && cut != "" && !strings.HasSuffix(cut, " ") {
			before, _ := utf8.DecodeLastRuneInString(cut)
			if !unicode.IsLower(before) || !unicode.IsLower(next) {
				cut = text
			}
			b.WriteString(cut)
			continue
		}

		b.WriteString(text)
		last, _ := utf8.DecodeLastRuneInString(text)
		if !unspaced(last) || !unspaced(next) {
			b.WriteByte(' ')
		}
	}
	return b.String()
}

// numbered matches a heading with a section number, such as "2.1 Building".
var numbered = regexp.MustCompile(`^(\d{1,2}(?:\.\d{1,2}){1,4})\.? +\p{Lu}.*[^.…\d\s]$`)

// headingLevel returns the level of a heading from 1 to 6, or 0 if the block is not a heading. A
// block is a heading if all of its lines are clearly higher than ordinary text, or if it is a
// single line with a section number.
func (l *layout) headingLevel(b block) int {
	n := b.end - b.first
	if n == 0 || n > maxHeadingLines {
		return 0
	}

	height, letters := l.measure(b)
	if letters > maxHeadingSize || !l.hasLetters(b) || l.isContentsEntry(b) {
		return 0
	}
	for i, least := range levels {
		if l.body > 0 && height >= least*l.body {
			return i + 1
		}
	}

	// A heading of ordinary height must be short, and not lower than ordinary text.
	if n > 1 || height < 0.98*l.body || letters > maxHeadingSize/2 {
		return 0
	}
	if m := numbered.FindStringSubmatch(l.page.lineText(l.page.lines[b.first], l.leftToRight)); m != nil {
		return min(len(levels)+strings.Count(m[1], "."), 6)
	}
	return 0
}

// measure returns the minimum height of the lines in a block in points, and the number of bytes of
// their text.
func (l *layout) measure(b block) (height float64, letters int) {
	for i, ln := range l.page.lines[b.first:b.end] {
		letters += ln.size(l.page)
		if h := l.page.lineHeight(ln); i == 0 || h < height {
			height = h
		}
	}
	return height, letters
}

// isContentsEntry reports whether a block is an entry of a table of contents, in which dots lead to
// a page number.
func (l *layout) isContentsEntry(b block) bool {
	text := l.page.lineText(l.page.lines[b.end-1], l.leftToRight)
	return strings.Contains(text, ". . .") || strings.Contains(text, "....") || strings.Contains(text, "……")
}

// hasLetters reports whether a block contains a letter. Large numbers are not headings.
func (l *layout) hasLetters(b block) bool {
	for _, ln := range l.page.lines[b.first:b.end] {
		for i := ln.first; i < ln.end; i++ {
			if bytes.IndexFunc(l.page.word(i), unicode.IsLetter) >= 0 {
				return true
			}
		}
	}
	return false
}

// beginsItem reports whether a line begins a list item, with a bullet or with the next number. The
// argument first is true for the first line of a block, where a list may begin with any number. A
// line with only a mark is not an item.
func (l *layout) beginsItem(ln line, first bool) bool {
	if ln.end-ln.first < 2 {
		return false
	}
	mark := string(l.page.word(ln.first))
	if strings.ContainsRune("•◦▪▫●○■□‣⁃∙·–—*-", []rune(mark)[0]) && utf8.RuneCountInString(mark) == 1 {
		return true
	}

	n, ok := itemNumber(mark)
	if !ok || !first && n != l.number+1 {
		return false
	}

	l.number = n
	return true
}

// itemNumber returns the number in a mark such as "1.", "1)" or "(1)". It returns false for any
// other text. Numbers have at most three digits.
func itemNumber(mark string) (int, bool) {
	mark = strings.TrimPrefix(mark, "(")
	if len(mark) < 2 || len(mark) > 4 || mark[len(mark)-1] != '.' && mark[len(mark)-1] != ')' {
		return 0, false
	}
	n := 0
	for _, c := range mark[:len(mark)-1] {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, true
}

// indented reports whether the line with the index i begins a paragraph, because it is indented and
// the lines before and after it are not. Lines of right-to-left pages are never indented in this
// sense.
func (l *layout) indented(b block, i int) bool {
	if i == b.first || i+1 >= b.end || !l.leftToRight {
		return false
	}
	lines := l.page.lines
	in := 0.7 * lines[i].height()
	atEdge := func(j int) bool { return lines[j].x0-b.x0 < in/3 }
	return lines[i].x0-b.x0 > in && lines[i].x0-b.x0 < 6*in && atEdge(i-1) && atEdge(i+1)
}
