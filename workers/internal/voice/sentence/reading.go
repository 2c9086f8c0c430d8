package sentence

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// firstWide begins the characters whose marks need no space behind them.
const firstWide = 0x3000

// ending is what may stand behind the text that was read, once it is known what comes next.
type ending int

const (
	noEnding ending = iota
	clauseEnding
	dotEnding  // of a sentence, or of an abbreviation or a number
	markEnding // of a sentence
	wideEnding // of a sentence in a script that needs no space behind it
	lineEnding
)

// end is a place that may be one.
type end struct {
	kind   ending
	spaced bool // white space followed
	lines  int  // and so many line ends
}

// reading is what is known of a segment's text so far.
type reading struct {
	first  bool // segment of the answer
	length int
	spoken bool // there is a letter or digit

	end    end  // what was read last may be one
	marker int  // where a bracket behind it opened, which may be a citation: -1 for none
	word   word // before the dot

	fresh    bool // nothing but white space was read of the line
	code     bool // in code between back quotes
	ticks    int  // back quotes that were just read
	opened   int  // how many of them began the code
	brackets int
	link     bool // in a link's target
	before   rune

	fence fence

	sentence, clause, space int // where the segment could end so far, 0 for nowhere
	clauseAt                int // length there
}

func newReading(first bool) reading { return reading{first: first, fresh: true, marker: -1} }

// next takes the character at the byte at, of size bytes, and gives where the segment ends: 0 if that is not known.
func (r *reading) next(c rune, at, size int) int {
	if cut, inside := r.fence.next(c, at, size, r.fresh); cut != 0 || inside {
		r.end.kind = noEnding
		return cut
	}
	if cut := r.resolve(c, at); cut > 0 {
		return cut
	}
	r.take(c, at)
	if !r.link {
		r.length += weight(c)
	}
	r.before = c
	return r.tooLong(at + size)
}

// resolve decides on what may be an end, now that c follows it at the byte at.
func (r *reading) resolve(c rune, at int) int {
	if r.end.kind == noEnding {
		return 0
	}
	if r.marker >= 0 {
		return r.resolveMarker(c)
	}
	switch {
	case c == '\n':
		r.end.lines++
		r.end.spaced, r.end.kind = true, max(r.end.kind, lineEnding)
		return 0
	case unicode.IsSpace(c):
		r.end.spaced = true
		return 0
	case c == '[':
		r.marker = at
		return 0
	case !r.end.spaced && (isCloser(c) || isTerminal(c)):
		r.word.open = r.word.open || c == '.' && r.end.kind == dotEnding
		r.end.kind = max(r.end.kind, terminal(c))
		return 0
	}
	return r.ended(c, at)
}

// resolveMarker looks at what stands in a bracket behind an end: a citation belongs to what it ends.
func (r *reading) resolveMarker(c rune) int {
	at := r.marker
	switch {
	case c == ']':
		r.marker = -1
		return 0
	case c >= '0' && c <= '9', c == ',', c == ' ', c == '^':
		return 0
	}
	r.marker = -1
	r.brackets-- // it is not in itself
	defer func() { r.brackets++ }()
	return r.ended('[', at)
}

// ended decides whether an end is one when c comes behind it, at the byte at.
func (r *reading) ended(c rune, at int) int {
	was, w := r.end, r.word
	r.end = end{}
	if was.lines > 0 {
		r.word = word{}
	}
	switch {
	case r.code || r.brackets > 0 || r.link || r.joined(was, c) || was.lines == 0 && w.goesOn(was.kind, c):
		return 0
	case was.kind == clauseEnding:
		return r.clauseEnds(at)
	case was.lines == 1 && was.kind == lineEnding && unicode.IsLower(c):
		r.space = at // a line that was broken
		return 0
	}
	r.sentence = at
	if r.spoken && r.length >= r.enough(was.lines) {
		return at
	}
	return 0
}

// joined tells whether c follows at once what would have white space behind it, were it an end.
func (r *reading) joined(was end, c rune) bool {
	wide := was.kind == wideEnding || was.kind == clauseEnding && r.before >= firstWide
	return !was.spaced && !wide || c == '(' && r.before == ']'
}

// enough tells how long a segment is that ends with a sentence, or with so many lines.
func (r *reading) enough(lines int) int {
	switch {
	case r.first:
		return firstSentence
	case lines > 0:
		return enoughLine
	}
	return enough
}

func (r *reading) clauseEnds(at int) int {
	r.clause, r.clauseAt = at, r.length
	if r.first && r.length >= firstClause {
		return at
	}
	return 0
}

// take notes what c at the byte at is.
func (r *reading) take(c rune, at int) {
	r.ticked(c)
	switch {
	case c == '\n':
		r.code, r.ticks, r.brackets, r.link, r.fresh = false, 0, 0, false, true
		r.mayEnd(lineEnding)
		r.end.lines, r.end.spaced = max(r.end.lines, 1), true
		return
	case unicode.IsSpace(c):
		r.link = false
		if !r.code && r.brackets == 0 {
			r.space = at + utf8.RuneLen(c)
		}
		r.word.space()
		return
	case r.code || r.link && c != ')':
	default:
		r.mark(c)
	}
	r.fresh = false
	r.spoken = r.spoken || unicode.IsLetter(c) || unicode.IsDigit(c)
	if r.end.kind == noEnding {
		r.word.next(c)
	}
}

// mark notes brackets, and marks that may end something.
func (r *reading) mark(c rune) {
	switch {
	case c == '[':
		r.brackets++
	case c == ']':
		r.brackets = max(0, r.brackets-1)
	case c == '(' && r.before == ']':
		r.link = true
	case c == ')':
		r.link = false
	case isTerminal(c):
		r.mayEnd(terminal(c))
	case strings.ContainsRune(",;:–—،؛、，；：", c):
		r.mayEnd(clauseEnding)
	}
}

// mayEnd notes that there may be an end here.
func (r *reading) mayEnd(e ending) {
	if r.marker < 0 && e > r.end.kind {
		r.end.kind = e
	}
}

// ticked counts back quotes, which begin and end code.
func (r *reading) ticked(c rune) {
	if c == '`' {
		r.ticks++
		return
	}
	switch {
	case r.ticks == 0:
	case !r.code:
		r.code, r.opened = true, r.ticks
	case r.ticks == r.opened:
		r.code = false
	}
	r.ticks = 0
}

// tooLong ends a segment that is too long where it best can; here is behind what was read.
func (r *reading) tooLong(here int) int {
	switch {
	case r.length < longest:
		return 0
	case r.sentence > 0:
		return r.sentence
	case r.clause > 0 && r.clauseAt >= clauseLeast:
		return r.clause
	case r.space > 0:
		return r.space
	case r.length >= longestWord || weight(r.before) == 3 && !r.code && r.brackets == 0:
		return here
	}
	return 0
}

func isTerminal(c rune) bool { return terminal(c) != noEnding }

func terminal(c rune) ending {
	switch c {
	case '.':
		return dotEnding
	case '!', '?', '…', '؟', '۔', '⁉', '‼', ';': // the last one is Greek
		return markEnding
	case '。', '！', '？', '｡', '।', '॥', '።', '။', '។':
		return wideEnding
	}
	return noEnding
}

// isCloser tells whether c belongs to the sentence whose end it follows at once.
func isCloser(c rune) bool { return strings.ContainsRune("\"'”’»›)]}*_~`」』）】》〉", c) }
