package chunk

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/graphemes"
	"github.com/clipperhouse/uax29/v2/sentences"
	"github.com/clipperhouse/uax29/v2/words"

	"parley/workers/internal/document"
)

// fill adds a block to the draft, undivided if possible. It divides a block only if the block is
// longer than the target, or if the draft would otherwise be less than half full.
func (c *Chunker) fill(block document.Block) {
	size := utf8.RuneCountInString(block.Text)
	if c.size()+size > c.limits.Target && c.half() && (size <= c.limits.Target || block.Kind == document.Row) {
		c.finish(false)
	}
	// Exceeding the target a little is better than dividing a block.
	if c.size()+size <= c.limits.Max {
		c.put(block, block.Text, size)
		return
	}

	left := size
	pieces(block, func(text string) {
		n := utf8.RuneCountInString(text)
		c.piece(block, text, n, left)
		left -= n
	})
}

// piece adds a sentence, line or row of a block that must be divided. size is the length of the
// piece, and left is the length of the piece and the rest of the block. piece avoids a chunk that
// contains only the last few words of a block.
func (c *Chunker) piece(block document.Block, text string, size, left int) {
	full := c.size()+size > c.limits.Target && c.size()+left > c.limits.Max
	alone := size <= c.limits.Max || c.size() > c.limits.Max/2 // if false, the piece must be divided anyway and stays with its heading
	if c.draft != nil && full && (c.draft.body || c.size()+size > c.limits.Max && alone) {
		c.finish(false)
	}

	// Divide a sentence that is too long for one chunk.
	for c.size()+size > c.limits.Max {
		end := divideAt(text, c.limits.Max-c.size())
		n := utf8.RuneCountInString(text[:end])
		c.put(block, text[:end], n)
		c.finish(false)
		text, size = text[end:], size-n
	}
	if text != "" {
		c.put(block, text, size)
	}
}

// size returns the length of the draft in code points.
func (c *Chunker) size() int {
	if c.draft == nil {
		return 0
	}
	return c.draft.size
}

// half reports whether the draft has at least half of the target length. It returns false for a
// draft that contains only headings, because such a draft needs the text that follows.
func (c *Chunker) half() bool {
	return c.draft != nil && c.draft.body && c.draft.size >= c.limits.Target/2
}

// pieces calls the function each with every piece of a block's text, in order. A piece includes the
// white space that follows it. A row is one piece. Verbatim text is divided into lines, and other
// text into sentences.
func pieces(block document.Block, each func(string)) {
	switch block.Kind {
	case document.Row:
		each(block.Text)
	case document.Verbatim:
		for line := range strings.Lines(block.Text) {
			each(line)
		}
	case document.Heading, document.Paragraph, document.Item:
		next := sentences.FromString(block.Text)
		for next.Next() {
			each(next.Value())
		}
	default:
		each(block.Text)
	}
}

// divideAt returns the byte offset at which a text is divided, after at most limit code points. It
// returns the first of these offsets that exists: the end of the last white space in the second
// half, the end of the last word, the end of the last grapheme cluster, or the offset after limit
// code points.
func divideAt(text string, limit int) int {
	window := text[:prefix(text, limit)]
	if len(window) == len(text) {
		return len(text)
	}

	if at := strings.LastIndexFunc(window, unicode.IsSpace); at >= len(window)/2 {
		_, width := utf8.DecodeRuneInString(window[at:])
		return at + width
	}
	// Include some text after the limit, because it decides whether there is a boundary at the
	// limit.
	ahead := text[:prefix(text, limit+64)]
	byWords := words.FromString(ahead)
	if end := last(byWords.Next, func() int { return byWords.End() }, len(window)); end > 0 {
		return end
	}

	byClusters := graphemes.FromString(ahead)
	if end := last(byClusters.Next, func() int { return byClusters.End() }, len(window)); end > 0 {
		return end
	}
	return len(window)
}

// last returns the end of the last segment that ends within limit bytes, or 0 if there is none.
// next advances to the next segment, and end returns the end of the current segment.
func last(next func() bool, end func() int, limit int) int {
	found := 0
	for next() && end() <= limit {
		found = end()
	}
	return found
}

// prefix returns the number of bytes in the first code points of a text. limit is the number of
// these code points.
func prefix(text string, limit int) int {
	n := 0
	for at := range text {
		if n == limit {
			return at
		}
		n++
	}
	return len(text)
}
