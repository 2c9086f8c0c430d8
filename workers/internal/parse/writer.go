package parse

import (
	"fmt"
	"strings"

	"parley/workers/internal/document"
)

// Default values of Limits, and maximum lengths.
const (
	defaultPages  = 2000
	defaultBlocks = 500_000
	defaultText   = 32 << 20
	MaxBlock      = 16 << 10 // bytes of a block's text; a longer block is divided
	maxHeading    = 1000     // bytes of a heading; a longer heading becomes a paragraph
	maxTitle      = 300      // characters
)

// Writer emits the blocks of a document as events. It cleans the text of the blocks and enforces
// limits. After an error, all calls return the same error, so a reader may check only the last
// call.
//
// A Writer is used for one document and is not safe for concurrent use.
type Writer struct {
	emit   func(document.Event) error
	limits Limits
	page   int // page of the next block, or 0 before the first page
	// pages is the total number of pages that the reader announced or began.
	pages int
	// blocks and text count the blocks and the bytes of text that were written.
	blocks int
	text   int64
	err    error // the first error, which all later calls return
	broken error // error of the function emit; the document has not caused it
}

// NewWriter returns a Writer that passes its events to the function emit. A limit that is not
// positive has its default value. emit is called in the goroutine that calls the Writer.
func NewWriter(limits Limits, emit func(document.Event) error) *Writer {
	if limits.Pages <= 0 {
		limits.Pages = defaultPages
	}
	if limits.Blocks <= 0 {
		limits.Blocks = defaultBlocks
	}
	if limits.Text <= 0 {
		limits.Text = defaultText
	}
	return &Writer{emit: emit, limits: limits}
}

// Pages reports the total number of pages. It fails if the number exceeds the limit. A reader that
// does not know the number in advance need not call Pages.
func (w *Writer) Pages(n int) error {
	if w.err == nil && n > w.limits.Pages {
		w.err = tooManyPages(n, w.limits.Pages)
	}
	if w.err == nil && n > 0 {
		w.pages = n
		// The number is sent before the pages, so that the worker can report progress.
		w.send(document.Event{Pages: &n})
	}
	return w.err
}

// Page begins page n, counted from 1, and reports all earlier pages as done. It fails if n is not
// greater than the number of the current page, or exceeds the limit.
func (w *Writer) Page(n int) error {
	switch {
	case w.err != nil:
	// Pages must begin in ascending order, because the end of earlier pages was already reported.
	case n <= w.page:
		w.err = fmt.Errorf("starting page %d after page %d", n, w.page)
	case n > w.limits.Pages:
		w.err = tooManyPages(n, w.limits.Pages)
	default:
		w.done()
		w.page, w.pages = n, max(w.pages, n)
	}
	return w.err
}

// Heading writes a heading. Level 1 is the outermost level and level 6 the innermost; other levels
// are adjusted.
func (w *Writer) Heading(level int, text string) error {
	return w.Put(document.Block{Kind: document.Heading, Level: level, Text: text})
}

// Paragraph writes a paragraph. It keeps the newlines in the text.
func (w *Writer) Paragraph(text string) error {
	return w.Put(document.Block{Kind: document.Paragraph, Text: text})
}

// Item writes an item of a list.
func (w *Writer) Item(text string) error {
	return w.Put(document.Block{Kind: document.Item, Text: text})
}

// Row writes a row of a table. The argument head is true if the cells are column names.
func (w *Writer) Row(cells []string, head bool) error {
	return w.Put(document.Block{Kind: document.Row, Head: head, Text: Cells(cells)})
}

// Verbatim writes text whose newlines and spaces are significant.
func (w *Writer) Verbatim(text string) error {
	return w.Put(document.Block{Kind: document.Verbatim, Text: text})
}

// Put writes a block to the current page. It ignores a block without text, and divides a block of
// more than MaxBlock bytes. The page of b is set by Put.
func (w *Writer) Put(b document.Block) error {
	if w.err != nil {
		return w.err
	}
	b.Page = w.page
	b.Text = cleanBlock(b.Kind, b.Text)
	if b.Text == "" {
		return nil
	}

	// A very long heading is usually text that only has the format of a heading.
	if b.Kind != document.Heading {
		b.Level = 0
	} else if b.Level = min(max(b.Level, 1), 6); len(b.Text) > maxHeading {
		b.Kind, b.Level = document.Paragraph, 0
	}

	// If a header row is divided, only the first piece remains a header.
	for rest := b.Text; rest != "" && w.err == nil; {
		b.Text, rest = split(rest, MaxBlock)
		w.block(b)
		b.Head = false
	}
	return w.err
}

// Empty reports whether no block was written.
func (w *Writer) Empty() bool { return w.blocks == 0 }

// Remaining returns the number of bytes of text that may still be written. Readers use it to find
// out whether text was written between two calls.
func (w *Writer) Remaining() int64 { return max(w.limits.Text-w.text, 0) }

// block emits a block if the limits allow this. Otherwise it sets w.err to a failure with the code
// too_large.
func (w *Writer) block(b document.Block) {
	w.blocks++
	w.text += int64(len(b.Text))
	switch {
	case w.blocks > w.limits.Blocks:
		w.err = &document.Failure{
			Code:    document.TooLarge,
			Message: fmt.Sprintf("The document has more than the maximum of %d paragraphs, rows and similar blocks.", w.limits.Blocks),
		}
	case w.text > w.limits.Text:
		w.err = &document.Failure{
			Code: document.TooLarge, Message: fmt.Sprintf("The document has more than the maximum of %s of text.", size(w.limits.Text)),
		}
	default:
		w.send(document.Event{Block: &b})
	}
}

// send passes an event to the receiver. It stores the receiver's error separately, because the
// document has not caused this error.
func (w *Writer) send(e document.Event) {
	if err := w.emit(e); err != nil {
		w.err, w.broken = err, err
	}
}

// done reports the current page as done, if there is one.
func (w *Writer) done() {
	if n := w.page; n > 0 {
		w.send(document.Event{Done: &n})
	}
}

// finish reports the last page as done. It fails with the code no_text if the document contains no
// text. Parse calls it once, after the reader has returned.
func (w *Writer) finish() error {
	if w.err == nil && w.blocks == 0 {
		w.err = &document.Failure{Code: document.NoText, Message: "The document has no text."}
	}
	if w.err == nil {
		w.done()
	}
	return w.err
}

// maxGap is the maximum number of consecutive empty cells that are written. More of them would make
// a line long without giving information.
const maxGap = 20

// Cells returns the text of a row: its cells as single lines, separated by " | ". Empty cells at
// the end of the row are omitted.
func Cells(cells []string) string {
	var b strings.Builder
	empty := 0 // empty cells before the next cell with text
	for _, c := range cells {
		c = Line(c, 0)
		if c == "" {
			empty++
			continue
		}
		if empty > maxGap {
			empty = 1
		}
		for range empty {
			b.WriteString(" | ")
		}
		b.WriteString(c)
		empty = 1
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

// tooManyPages returns the failure for a document with at least n pages.
func tooManyPages(n, limit int) error {
	return &document.Failure{
		Code: document.TooManyPages, Message: fmt.Sprintf("The document has %d pages or more; the maximum is %d.", n, limit),
	}
}

// size formats a number of bytes for an error message.
func size(n int64) string {
	if n >= 1<<20 && n%(1<<20) == 0 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d bytes", n)
}
