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

// fill puts a block into the draft, whole where that is possible: a block is cut only when it is too long for a chunk, or when
// the draft would stay half empty without its beginning.
func (c *Chunker) fill(block document.Block) {
	size := utf8.RuneCountInString(block.Text)
	if c.size()+size > c.limits.Target && c.half() && (size <= c.limits.Target || block.Kind == document.Row) {
		c.finish(false)
	}
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

// piece puts a sentence, line or row of a block that is too long as a whole. The end of a block is not left for a chunk of a few
// words when there is still room.
func (c *Chunker) piece(block document.Block, text string, size, left int) {
	full := c.size()+size > c.limits.Target && c.size()+left > c.limits.Max
	alone := size <= c.limits.Max || c.size() > c.limits.Max/2 // a heading stays with the beginning of what has to be cut anyway
	if c.draft != nil && full && (c.draft.body || c.size()+size > c.limits.Max && alone) {
		c.finish(false)
	}
	for c.size()+size > c.limits.Max {
		end := cut(text, c.limits.Max-c.size())
		n := utf8.RuneCountInString(text[:end])
		c.put(block, text[:end], n)
		c.finish(false)
		text, size = text[end:], size-n
	}
	if text != "" {
		c.put(block, text, size)
	}
}

func (c *Chunker) size() int {
	if c.draft == nil {
		return 0
	}
	return c.draft.size
}

// half says whether the draft has enough to stand alone.
func (c *Chunker) half() bool {
	return c.draft != nil && c.draft.body && c.draft.size >= c.limits.Target/2
}

// pieces gives a block's text piece by piece, with the spaces behind each: rows whole, verbatim text by lines, all else by
// sentences.
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

// cut says how many bytes of a text are within a number of code points: up to the last space if that is in the second half, else up
// to the last word's end, else to the last grapheme cluster's, and when one cluster is longer than all that, to the limit.
func cut(text string, limit int) int {
	window := text[:prefix(text, limit)]
	if len(window) == len(text) {
		return len(text)
	}
	if at := strings.LastIndexFunc(window, unicode.IsSpace); at >= len(window)/2 {
		_, width := utf8.DecodeRuneInString(window[at:])
		return at + width
	}
	// Boundaries are looked for in a little more than the window: its end is one only if what follows says so.
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

// last is the end of the last segment that lies within the first most bytes, 0 when the first one does not.
func last(next func() bool, end func() int, limit int) int {
	found := 0
	for next() && end() <= limit {
		found = end()
	}
	return found
}

// prefix says how many bytes the first most code points of a text take.
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
