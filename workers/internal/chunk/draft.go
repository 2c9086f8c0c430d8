package chunk

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"parley/shared/domain"
	"parley/workers/internal/document"
)

// maxHeading is the maximum number of code points of a heading or header row that is stored with a
// chunk.
const maxHeading = 200

// draft is a chunk that is being filled.
type draft struct {
	// text is a part of the page's text. The code point at offset n of text is at offset start+n of
	// the page.
	text  []byte
	start int // offset in the text of the page
	size  int // number of code points
	// The headings above the draft.
	path    []mark
	section []mark // headings above the draft's last section; a section with the same parent heading may be joined to it
	// The header rows of the table that the draft continues.
	head   []string
	headed bool // true if the first block is a heading
	body   bool // true if the draft contains blocks that are not headings
	// The smallest rectangle that contains all blocks, or nil if it is unknown.
	box *domain.Box
}

// append adds text to the draft. size is the number of the text's code points, which the caller has
// counted. The caller advances the position on the page.
func (d *draft) append(text string, size int) {
	d.text = append(d.text, text...)
	d.size += size
}

// cover enlarges the draft's rectangle so that it contains box. A box of nil changes nothing:
// blocks without a position do not count.
func (d *draft) cover(box *domain.Box) {
	switch {
	case box == nil:
	case d.box == nil:
		copied := *box
		d.box = &copied
	default:
		d.box[0], d.box[1] = min(d.box[0], box[0]), min(d.box[1], box[1])
		d.box[2], d.box[3] = max(d.box[2], box[2]), max(d.box[3], box[3])
	}
}

// put adds a part of a block to the draft, at the current position on the page.
func (c *Chunker) put(block document.Block, text string, size int) {
	if c.draft == nil {
		c.draft = &draft{start: c.page.at, path: c.path, section: c.path, headed: block.Kind == document.Heading}
		// A chunk that begins in the middle of a table also needs the names of the columns.
		if block.Kind == document.Row && !block.Head {
			c.draft.head = c.head
		}
	}
	c.draft.append(text, size)
	c.draft.cover(block.Box)
	c.draft.body = c.draft.body || block.Kind != document.Heading
	c.page.at += size
}

// finish completes the current draft. If whole is true, the draft ends with its section. A short
// section that is complete is held back, because the next section may be joined to it.
func (c *Chunker) finish(whole bool) {
	d := c.draft
	c.draft = nil
	if d == nil {
		return
	}
	if c.held != nil && whole && c.joins(c.held, d) {
		d = join(c.held, d)
		c.held = nil
	}

	// If the held section cannot be joined with this one, emit it first.
	c.release()
	if whole && d.headed && d.size < c.limits.Target/3 {
		c.held = d
		return
	}
	c.emit(d)
}

// joins reports whether two sections of a page become one chunk. They must have the same parent
// heading and the same level, and together they must be short: at most two thirds of the target.
func (c *Chunker) joins(a, b *draft) bool {
	n := len(a.section)
	return b.headed && n > 0 && n == len(b.section) && a.size+2+b.size <= c.limits.Target*2/3 &&
		a.section[n-1].level == b.section[n-1].level && slices.Equal(a.section[:n-1], b.section[:n-1])
}

// join appends b to a and returns a. The result has only the headings that are above both.
func join(a, b *draft) *draft {
	a.append("\n\n", 2)
	a.append(string(b.text), b.size)
	a.cover(b.box)
	a.body = a.body || b.body
	a.section = b.section
	shared := 0
	for shared < min(len(a.path), len(b.path)) && a.path[shared] == b.path[shared] {
		shared++
	}
	a.path = a.path[:shared]
	return a
}

// release emits the section that is held back, if there is one.
func (c *Chunker) release() {
	if c.held != nil {
		c.emit(c.held)
		c.held = nil
	}
}

// emit converts a draft to a passage. It removes trailing white space and leading empty lines. It
// keeps the indentation of the first line, which is significant in verbatim text.
func (c *Chunker) emit(d *draft) {
	text := strings.TrimRightFunc(string(d.text), unicode.IsSpace)
	trimmed := strings.TrimLeft(text, "\r\n\v\f\u0085\u2028\u2029")
	if trimmed == "" {
		return
	}

	// The offsets of citations refer to the trimmed text, so move the start past the removed lines.
	start := d.start + utf8.RuneCountInString(text[:len(text)-len(trimmed)])
	passage := domain.Passage{
		Chunk: c.number, Headings: headings(d), Text: trimmed,
		StartIndex: start, EndIndex: start + utf8.RuneCountInString(trimmed), Box: d.box,
	}
	if c.page.number > 0 {
		page := c.page.number
		passage.Page = &page
	}
	c.number++
	c.done = append(c.done, passage)
}

// headings returns the headings above a draft, from the outermost to the innermost. If the draft
// continues a table, they are followed by the table's header rows.
func headings(d *draft) []string {
	path := make([]string, 0, len(d.path)+1)
	for _, above := range d.path {
		path = append(path, above.text)
	}
	if len(d.head) > 0 {
		path = append(path, name(strings.Join(d.head, " / ")))
	}
	return path
}

// name returns a heading as a single line, truncated to maxHeading code points. A truncated heading
// ends with an ellipsis, which counts as one code point.
func name(text string) string {
	short, n := text, 0
	for at := range text {
		if n++; n > 4*maxHeading { // the first part is enough, even if it contains many spaces
			short = text[:at]
			break
		}
	}

	line := strings.Join(strings.Fields(short), " ")
	if utf8.RuneCountInString(line) <= maxHeading && len(short) == len(text) {
		return line
	}

	runes := []rune(line)
	return strings.TrimRightFunc(string(runes[:min(len(runes), maxHeading-1)]), unicode.IsSpace) + "…"
}

// blank reports whether a text contains only white space.
func blank(text string) bool {
	return strings.IndexFunc(text, func(r rune) bool { return !unicode.IsSpace(r) }) < 0
}
