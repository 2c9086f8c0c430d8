package agentloop

import (
	"slices"
	"strings"
	"unicode"
)

// longestNumber bounds the digits of a source's number.
const longestNumber = 6

// Marks that stand around quotes, and what may end the one that each begins. Writers of different languages begin
// with what others end with.
var closers = map[rune]string{
	'"': "\"”“", '“': "”\"“", '”': "”\"", '„': "“”\"", '‟': "”\"", '〝': "〞〟", '＂': "＂", '«': "»", '»': "«", '‹': "›", '›': "‹",
	'「': "」", '『': "』", '\'': "'’‘", '‘': "’'‘", '’': "’'", '‚': "‘’'",
}

const separators = ",;，；、"

// verdict is what a character makes of a marker.
type verdict int

const (
	goesOn verdict = iota
	notMarker
	complete // the closing bracket
	unclosed // a quote was begun and cannot end any more
)

// grammarState says what was read last.
type grammarState int

const (
	atNumber    grammarState = iota // a number must come, or behind one a quote
	inNumber                        // its digits
	afterNumber                     // white space behind it
	atQuote                         // a colon: only a quote may come
	inQuote
	afterQuote // what may have been its end
)

// item is a number that a marker names, and the quotes behind it.
type item struct {
	number int
	quotes []extent
}

// extent is a part of a text, in the units of whoever made it.
type extent struct{ from, to int }

// grammar reads what stands behind the bracket that may begin a marker, character by character:
//
//	numbers joined by , or ; and behind each any quotes: 1 | 1, 2 | 1 "words" | 1 "words"; "words", 2 “words”
//
// A mark inside a quote that could be its end is one if a bracket, or a further quote or number, follows.
type grammar struct {
	state   grammarState
	items   []item // extents of quotes are in characters behind the bracket
	read    int
	digits  int
	ends    string // what may end the quote
	newline bool   // in a quote: nothing but white space since a line ended
}

// quoted reports whether a quote was begun: text that is surely meant as a marker.
func (g *grammar) quoted() bool { return g.lastQuoted() >= 0 }

// accept takes the next character.
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
		return goesOn
	case g.take(r):
		return goesOn
	case g.quoted(): // what seemed to be its end was a part of it
		g.items = g.items[:g.lastQuoted()+1]
		g.state = inQuote
		return g.inside(r)
	default:
		return notMarker
	}
}

// without takes back the white space that was read last, all of it that follows a number or none.
func (g *grammar) without(blanks int) {
	g.read -= blanks
	if blanks > 0 && g.state == afterNumber {
		g.state = inNumber
	}
}

// mayEnd reports whether nothing need follow.
func (g *grammar) mayEnd() bool {
	return g.state == inNumber || g.state == afterNumber || g.state == afterQuote
}

// take takes a character outside of quotes; false if it may not stand here.
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

// digit takes a digit in; false if no number may stand here, or not this one.
func (g *grammar) digit(r rune) bool {
	switch {
	case g.state == atNumber && r != '0':
		g.items = append(g.items, item{})
		g.digits = 0
	case g.state == inNumber && g.digits < longestNumber:
	default:
		return false
	}
	g.state = inNumber
	g.digits++
	last := &g.items[len(g.items)-1]
	last.number = last.number*10 + int(r-'0')
	return true
}

// begin opens a quote behind the last number.
func (g *grammar) begin(r rune) {
	g.state, g.ends, g.newline = inQuote, closers[r], false
	last := &g.items[len(g.items)-1]
	last.quotes = append(last.quotes, extent{from: g.read, to: g.read})
}

// inside takes a character of a quote.
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
	return goesOn
}

// end takes the character read last as the end of the quote, as long as nothing says otherwise.
func (g *grammar) end() {
	quotes := g.items[len(g.items)-1].quotes
	quotes[len(quotes)-1].to = g.read - 1
	g.state = afterQuote
}

// lastQuoted gives the last item with a quote, -1 for none.
func (g *grammar) lastQuoted() int {
	for i, it := range slices.Backward(g.items) {
		if len(it.quotes) > 0 {
			return i
		}
	}
	return -1
}

// lastOpened gives where the words of the quote begin that was begun last.
func (g *grammar) lastOpened() int {
	quotes := g.items[g.lastQuoted()].quotes
	return quotes[len(quotes)-1].from
}

func isBlank(r rune) bool { return r == '\t' || unicode.Is(unicode.Zs, r) }
