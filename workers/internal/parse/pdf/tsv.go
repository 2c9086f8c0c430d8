package pdf

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"

	"parley/workers/internal/document"
)

const (
	scanBuffer = 256 << 10
	maxLine    = 1 << 20  // bytes of a row
	maxPage    = 32 << 20 // bytes of text per page
	maxWords   = 4 << 20  // words of a page
)

// box is a rectangle in points. The origin is the upper left corner of the page.
type box struct{ x0, y0, x1, y1 float64 }

// with returns the smallest rectangle that contains both b and o.
func (b box) with(o box) box {
	return box{min(b.x0, o.x0), min(b.y0, o.y0), max(b.x1, o.x1), max(b.y1, o.y1)}
}

func (b box) height() float64 { return b.y1 - b.y0 }
func (b box) width() float64  { return b.x1 - b.x0 }

// word is a sequence of characters without spaces. The fields from and to are offsets in the text
// of the page.
type word struct {
	box

	from, to int
}

// line is a range of words, from left to right.
type line struct {
	box

	first, end int // indexes of words
}

// block is a range of lines that belong together. The field flow is the number of the sequence of
// blocks, such as a column, to which the block belongs.
type block struct {
	box

	first, end int // indexes of lines
	flow       int
}

// page is a page with the layout that poppler has determined. Words, lines and blocks refer to each
// other by index, so a page needs few allocations. Page objects are reused for other pages.
type page struct {
	// number counts from 1. width and height are in points.
	number        int
	width, height float64
	// text contains the words without separators, in the order of the output.
	text   []byte
	words  []word
	lines  []line
	blocks []block
	// flows is the number of flows so far.
	flows   int
	logical bool // true if the words are in reading order, even in right-to-left text
}

// reset empties the page object, so that it can hold the page with the given number. It keeps the
// allocated memory for reuse.
func (p *page) reset(number int) {
	*p = page{number: number, text: p.text[:0], words: p.words[:0], lines: p.lines[:0], blocks: p.blocks[:0]}
}

// size returns the approximate number of bytes that the page occupies in memory.
func (p *page) size() int64 {
	const perWord, perLine, perBlock = 48, 48, 56
	return int64(len(p.text) + perWord*len(p.words) + perLine*len(p.lines) + perBlock*len(p.blocks))
}

// word returns the text of the word with the index i. It is valid until the page is reset.
func (p *page) word(i int) []byte { return p.text[p.words[i].from:p.words[i].to] }

// Columns of a row. The meaning of the third column depends on the program. For pdftotext, it is
// the number of a flow, which has several blocks. For tesseract, it is the number of a block, which
// has several paragraphs.
const (
	tsvLevel = iota
	tsvPage
	tsvFlow
	_
	_
	_
	tsvLeft
	tsvTop
	tsvWidth
	tsvHeight
	tsvConfidence
	tsvText
	tsvColumns
)

// Levels of rows: page, block, line and word.
const (
	pageLevel = '1'
	lineLevel = '4'
	wordLevel = '5'
)

// scanner reads the rows that pdftotext -tsv and tesseract print. There is a row for each page,
// block, line and word; rows for the parts of an element follow the row for the element. The words
// of a document may contain newlines and tabs, so the scanner does not trust the output.
//
// Only the row for the next page shows that a page is complete. The scanner therefore remembers
// this row until next is called again.
type scanner struct {
	in    *bufio.Reader
	unit  float64 // size of the program's unit of length in points
	long  []byte  // current row if it is longer than the buffer
	read  int     // number of the last page that has begun
	ahead box     // box of the page that has begun, until the method next returns that page
	begun bool    // true if ahead is valid

	flow       []byte // number of the flow in the last row
	block      bool   // true if the next word begins a block
	line       bool   // true if the next word begins a line
	insideWord bool   // true if the last row was a word, which may continue after a newline
}

// newScanner returns a scanner of r. The argument first is the number of the first page. The
// argument unit is the size of the program's unit of length in points.
func newScanner(r io.Reader, first int, unit float64) *scanner {
	return &scanner{in: bufio.NewReaderSize(r, scanBuffer), unit: unit, read: first - 1}
}

var errTooMuch = &document.Failure{Code: document.TooLarge, Message: "A page of the PDF has more text than the maximum."}

// next reads the next page into p. It returns io.EOF if there is no further page, errTooMuch if a
// page exceeds a limit, or the error of the reader.
func (s *scanner) next(p *page) error {
	inside := false
	for {
		if s.begun {
			if inside {
				return nil
			}
			inside, s.begun, s.flow = true, false, nil
			p.reset(s.read)
			p.width, p.height = s.ahead.width(), s.ahead.height()
		}
		row, err := s.row()
		switch {
		case errors.Is(err, io.EOF) && inside:
			return nil
		case err != nil:
			return err
		}
		if err := s.take(p, row, inside); err != nil {
			return err
		}
	}
}

// take adds a row to the page. It ignores rows before the first page, such as the header. The
// argument inside is false for these rows. It returns errTooMuch if the page exceeds a limit.
func (s *scanner) take(p *page, row []byte, inside bool) error {
	var cells [tsvColumns][]byte
	rest, whole := row, true
	for i := 0; i < tsvText && whole; i++ {
		cells[i], rest, whole = bytes.Cut(rest, []byte("\t"))
	}

	cells[tsvText] = rest
	switch level := cells[tsvLevel]; {
	case len(level) != 1 || level[0] < pageLevel || level[0] > wordLevel:
		s.continueWord(p, row)
	// A row with a level but with too few cells is ignored.
	case !whole:
	case level[0] == pageLevel:
		s.begin(&cells)
	case !inside:
	case level[0] == wordLevel:
		s.word(p, &cells)
	// The row is for a block or a line, whose position follows from its words.
	default:
		s.insideWord, s.line = false, true
		s.block = s.block || level[0] < lineLevel
	}

	if len(p.text) > maxPage || len(p.words) > maxWords {
		return errTooMuch
	}
	return nil
}

// begin begins the next page. The text of a word may look like a row for a page. The page numbers
// nevertheless stay correct, because begin ignores any row whose number is not the next one.
func (s *scanner) begin(cells *[tsvColumns][]byte) {
	if string(cells[tsvPage]) == strconv.Itoa(s.read+1) {
		s.read, s.ahead, s.begun, s.insideWord = s.read+1, s.bounds(cells), true, false
	}
}

// continueWord appends a row to the last word. The row is a part of that word, whose text contains
// a newline.
func (s *scanner) continueWord(p *page, row []byte) {
	if s.insideWord {
		p.text = append(append(p.text, ' '), row...)
		p.words[len(p.words)-1].to = len(p.text)
	}
}

// word adds a word to the page, and extends the boxes of the word's line and block. It ignores
// words below minConfidence, which are mostly stains on the paper. pdftotext reports full
// confidence for each word.
func (s *scanner) word(p *page, cells *[tsvColumns][]byte) {
	text := bytes.TrimSpace(cells[tsvText])
	if s.insideWord = decimal(cells[tsvConfidence]) >= minConfidence && len(text) > 0; !s.insideWord {
		return
	}
	if !bytes.Equal(s.flow, cells[tsvFlow]) {
		s.flow = append(s.flow[:0], cells[tsvFlow]...)
		p.flows++
	}

	bounds := s.bounds(cells)
	if s.block || len(p.blocks) == 0 {
		p.blocks = append(p.blocks, block{bounds, len(p.lines), len(p.lines), p.flows})
	}

	b := &p.blocks[len(p.blocks)-1]
	if s.block || s.line || b.first == b.end {
		p.lines = append(p.lines, line{bounds, len(p.words), len(p.words)})
		b.end = len(p.lines)
	}
	s.block, s.line = false, false
	l := &p.lines[len(p.lines)-1]
	b.box, l.box = b.with(bounds), l.with(bounds)

	from := len(p.text)
	p.text = append(p.text, text...)
	p.words = append(p.words, word{bounds, from, len(p.text)})
	l.end = len(p.words)
}

// bounds returns the position and size of the element that a row describes, in points.
func (s *scanner) bounds(cells *[tsvColumns][]byte) box {
	x, y := decimal(cells[tsvLeft])*s.unit, decimal(cells[tsvTop])*s.unit
	return box{x, y, x + decimal(cells[tsvWidth])*s.unit, y + decimal(cells[tsvHeight])*s.unit}
}

// row returns the next row without its newline. The row is valid until the next call. A last row
// without a newline is returned like any other row. The call after the last row returns io.EOF.
func (s *scanner) row() ([]byte, error) {
	l, err := s.in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		l, err = s.rest(l)
	}
	if err != nil && (len(l) == 0 || !errors.Is(err, io.EOF)) {
		return nil, fmt.Errorf("reading rows: %w", err)
	}
	return bytes.TrimRight(l, "\r\n"), nil
}

// rest reads the rest of a row that is longer than the buffer, up to maxLine bytes. The argument l
// is the beginning of the row.
func (s *scanner) rest(l []byte) ([]byte, error) {
	s.long = append(s.long[:0], l...)
	for {
		more, err := s.in.ReadSlice('\n')
		if len(s.long)+len(more) > maxLine {
			return nil, errTooMuch
		}
		s.long = append(s.long, more...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return s.long, err
		}
	}
}

const maxCoordinate = 1e6 // in points; larger than the width or height of any page

// maxDigits is the largest number of digits with which every number fits into an int64.
const maxDigits = 18

// decimal parses a number in the format of poppler. It returns 0 for any other text, and for
// numbers with more than maxDigits characters or of at least maxCoordinate. Exponents and other
// forms of numbers do not occur.
func decimal(text []byte) float64 {
	digits, minus := bytes.CutPrefix(text, []byte("-"))
	if len(digits) > maxDigits {
		return 0
	}

	whole, scale := int64(0), int64(0)
	for _, c := range digits {
		switch {
		case c >= '0' && c <= '9':
			whole = whole*10 + int64(c-'0')
			scale *= 10
		case c == '.' && scale == 0:
			scale = 1
		default:
			return 0
		}
	}

	n := float64(whole) / float64(max(scale, 1))
	if n >= maxCoordinate {
		return 0
	}
	if minus {
		return -n
	}
	return n
}
