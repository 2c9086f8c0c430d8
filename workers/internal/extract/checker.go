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
	// maxLine is more than a block of the longest text is as JSON, whatever its characters.
	maxLine    = 256 << 10
	maxBlock   = 32 << 10 // bytes of a block's text
	maxWord    = 100      // bytes of a type or language
	maxTitle   = 2000     // bytes
	maxNotes   = 50
	maxMessage = 2000 // bytes of a note or message
	maxPlace   = 1e7  // points
	maxLevel   = 6
)

// checker takes what a reader says, and nothing that it may not say.
type checker struct {
	limits Limits
	pages  int // as told; 0: not told
	page   int // of the last block
	done   int // the last page that was
	blocks int
	text   int64
}

func newChecker(l Limits) *checker { return &checker{limits: l} }

var (
	errLonger    = errors.New("a line is too long")
	errOrder     = errors.New("pages are out of order")
	errNoHello   = errors.New("the reader exited before its greeting")
	errOtherwise = errors.New("unexpected greeting of the reader")
	errEnded     = errors.New("the reader exited before its last event")
	errUTF8      = errors.New("a line is not UTF-8")
	errNoEvent   = errors.New("a line is not an event")
	errMore      = errors.New("a line has text after its event")
	errThings    = errors.New("an event has none or several kinds")
	errPages     = errors.New("invalid number of pages")
	errKind      = errors.New("unknown kind of block")
)

// follow reads lines until the last, and tells each of them what is good.
func (c *checker) follow(from io.Reader, each func(document.Event) error) (document.Info, error) {
	in := bufio.NewReaderSize(from, maxLine)
	hello, err := in.ReadSlice('\n')
	if err != nil {
		return document.Info{}, &readerError{why: errNoHello, detail: fmt.Sprintf("%q and then %v", hello, err)}
	}
	if string(hello) != protocol {
		return document.Info{}, &readerError{why: errOtherwise, detail: fmt.Sprintf("%q", hello)}
	}
	for {
		l, err := in.ReadSlice('\n')
		if err != nil {
			return document.Info{}, ended(err)
		}
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

func bad(why error) error { return &readerError{why: why, begun: true} }

// badly is bad, with what may be of the document.
func badly(why error, detail any) error {
	return &readerError{why: why, detail: fmt.Sprint(detail), begun: true}
}

func ended(err error) error {
	if errors.Is(err, bufio.ErrBufferFull) {
		return bad(errLonger)
	}
	return badly(errEnded, err)
}

// decode reads one line strictly.
func decode(l []byte) (e document.Event, err error) {
	if !utf8.Valid(l) {
		return e, bad(errUTF8)
	}
	d := json.NewDecoder(bytes.NewReader(l))
	d.DisallowUnknownFields()
	if err := d.Decode(&e); err != nil {
		return e, badly(errNoEvent, err)
	}
	if d.InputOffset() < int64(len(bytes.TrimRight(l, "\n"))) {
		return e, bad(errMore)
	}
	n := 0
	for _, is := range []bool{e.Pages != nil, e.Done != nil, e.Block != nil, e.End != nil, e.Failure != nil} {
		if is {
			n++
		}
	}
	if n != 1 {
		return e, badly(errThings, n)
	}
	return e, nil
}

// take checks an event; over: it was the last.
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

func (c *checker) takePages(n int) error {
	if c.pages != 0 || c.blocks > 0 || c.done > 0 || n < 1 || n > c.limits.Pages {
		return badly(errPages, n)
	}
	c.pages = n
	return nil
}

// last is the highest number that a page may have.
func (c *checker) last() int {
	if c.pages > 0 {
		return c.pages
	}
	return c.limits.Pages
}

func (c *checker) takeDone(n int) error {
	if n <= c.done || n < c.page || n > c.last() {
		return bad(errOrder)
	}
	c.done = n
	return nil
}

func (c *checker) takeBlock(b *document.Block) error {
	if c.blocks++; c.blocks > c.limits.Blocks {
		return tooLarge()
	}
	if !c.follows(b.Page) {
		return bad(errOrder)
	}
	c.page = b.Page
	if c.text += int64(len(b.Text)); c.text > c.limits.Text {
		return tooLarge()
	}
	return checkBlock(b)
}

// follows reports whether a block may be on this page. All are on pages, in their order, or none is.
func (c *checker) follows(page int) bool {
	if page == 0 || c.page == 0 && c.blocks > 1 {
		return page == 0 && c.page == 0 && c.done == 0
	}
	return page >= c.page && page > c.done && page <= c.last()
}

func tooLarge() error {
	return &document.Failure{Code: document.TooLarge, Message: "The document has more text than the limit; the rest was omitted."}
}

func checkBlock(b *document.Block) error {
	heading := b.Kind == document.Heading
	switch {
	case !slices.Contains(kinds, b.Kind):
		return badly(errKind, b.Kind)
	case heading && (b.Level < 1 || b.Level > maxLevel), !heading && b.Level != 0, b.Head && b.Kind != document.Row:
		return bad(errors.New("a block has a field that its kind does not have"))
	case b.Text == "", len(b.Text) > maxBlock, !clean(b.Text, true):
		return bad(errors.New("a block's text has invalid characters"))
	}
	if b.Box == nil {
		return nil
	}
	if b.Page == 0 || b.Box[0] > b.Box[2] || b.Box[1] > b.Box[3] {
		return bad(errors.New("a block has no position"))
	}
	for _, side := range b.Box {
		if math.Abs(side) > maxPlace {
			return bad(errors.New("a block has no position"))
		}
	}
	return nil
}

var kinds = []document.Kind{document.Heading, document.Paragraph, document.Item, document.Row, document.Verbatim}

// clean reports text without control characters.
func clean(s string, lines bool) bool {
	return strings.IndexFunc(s, func(r rune) bool {
		return unicode.IsControl(r) && (!lines || r != '\n' && r != '\t') || overrides(r)
	}) < 0
}

// overrides reports what makes text look like another.
func overrides(r rune) bool { return r >= 0x202A && r <= 0x202E || r >= 0x2066 && r <= 0x2069 }

func short(s string, maximum int) bool { return len(s) <= maximum && clean(s, false) }

func (c *checker) checkEnd(i document.Info) error {
	good := c.blocks > 0 && i.MIMEType != "" && len(i.Notes) <= maxNotes &&
		short(i.MIMEType, maxWord) && short(i.Language, maxWord) && short(i.Title, maxTitle)
	for _, note := range i.Notes {
		good = good && note != "" && short(note, maxMessage)
	}
	if !good || i.Pages < max(c.page, c.done, 0) || i.Pages > c.last() {
		return bad(errors.New("invalid final event"))
	}
	return nil
}

// codes are those that a reader may end with.
var codes = []document.Code{
	document.Unsupported, document.Encrypted, document.Damaged, document.NoText, document.NoOCR, document.TooLarge,
	document.TooManyPages, document.LimitReached, document.Internal,
}

func checkFailure(f *document.Failure) error {
	if !slices.Contains(codes, f.Code) || f.Message == "" || !short(f.Message, maxMessage) {
		return bad(errors.New("invalid failure event"))
	}
	return f
}
