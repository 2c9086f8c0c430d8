package extract

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"parley/workers/internal/document"
)

const (
	// maxLine is the maximum length in bytes of a line of the reader's output. The JSON form of
	// every valid block is shorter.
	maxLine       = 256 << 10
	maxBlock      = 32 << 10 // bytes of a block's text
	maxWord       = 100      // maximum length of a MIME type or a language in bytes
	maxTitle      = 2000     // bytes
	maxNotes      = 50
	maxMessage    = 2000 // bytes of a note or a message
	maxCoordinate = 1e7  // coordinate, in points
	maxLevel      = 6
)

// checker validates the events that a reader writes.
type checker struct {
	limits Limits
	pages  int // number of pages that the reader has announced, or 0 if it has announced none
	page   int // page of the last block
	done   int // last page that the reader reported as done
	blocks int
	text   int64
}

// newChecker returns a checker for the output of one reader.
func newChecker(l Limits) *checker { return &checker{limits: l} }

// These are the reasons why the worker rejects a reader's output. They contain no text from the
// output, so they may be logged.
var (
	errLineTooLong  = errors.New("a line is too long")
	errOrder        = errors.New("pages are out of order")
	errNoGreeting   = errors.New("the reader exited before its greeting")
	errGreeting     = errors.New("unexpected greeting from the reader")
	errTruncated    = errors.New("the reader exited before its last event")
	errUTF8         = errors.New("a line is not UTF-8")
	errNoEvent      = errors.New("a line is not an event")
	errTrailingData = errors.New("a line has text after its event")
	errVariants     = errors.New("an event has no kind or more than one")
	errPages        = errors.New("invalid number of pages")
	errKind         = errors.New("unknown kind of block")
)

// follow reads the reader's output up to its final event. It calls the function each with every
// valid event before the final one.
func (c *checker) follow(from io.Reader, each func(document.Event) error) (document.Info, error) {
	// The buffer has a fixed size, so a malicious reader cannot make this process use a lot of
	// memory.
	in := bufio.NewReaderSize(from, maxLine)
	if err := greeted(in); err != nil {
		return document.Info{}, err
	}
	for {
		l, err := in.ReadSlice('\n')
		if err != nil {
			return document.Info{}, readFailure(err)
		}

		// A line is used only after the whole line was validated.
		e, err := decode(l)
		if err != nil {
			return document.Info{}, err
		}

		info, over, err := c.take(e)
		if over || err != nil {
			return info, err
		}

		if err := each(e); err != nil {
			return document.Info{}, err
		}
	}
}

// greeted reads the reader's greeting.
func greeted(in *bufio.Reader) error {
	hello, err := in.ReadSlice('\n')
	if err != nil {
		return &readerError{why: errNoGreeting, detail: fmt.Sprintf("received %q, then %v", hello, err)}
	}
	if string(hello) != protocol {
		return &readerError{why: errGreeting, detail: fmt.Sprintf("%q", hello)}
	}
	return nil
}

// violation returns the error for output that an intact reader never writes. A document has
// probably taken control of the reader.
func violation(why error) error { return &readerError{why: why, begun: true} }

// violationDetail returns the same error as violation, with a detail. The detail may contain text
// from the document.
func violationDetail(why error, detail any) error {
	return &readerError{why: why, detail: fmt.Sprint(detail), begun: true}
}

// readFailure returns the error for output that ends before the final event or has a line that is
// too long.
func readFailure(err error) error {
	if errors.Is(err, bufio.ErrBufferFull) {
		return violation(errLineTooLong)
	}
	return violationDetail(errTruncated, err)
}

// decode parses one line. It rejects unknown fields, text after the event, and an event that does
// not have exactly one field.
func decode(l []byte) (e document.Event, err error) {
	if !utf8.Valid(l) {
		return e, violation(errUTF8)
	}

	// A reader that works correctly has the same version as this process, so it sends no unknown
	// fields.
	d := json.NewDecoder(bytes.NewReader(l))
	d.DisallowUnknownFields()
	if err := d.Decode(&e); err != nil {
		return e, violationDetail(errNoEvent, err)
	}
	if d.InputOffset() < int64(len(bytes.TrimRight(l, "\n"))) {
		return e, violation(errTrailingData)
	}

	n := 0
	for _, is := range []bool{e.Pages != nil, e.Done != nil, e.Block != nil, e.End != nil, e.Failure != nil} {
		if is {
			n++
		}
	}
	if n != 1 {
		return e, violationDetail(errVariants, n)
	}
	return e, nil
}

// take validates an event. over is true if the event is the reader's final event. info describes
// the document if this event reports success.
func (c *checker) take(e document.Event) (info document.Info, over bool, err error) {
	switch {
	case e.Pages != nil:
		return info, false, c.takePages(*e.Pages)
	case e.Done != nil:
		return info, false, c.takeDone(*e.Done)
	case e.Block != nil:
		return info, false, c.takeBlock(e.Block)
	case e.End != nil:
		if err := c.checkEnd(*e.End); err != nil {
			return info, true, err
		}
		return *e.End, true, nil
	default:
		return info, true, checkFailure(e.Failure)
	}
}

// takePages validates the number of pages. The reader may report it only once, before all other
// events.
func (c *checker) takePages(n int) error {
	if c.pages != 0 || c.blocks > 0 || c.done > 0 || n < 1 || n > c.limits.Pages {
		return violationDetail(errPages, n)
	}
	c.pages = n
	return nil
}

// last returns the highest page number that may occur in events.
func (c *checker) last() int {
	if c.pages > 0 {
		return c.pages
	}
	return c.limits.Pages
}

// takeDone validates the number of a page that the reader reports as done. The numbers must
// increase.
func (c *checker) takeDone(n int) error {
	if n <= c.done || n < c.page || n > c.last() {
		return violation(errOrder)
	}
	c.done = n
	return nil
}

// takeBlock validates a block, and counts the block and its text towards the limits.
func (c *checker) takeBlock(b *document.Block) error {
	if c.blocks++; c.blocks > c.limits.Blocks {
		return tooLarge()
	}
	if !c.follows(b.Page) {
		return violation(errOrder)
	}

	c.page = b.Page
	if c.text += int64(len(b.Text)); c.text > c.limits.Text {
		return tooLarge()
	}
	return checkBlock(b)
}

// follows reports whether the next block may have the given page number. The page numbers must not
// decrease. Either all blocks of a document have a page number, or none of them.
func (c *checker) follows(page int) bool {
	if page == 0 || c.page == 0 && c.blocks > 1 {
		return page == 0 && c.page == 0 && c.done == 0
	}
	return page >= c.page && page > c.done && page <= c.last()
}

// tooLarge returns the failure for a document that has more blocks or text than the limits allow.
func tooLarge() error {
	return &document.Failure{Code: document.TooLarge, Message: "The document has more text than the limit; the rest was omitted."}
}

// checkBlock validates the fields of a block.
func checkBlock(b *document.Block) error {
	heading := b.Kind == document.Heading
	switch {
	case !slices.Contains(kinds, b.Kind):
		return violationDetail(errKind, b.Kind)
	case heading && (b.Level < 1 || b.Level > maxLevel), !heading && b.Level != 0, b.Head && b.Kind != document.Row:
		return violation(errors.New("a block has a field that its kind does not allow"))
	case b.Text == "", len(b.Text) > maxBlock, !clean(b.Text, true):
		return violation(errors.New("a block's text has invalid characters"))
	}

	// In formats without positions, such as Markdown, blocks have no boxes.
	if b.Box == nil {
		return nil
	}
	if b.Page == 0 || b.Box[0] > b.Box[2] || b.Box[1] > b.Box[3] {
		return violation(errors.New("a block has no valid position"))
	}

	for _, side := range b.Box {
		// Very large numbers could overflow when positions are stored.
		if math.Abs(side) > maxCoordinate {
			return violation(errors.New("a block has no valid position"))
		}
	}
	return nil
}

// kinds are the kinds of blocks that a reader may send.
var kinds = []document.Kind{document.Heading, document.Paragraph, document.Item, document.Row, document.Verbatim}

// clean reports whether a text contains neither control characters nor characters that change the
// direction of displayed text. If lines is true, newlines and tabs are allowed.
func clean(s string, lines bool) bool {
	return strings.IndexFunc(s, func(r rune) bool {
		return unicode.IsControl(r) && (!lines || r != '\n' && r != '\t') || overrides(r)
	}) < 0
}

// overrides reports whether the character r changes the direction of displayed text.
func overrides(r rune) bool { return r >= 0x202A && r <= 0x202E || r >= 0x2066 && r <= 0x2069 }

// short reports whether a text is a single line of at most maximum bytes, without control
// characters.
func short(s string, maximum int) bool { return len(s) <= maximum && clean(s, false) }

// checkEnd validates the final event of a reader that has read the whole document.
func (c *checker) checkEnd(i document.Info) error {
	good := c.blocks > 0 && i.MIMEType != "" && len(i.Notes) <= maxNotes &&
		short(i.MIMEType, maxWord) && short(i.Language, maxWord) && short(i.Title, maxTitle)
	for _, note := range i.Notes {
		good = good && note != "" && short(note, maxMessage)
	}
	if !good || i.Pages < max(c.page, c.done, 0) || i.Pages > c.last() {
		return violation(errors.New("invalid final event"))
	}
	return nil
}

// codes are the failure codes that a reader may report.
var codes = []document.Code{
	document.Unsupported, document.Encrypted, document.Damaged, document.NoText, document.NoOCR, document.TooLarge,
	document.TooManyPages, document.LimitReached, document.Internal,
}

// checkFailure validates a failure that a reader reports. It returns the failure or, if it is
// invalid, a violation. The message is shown to users, so it must be short and clean.
func checkFailure(f *document.Failure) error {
	if !slices.Contains(codes, f.Code) || f.Message == "" || !short(f.Message, maxMessage) {
		return violation(errors.New("invalid failure event"))
	}
	return f
}
