package agentloop

import (
	"slices"
	"strings"
	"unicode"
)

// maxNumberDigits is the maximum number of digits of a source number.
const maxNumberDigits = 6

// closers maps each opening quotation mark to the marks that may close it. A mark that opens quotes
// in one language may close them in another.
var closers = map[rune]string{
	'"': "\"”“", '“': "”\"“", '”': "”\"", '„': "“”\"", '‟': "”\"", '〝': "〞〟", '＂': "＂", '«': "»", '»': "«", '‹': "›", '›': "‹",
	'「': "」", '『': "』", '\'': "'’‘", '‘': "’'‘", '’': "’'", '‚': "‘’'",
}

// separators are the characters that may separate two numbers, or a quote and the next number.
const separators = ",;，；、"

// verdict is the effect that a character has on a possible marker.
type verdict int

const (
	undecided verdict = iota
	notMarker
	complete // the closing bracket was read
	unclosed // a quote has begun that cannot be closed any more
)

// grammarState is the kind of token that the grammar expects next in a marker.
type grammarState int

const (
	atNumber    grammarState = iota // a number must follow, or a quote if the marker already has a number
	inNumber                        // within the digits of a number
	afterNumber                     // within the white space after a number
	atQuote                         // after a colon; only a quote may follow
	inQuote
	afterQuote // after a quotation mark that may close the quote
)

// item is a number in a marker and the quotes that follow it.
type item struct {
	number int
	quotes []extent
}

// extent is a range of a text. Some extents count bytes and others count characters, as stated
// where they are used.
type extent struct{ from, to int }

// grammar parses the text after a bracket that may begin a marker, character by character:
//
//	1 | 1, 2 | 1 "words" | 1 "words"; "words", 2 “words”
//
// Numbers are separated by commas or semicolons. Any number of quotes may follow each number.
//
// A quotation mark inside a quote closes it only if a bracket, another quote or a number follows.
type grammar struct {
	state grammarState
	items []item // the items so far; extents of quotes count characters from the bracket
	// read is the number of characters read since the bracket.
	read    int
	digits  int    // number of digits of the current number
	ends    string // the quotation marks that may close the current quote
	newline bool   // in a quote: only white space has been read since the last line break
}

// quoted reports whether a quote has begun. A text with a number and a quote was certainly meant as
// a marker.
func (g *grammar) quoted() bool { return g.lastQuoted() >= 0 }

// accept processes the next character and returns its effect on the marker.
func (g *grammar) accept(r rune) verdict {
	g.read++
	switch {
	case g.state == inQuote:
		return g.inside(r)
	case r == ']' && g.mayEnd():
		return complete
	case isBlank(r):
		if g.state == inNumber {
			g.state = afterNumber
		}
		return undecided
	case g.take(r):
		return undecided
	case g.quoted(): // the last quotation mark did not close the quote, so the quote continues
		g.items = g.items[:g.lastQuoted()+1]
		g.state = inQuote
		return g.inside(r)
	default:
		return notMarker
	}
}

// without removes characters from the grammar's count. It must be called after an inner marker was
// removed. The argument blanks is the number of white space characters that were removed before
// this marker. The grammar continues as if these characters had not been read.
func (g *grammar) without(blanks int) {
	g.read -= blanks
	if blanks > 0 && g.state == afterNumber {
		g.state = inNumber
	}
}

// mayEnd reports whether the marker may end at the current character.
func (g *grammar) mayEnd() bool {
	return g.state == inNumber || g.state == afterNumber || g.state == afterQuote
}

// take processes a character outside of quotes. It returns false if the character is not allowed.
func (g *grammar) take(r rune) bool {
	switch {
	case g.state == afterQuote && strings.ContainsRune(g.ends, r):
		g.end()
	case strings.ContainsRune(separators, r) && g.mayEnd():
		g.state = atNumber
	case r == ':' && g.mayEnd() && g.state != afterQuote:
		g.state = atQuote
	case r >= '0' && r <= '9':
		return g.digit(r)
	case closers[r] != "" && len(g.items) > 0 && g.state != afterQuote:
		g.begin(r)
	default:
		return false
	}
	return true
}

// digit processes a digit. It returns false if no number may begin at this position, or if the
// number would be too long or begin with 0.
func (g *grammar) digit(r rune) bool {
	switch {
	case g.state == atNumber && r != '0':
		g.items = append(g.items, item{})
		g.digits = 0
	case g.state == inNumber && g.digits < maxNumberDigits:
	default:
		return false
	}

	g.state = inNumber
	g.digits++
	last := &g.items[len(g.items)-1]
	last.number = last.number*10 + int(r-'0')
	return true
}

// begin opens a quote after the last number.
func (g *grammar) begin(r rune) {
	// The opening quotation mark determines which marks may close the quote.
	g.state, g.ends, g.newline = inQuote, closers[r], false
	last := &g.items[len(g.items)-1]
	last.quotes = append(last.quotes, extent{from: g.read, to: g.read})
}

// inside processes a character inside a quote.
func (g *grammar) inside(r rune) verdict {
	switch {
	case r == '\n' && g.newline:
		return unclosed
	case r == '\n':
		g.newline = true
	case !unicode.IsSpace(r):
		g.newline = false
	}
	if strings.ContainsRune(g.ends, r) {
		g.end()
	}
	return undecided
}

// end closes the quote before the last character. If the next characters show that the quote
// continues, the quote is opened again.
func (g *grammar) end() {
	quotes := g.items[len(g.items)-1].quotes
	quotes[len(quotes)-1].to = g.read - 1
	g.state = afterQuote
}

// lastQuoted returns the index of the last item with a quote, or -1.
func (g *grammar) lastQuoted() int {
	for i, it := range slices.Backward(g.items) {
		if len(it.quotes) > 0 {
			return i
		}
	}
	return -1
}

// lastOpened returns the offset at which the most recent quote begins.
func (g *grammar) lastOpened() int {
	quotes := g.items[g.lastQuoted()].quotes
	return quotes[len(quotes)-1].from
}

// isBlank reports whether r is white space within a line.
func isBlank(r rune) bool { return r == '\t' || unicode.Is(unicode.Zs, r) }
