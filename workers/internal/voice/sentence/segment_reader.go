package sentence

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// firstWide is the first character of those scripts in which no space follows a punctuation mark.
const firstWide = 0x3000

// boundary is the kind of a possible end of a segment. The characters that follow determine whether
// the segment really ends there. A larger value takes precedence over a smaller one.
type boundary int

const (
	noBoundary boundary = iota
	clauseBoundary
	dotBoundary  // dot that ends a sentence or belongs to an abbreviation or a number
	markBoundary // end of a sentence
	wideBoundary // end of a sentence in a script that has no space after it
	lineBoundary
)

// end is a possible end of a segment.
type end struct {
	kind   boundary
	spaced bool // true if white space follows
	lines  int  // number of newlines that follow
}

// segmentReader is the state while one segment is read. All offsets are relative to the start of
// the segment. The zero value is not usable; see newSegmentReader.
//
// A possible end is recorded when its character is read, and it is decided when later characters
// show whether the text continues. Offsets of ends before the minimum length are kept, because a
// segment that becomes too long ends at the best of them.
type segmentReader struct {
	first bool // true for the first segment of the answer
	// length is the number of characters so far, each with its weight. Targets of links do not
	// count.
	length int
	spoken bool // true if the segment contains a letter or digit

	end    end  // possible end after the last character
	marker int  // offset of a bracket after the possible end that may be a citation, or -1
	word   word // last word before the dot

	fresh  bool // true if the line contains only white space so far
	code   bool // true between backticks
	ticks  int  // number of backticks directly before the current character
	opened int  // number of backticks that opened the code
	// brackets is the number of open brackets. No segment ends inside of brackets.
	brackets int
	link     bool // true in the target of a link
	// before is the previous character, or 0.
	before rune

	// fence tracks a code block, whose characters take no part in the other states.
	fence fence

	sentence, clause, space int // offsets at which the segment could end; 0 means that there is none
	clauseAt                int // length of the segment at the offset clause
}

// newSegmentReader returns the state at the beginning of a segment.
func newSegmentReader(first bool) segmentReader {
	return segmentReader{first: first, fresh: true, marker: -1}
}

// next processes the character c. at is the offset of c, and size is its number of bytes. next
// returns the end of the segment, or 0 if the end is not known yet. The end may be before c. After
// it has returned an end, the state is no longer used.
func (r *segmentReader) next(c rune, at, size int) int {
	if cut, inside := r.fence.next(c, at, size, r.fresh); cut != 0 || inside {
		r.end.kind = noBoundary
		return cut
	}

	// The next character determines whether a possible end is an end, so this is decided before the
	// character itself is processed.
	if cut := r.resolve(c, at); cut > 0 {
		return cut
	}
	r.take(c, at)
	// The target of a link is not spoken, so it is not part of the length.
	if !r.link {
		r.length += weight(c)
	}
	r.before = c
	return r.tooLong(at + size)
}

// resolve decides whether a possible end is the end of the segment. c is the next character, and at
// is its offset. resolve returns the end of the segment, or 0. If c belongs to the end, the
// decision waits for the next character.
func (r *segmentReader) resolve(c rune, at int) int {
	if r.end.kind == noBoundary {
		return 0
	}
	if r.marker >= 0 {
		return r.resolveMarker(c)
	}

	// Newlines, white space and closing quotation marks belong to the end, so the decision is
	// postponed.
	switch {
	case c == '\n':
		r.end.lines++
		r.end.spaced, r.end.kind = true, max(r.end.kind, lineBoundary)
		return 0
	case unicode.IsSpace(c):
		r.end.spaced = true
		return 0
	case c == '[':
		r.marker = at
		return 0
	case !r.end.spaced && (isCloser(c) || isTerminal(c)):
		r.word.open = r.word.open || c == '.' && r.end.kind == dotBoundary
		r.end.kind = max(r.end.kind, terminal(c))
		return 0
	}
	return r.ended(c, at)
}

// resolveMarker decides whether a bracket after a possible end begins a citation. A citation
// belongs to the text that precedes it, so the decision about the end waits for the character after
// the citation.
func (r *segmentReader) resolveMarker(c rune) int {
	at := r.marker
	switch {
	case c == ']':
		r.marker = -1
		return 0
	case c >= '0' && c <= '9', c == ',', c == ' ', c == '^':
		return 0
	}
	r.marker = -1
	r.brackets-- // do not count the closing bracket
	defer func() { r.brackets++ }()
	return r.ended('[', at)
}

// ended decides whether a possible end is an end, where c is the next character and at is its
// offset. It returns at if the segment ends there, and otherwise 0. Either way, the possible end is
// resolved.
func (r *segmentReader) ended(c rune, at int) int {
	was, w := r.end, r.word
	r.end = end{}
	if was.lines > 0 {
		r.word = word{}
	}

	// There is no end inside of code, brackets or a link, or after the dot of an abbreviation.
	switch {
	case r.code || r.brackets > 0 || r.link || r.joined(was, c) || was.lines == 0 && w.goesOn(was.kind, c):
		return 0
	case was.kind == clauseBoundary:
		return r.clauseEnds(at)
	case was.lines == 1 && was.kind == lineBoundary && unicode.IsLower(c):
		r.space = at // the line break only wraps a line
		return 0
	}

	// The offset is stored even if the segment is still too short, because tooLong may need it
	// later.
	r.sentence = at
	if r.spoken && r.length >= r.enough(was.lines) {
		return at
	}
	return 0
}

// joined reports whether c directly follows a mark that, at the end of a sentence, would be
// followed by white space. Examples are the dots in "3.5" and "parley.dev". In scripts without
// spaces, no white space is needed. joined also returns true if c begins the target of a link.
func (r *segmentReader) joined(was end, c rune) bool {
	wide := was.kind == wideBoundary || was.kind == clauseBoundary && r.before >= firstWide
	return !was.spaced && !wide || c == '(' && r.before == ']'
}

// enough returns the minimum length of a segment that ends with the given number of newlines. If
// lines is 0, the segment ends with a sentence. The first segment may be short, so that speech
// begins early.
func (r *segmentReader) enough(lines int) int {
	switch {
	case r.first:
		return minFirstSentence
	case lines > 0:
		return minLine
	}
	return enough
}

// clauseEnds records that a clause ends at an offset. It returns this offset if the first segment
// may end there, and otherwise 0.
func (r *segmentReader) clauseEnds(at int) int {
	r.clause, r.clauseAt = at, r.length
	if r.first && r.length >= minFirstClause {
		return at
	}
	return 0
}

// take updates the state for the character c. at is the offset of c. It records a possible end
// after c, but decides nothing.
func (r *segmentReader) take(c rune, at int) {
	r.ticked(c)
	switch {
	case c == '\n':
		// Code and links end with their line, so that a missing mark affects only one line.
		r.code, r.ticks, r.brackets, r.link, r.fresh = false, 0, 0, false, true
		r.mayEnd(lineBoundary)
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

	// The word before a dot is needed to decide whether the dot belongs to an abbreviation.
	if r.end.kind == noBoundary {
		r.word.next(c)
	}
}

// mark processes brackets and punctuation outside of code and of links' targets.
func (r *segmentReader) mark(c rune) {
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
		r.mayEnd(clauseBoundary)
	}
}

// mayEnd records a possible end of the segment after the current character. The highest kind is
// kept.
func (r *segmentReader) mayEnd(e boundary) {
	if r.marker < 0 && e > r.end.kind {
		r.end.kind = e
	}
}

// ticked counts backticks, which begin and end code. A run of backticks is complete only when
// another character follows.
func (r *segmentReader) ticked(c rune) {
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

// tooLong ends a segment that is too long at the best possible end. here is the offset after the
// last character. It returns 0 while the segment may grow.
//
// The order of preference is the end of a sentence, the end of a clause, a space, and any position.
// In a script without spaces, any position outside of code and brackets is suitable.
func (r *segmentReader) tooLong(here int) int {
	switch {
	case r.length < maxLength:
		return 0
	case r.sentence > 0:
		return r.sentence
	case r.clause > 0 && r.clauseAt >= minClause:
		return r.clause
	case r.space > 0:
		return r.space
	case r.length >= maxUnbroken || weight(r.before) == 3 && !r.code && r.brackets == 0:
		return here
	}
	return 0
}

// isTerminal reports whether a character may end a sentence.
func isTerminal(c rune) bool { return terminal(c) != noBoundary }

// terminal returns how a character ends a sentence, or noBoundary.
func terminal(c rune) boundary {
	switch c {
	case '.':
		return dotBoundary
	case '!', '?', '…', '؟', '۔', '⁉', '‼', ';': // the last one is a Greek question mark
		return markBoundary
	case '。', '！', '？', '｡', '।', '॥', '።', '။', '។':
		return wideBoundary
	}
	return noBoundary
}

// isCloser reports whether c, directly after the end of a sentence, still belongs to the sentence.
func isCloser(c rune) bool { return strings.ContainsRune("\"'”’»›)]}*_~`」』）】》〉", c) }
