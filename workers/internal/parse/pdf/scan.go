package pdf

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode/utf8"

	"parley/workers/internal/document"
)

const (
	scanBuffer = 256 << 10
	maxLine    = 1 << 20  // bytes of an element that are kept
	maxPage    = 32 << 20 // bytes of a page's text
	maxWords   = 4 << 20  // of a page
)

// box is a rectangle in points from the upper left corner.
type box struct{ x0, y0, x1, y1 float64 }

func (b box) with(o box) box {
	return box{min(b.x0, o.x0), min(b.y0, o.y0), max(b.x1, o.x1), max(b.y1, o.y1)}
}

func (b box) height() float64 { return b.y1 - b.y0 }
func (b box) width() float64  { return b.x1 - b.x0 }

// word is a run of characters without space between them; its text lies in the page's.
type word struct {
	box

	from, to int
}

// line is words, from left to right.
type line struct {
	box

	first, end int // of words
}

// block is lines that stand together.
type block struct {
	box

	first, end int // of lines
	flow       int
}

// page is a page as poppler has laid it out. It is used again and again.
type page struct {
	number        int
	width, height float64
	text          []byte
	words         []word
	lines         []line
	blocks        []block
	flows         int
	logical       bool // words are in the order in which they are read, whatever their direction
}

func (p *page) reset(number int) {
	*p = page{number: number, text: p.text[:0], words: p.words[:0], lines: p.lines[:0], blocks: p.blocks[:0]}
}

// size is about how many bytes it takes.
func (p *page) size() int64 {
	const perWord, perLine, perBlock = 48, 48, 56
	return int64(len(p.text) + perWord*len(p.words) + perLine*len(p.lines) + perBlock*len(p.blocks))
}

func (p *page) word(i int) []byte { return p.text[p.words[i].from:p.words[i].to] }

// scanner reads what pdftotext -bbox-layout prints: XHTML, one element a line. It reads no XML beyond that, and what it does not
// know it passes over: poppler is trusted to be regular, not to be right.
type scanner struct {
	in   *bufio.Reader
	long []byte // a line that did not fit into the buffer
	read int    // the last page that was
}

// newScanner scans what begins with this page.
func newScanner(r io.Reader, first int) *scanner {
	return &scanner{in: bufio.NewReaderSize(r, scanBuffer), read: first - 1}
}

var errTooMuch = &document.Failure{Code: document.TooLarge, Message: "A page of the PDF has more text than is read."}

// next reads the next page into p; io.EOF when there is none.
func (s *scanner) next(p *page) error {
	inside := false
	for {
		l, err := s.line()
		if errors.Is(err, io.EOF) && inside {
			return io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
		switch {
		case !inside && bytes.HasPrefix(l, []byte("<page ")):
			inside = true
			s.read++
			p.reset(s.read)
			p.width, p.height = number(l, "width=\""), number(l, "height=\"")
		case !inside:
		case bytes.HasPrefix(l, []byte("</page")):
			return nil
		default:
			if err := s.element(p, l); err != nil {
				return err
			}
		}
	}
}

// element takes one line of a page.
func (s *scanner) element(p *page, l []byte) error {
	switch {
	case bytes.HasPrefix(l, []byte("<word ")):
		if len(p.lines) == 0 {
			return nil
		}
		if err := s.word(p, l); err != nil {
			return err
		}
		p.lines[len(p.lines)-1].end = len(p.words)
	case bytes.HasPrefix(l, []byte("<line ")):
		if len(p.blocks) == 0 {
			return nil
		}
		p.lines = append(p.lines, line{boxOf(l), len(p.words), len(p.words)})
		p.blocks[len(p.blocks)-1].end = len(p.lines)
	case bytes.HasPrefix(l, []byte("<block ")):
		p.blocks = append(p.blocks, block{boxOf(l), len(p.lines), len(p.lines), p.flows})
	case bytes.HasPrefix(l, []byte("<flow")):
		p.flows++
	}
	if len(p.text) > maxPage || len(p.words) > maxWords || len(p.lines) > maxWords || len(p.blocks) > maxWords {
		return errTooMuch
	}
	return nil
}

// word takes a word, whose text may have line ends in it.
func (s *scanner) word(p *page, l []byte) error {
	place, end, plain := plainBox(l)
	if !plain {
		if end = bytes.IndexByte(l, '>'); end < 0 {
			return nil
		}
		place = boxOf(l[:end])
	}
	w := word{box: place, from: len(p.text)}
	rest := l[end+1:]
	for {
		end := wordEnd(rest)
		if end >= 0 {
			p.text = unescape(p.text, rest[:end])
			break
		}
		p.text = append(unescape(p.text, rest), ' ')
		if len(p.text) > maxPage {
			return errTooMuch
		}
		var err error
		if rest, err = s.line(); errors.Is(err, io.EOF) {
			return io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
	}
	if w.to = len(p.text); w.to > w.from {
		p.words = append(p.words, w)
	}
	return nil
}

const wordTag = "</word>"

// wordEnd is where a word ends in a line; -1: not in this one.
func wordEnd(l []byte) int {
	end := bytes.IndexByte(l, '<')
	if end < 0 || len(l)-end >= len(wordTag) && string(l[end:end+len(wordTag)]) == wordTag {
		return end
	}
	return bytes.Index(l, []byte(wordTag))
}

// line is the next line without the spaces before it and its end; good until the next call.
func (s *scanner) line() ([]byte, error) {
	l, err := s.in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		l, err = s.rest(l)
	}
	if err != nil && (len(l) == 0 || !errors.Is(err, io.EOF)) {
		return nil, fmt.Errorf("reading the output of pdftotext: %w", err)
	}
	for len(l) > 0 && (l[len(l)-1] == '\n' || l[len(l)-1] == '\r') {
		l = l[:len(l)-1]
	}
	for len(l) > 0 && l[0] == ' ' {
		l = l[1:]
	}
	return l, nil
}

// rest gathers a line that is longer than the buffer, up to a length that no word has.
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

// sides are the attributes of a place, in poppler's order.
var sides = [...]string{` xMin="`, ` yMin="`, ` xMax="`, ` yMax="`}

// plainBox reads a box as it is on nearly all lines, four numbers without signs and then the tag's end, whose place it gives; false: it
// is not so, and boxOf has to look at it.
func plainBox(l []byte) (b box, end int, is bool) {
	var n [len(sides)]float64
	at := len("<word")
	for i, name := range sides {
		if len(l)-at < len(name) || string(l[at:at+len(name)]) != name {
			return b, 0, false
		}
		at += len(name)
		side, size := plainNumber(l[at:])
		if size == 0 {
			return b, 0, false
		}
		n[i] = side
		at += size + 1
	}
	return box{n[0], n[1], n[2], n[3]}, at, at < len(l) && l[at] == '>'
}

// plainNumber reads digits, with a point among them, up to a quote; size is 0 when it is anything else.
func plainNumber(l []byte) (n float64, size int) {
	whole, point := int64(0), -1
	for i, c := range l[:min(len(l), mostDigits)] {
		switch {
		case c >= '0' && c <= '9':
			whole = whole*10 + int64(c-'0')
		case c == '.' && point < 0:
			point = i
		case c != '"':
			return 0, 0
		default:
			n = float64(whole)
			if point >= 0 {
				n /= tens[i-point-1]
			}
			if n >= maxPlace {
				n = 0
			}
			return n, i
		}
	}
	return 0, 0
}

// tens are the powers of ten.
var tens = [mostDigits]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17}

// boxOf reads the four sides of an element.
func boxOf(l []byte) (b box) {
	var n [len(sides)]float64
	at := bytes.IndexByte(l, ' ')
	for i, name := range sides {
		if at < 0 || len(l)-at < len(name) || string(l[at:at+len(name)]) != name {
			return box{}
		}
		end := bytes.IndexByte(l[at+len(name):], '"')
		if end < 0 {
			return box{}
		}
		n[i] = decimal(l[at+len(name) : at+len(name)+end])
		at += len(name) + end + 1
	}
	return box{n[0], n[1], n[2], n[3]}
}

const maxPlace = 1e6 // points: no page is that large

// number reads the attribute that begins with this; 0 when there is none.
func number(l []byte, attribute string) float64 {
	_, rest, found := bytes.Cut(l, []byte(attribute))
	text, _, ended := bytes.Cut(rest, []byte(`"`))
	if !found || !ended {
		return 0
	}
	return decimal(text)
}

// mostDigits are as many as always fit.
const mostDigits = 18

// decimal reads a number as poppler writes it; 0 when it is none, or beyond any page.
func decimal(text []byte) float64 {
	digits, minus := bytes.CutPrefix(text, []byte("-"))
	if len(digits) > mostDigits {
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
	if n >= maxPlace {
		return 0
	}
	if minus {
		return -n
	}
	return n
}

// unescape appends text whose characters may be written as entities.
func unescape(to, text []byte) []byte {
	for {
		at := bytes.IndexByte(text, '&')
		if at < 0 {
			return append(to, text...)
		}
		to = append(to, text[:at]...)
		text = text[at:]
		end := bytes.IndexByte(text[:min(len(text), 12)], ';')
		if end < 0 {
			to, text = append(to, '&'), text[1:]
			continue
		}
		r, known := entity(string(text[1:end]))
		if !known {
			to, text = append(to, '&'), text[1:]
			continue
		}
		to, text = utf8.AppendRune(to, r), text[end+1:]
	}
}

func entity(name string) (rune, bool) {
	switch name {
	case "amp":
		return '&', true
	case "lt":
		return '<', true
	case "gt":
		return '>', true
	case "quot":
		return '"', true
	case "apos":
		return '\'', true
	}
	if len(name) < 2 || name[0] != '#' {
		return 0, false
	}
	base, digits := 10, name[1:]
	if digits[0] == 'x' {
		base, digits = 16, digits[1:]
	}
	n, err := strconv.ParseUint(digits, base, 21)
	return rune(n), err == nil
}
