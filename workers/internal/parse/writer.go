package parse

import (
	"fmt"
	"strings"

	"parley/workers/internal/document"
)

// The defaults of Limits, and what is longest.
const (
	defaultPages  = 2000
	defaultBlocks = 500_000
	defaultText   = 32 << 20
	MaxBlock      = 16 << 10 // bytes of a block's text: longer ones are told in pieces
	maxHeading    = 1000     // bytes: a longer one is a paragraph that looks like a heading
	maxTitle      = 300      // characters
)

// Writer tells what is read of a document: it cleans the text, and ends the reading with a failure when there is too much of it.
// After an error each call gives the same error again.
type Writer struct {
	tell   func(document.Event) error
	limits Limits
	page   int // the one that blocks are on; 0: none yet
	pages  int
	blocks int
	text   int64
	err    error // what every further call gives
	broken error // of the receiver: no fault of the document's
}

// NewWriter gives a writer that tells its events to a function.
func NewWriter(limits Limits, tell func(document.Event) error) *Writer {
	if limits.Pages <= 0 {
		limits.Pages = defaultPages
	}
	if limits.Blocks <= 0 {
		limits.Blocks = defaultBlocks
	}
	if limits.Text <= 0 {
		limits.Text = defaultText
	}
	return &Writer{tell: tell, limits: limits}
}

// Pages tells how many pages there are; a failure when they are more than may be read.
func (w *Writer) Pages(n int) error {
	if w.err == nil && n > w.limits.Pages {
		w.err = tooManyPages(n, w.limits.Pages)
	}
	if w.err == nil && n > 0 {
		w.pages = n
		w.send(document.Event{Pages: &n})
	}
	return w.err
}

// Page begins a page, from 1 upwards, and tells that those before it are done.
func (w *Writer) Page(n int) error {
	switch {
	case w.err != nil:
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

// Heading tells a heading; level 1 is the outermost.
func (w *Writer) Heading(level int, text string) error {
	return w.Put(document.Block{Kind: document.Heading, Level: level, Text: text})
}

// Paragraph tells a paragraph; its line ends are kept.
func (w *Writer) Paragraph(text string) error {
	return w.Put(document.Block{Kind: document.Paragraph, Text: text})
}

// Item tells an item of a list.
func (w *Writer) Item(text string) error {
	return w.Put(document.Block{Kind: document.Item, Text: text})
}

// Row tells a row of a table; head: it names the columns.
func (w *Writer) Row(cells []string, head bool) error {
	return w.Put(document.Block{Kind: document.Row, Head: head, Text: Cells(cells)})
}

// Verbatim tells text whose lines and spaces count.
func (w *Writer) Verbatim(text string) error {
	return w.Put(document.Block{Kind: document.Verbatim, Text: text})
}

// Put tells a block, with its box where it has one; its page is the one that was begun last. A block without text is left out.
func (w *Writer) Put(b document.Block) error {
	if w.err != nil {
		return w.err
	}
	b.Page = w.page
	b.Text = cleanBlock(b.Kind, b.Text)
	if b.Text == "" {
		return nil
	}
	if b.Kind != document.Heading {
		b.Level = 0
	} else if b.Level = min(max(b.Level, 1), 6); len(b.Text) > maxHeading {
		b.Kind, b.Level = document.Paragraph, 0
	}
	for rest := b.Text; rest != "" && w.err == nil; {
		b.Text, rest = split(rest, MaxBlock)
		w.block(b)
		b.Head = false
	}
	return w.err
}

// Empty reports that no block was told.
func (w *Writer) Empty() bool { return w.blocks == 0 }

// Room is how many bytes of text may still be told.
func (w *Writer) Room() int64 { return max(w.limits.Text-w.text, 0) }

func (w *Writer) block(b document.Block) {
	w.blocks++
	w.text += int64(len(b.Text))
	switch {
	case w.blocks > w.limits.Blocks:
		w.err = &document.Failure{
			Code:    document.TooLarge,
			Message: fmt.Sprintf("The document has more than %d paragraphs, rows and similar blocks, the maximum.", w.limits.Blocks),
		}
	case w.text > w.limits.Text:
		w.err = &document.Failure{
			Code: document.TooLarge, Message: fmt.Sprintf("The document has more than %s of text, the maximum.", size(w.limits.Text)),
		}
	default:
		w.send(document.Event{Block: &b})
	}
}

func (w *Writer) send(e document.Event) {
	if err := w.tell(e); err != nil {
		w.err, w.broken = err, err
	}
}

func (w *Writer) done() {
	if n := w.page; n > 0 {
		w.send(document.Event{Done: &n})
	}
}

// finish tells that the last page is done; a failure when there was no text.
func (w *Writer) finish() error {
	if w.err == nil && w.blocks == 0 {
		w.err = &document.Failure{Code: document.NoText, Message: "The document has no text."}
	}
	if w.err == nil {
		w.done()
	}
	return w.err
}

// maxGap is how many empty cells are written behind one another: more say nothing about columns any more.
const maxGap = 20

// Cells writes the cells of a row as its text: empty ones at its end are left out.
func Cells(cells []string) string {
	var b strings.Builder
	empty := 0 // cells before the next one
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

func tooManyPages(n, limit int) error {
	return &document.Failure{
		Code: document.TooManyPages, Message: fmt.Sprintf("The document has %d pages or more; the maximum is %d.", n, limit),
	}
}

// size writes a number of bytes for people.
func size(n int64) string {
	if n >= 1<<20 && n%(1<<20) == 0 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d bytes", n)
}
