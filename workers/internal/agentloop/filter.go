package agentloop

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxHeld is the maximum number of characters that the filter holds back. A longer text cannot be a
// marker.
const maxHeld = 600

// These limits bound repeated scans. If a quote has no end, its characters are scanned again. The
// filter scans at most rereadAlways characters again, plus maxReread times the length of the text
// so far.
const (
	rereadAlways = 64 << 10
	maxReread    = 8
)

// mark is the position of a marker in the filtered text, or the position at which a marker was
// removed.
type mark struct {
	number   int    // 0 for a removed marker
	quote    string // as spelled in the passage; "" if the marker has no quote
	from, to int    // offsets in bytes of the filtered text
}

// filter checks the markers in a text while the model writes the text. It removes markers that fail
// the check and rewrites the others as [n]. After an opening bracket, it holds text back until it
// is clear whether the bracket begins a marker. Text that was emitted never changes. The result
// depends only on the text, not on how the text was split into pieces.
//
//	           ┌── not a marker: passed on ──┐
//	[ ─► held ─┼── holds: passed on as [n] ──┼─► text
//	           └── fails: removed, counted ──┘
//
// Brackets in code and brackets of Markdown links are ordinary text. A bracket inside a possible
// marker is resolved before that marker, so that a removal cannot turn the remaining text into a
// marker.
//
// A filter is used for one model call. Its time is linear in the length of the text, because
// repeated scans are bounded; see maxReread. It holds back at most about maxHeld characters.
type filter struct {
	// check looks up the quotes that follow a source number in a marker. It returns the first quote
	// that occurs in the source, spelled as in the source. missed is the number of quotes that do
	// not occur. ok reports whether the number with its quotes is a valid citation.
	check func(number int, quotes []string) (quote string, missed int, ok bool)
	emit  func(text string)

	out        strings.Builder // the final text
	emitted    int             // number of bytes of the filtered text that have been emitted
	partial    []byte          // the first bytes of an incomplete character
	tail       []rune          // characters held back: white space, the brackets in open with the text after them, or possible inline code
	open       []candidate     // brackets that may begin a marker, from the outermost to the innermost
	maybeCode  bool            // tail begins with a bracket that may be part of inline code
	md         markdown
	marks      []mark // positions of the markers in out
	removed    int    // number of removed citations
	skipBlanks bool   // skip the white space after a removed marker at the beginning of a line
	taken      int    // characters received
	reread     int    // number of characters that were scanned again because a quote had no end
}

// candidate is an opening bracket that may begin a marker.
type candidate struct {
	from, at int // indexes in tail: of the white space before the bracket, and of the bracket itself
	grammar  grammar
	closed   bool // the closing bracket was read, and the next character decides whether this is a marker
}

// newFilter returns a filter at the beginning of a text. The filter's methods call check for each
// item of a marker, and emit for each final piece of text.
func newFilter(check func(int, []string) (string, int, bool), emit func(string)) *filter {
	return &filter{check: check, emit: emit, md: markdown{lead: true}}
}

// write processes a piece of text, and emits the text that has become final.
func (f *filter) write(piece string) {
	// Providers may split a character between two pieces, so keep its first bytes until the next
	// piece.
	if len(f.partial) > 0 {
		piece = string(f.partial) + piece
		f.partial = f.partial[:0]
	}

	for piece != "" {
		if !utf8.FullRuneInString(piece) {
			f.partial = append(f.partial, piece...)
			break
		}
		r, n := utf8.DecodeRuneInString(piece)
		f.taken++
		f.step(r)
		piece = piece[n:]
	}
	f.flush()
}

// finish resolves the text that is held back, emits it, and returns the whole filtered text.
func (f *filter) finish() string {
	// A character that is still incomplete at the end of the text is invalid.
	for range f.partial {
		f.step(utf8.RuneError)
	}
	f.partial = nil
	// A resolved bracket may cause a repeated scan that finds other brackets, so repeat until none
	// is open.
	for {
		if f.md.run > 0 {
			f.endRun()
		}
		switch {
		case f.maybeCode:
			f.notCode()
		case len(f.open) == 0:
			f.release()
			f.flush()
			return f.out.String()
		case f.top().closed:
			f.resolve(utf8.RuneError)
		case f.top().grammar.quoted():
			f.abandon()
		default:
			f.release()
		}
	}
}

// flush emits the part of the final text that has not been emitted yet.
func (f *filter) flush() {
	if text := f.out.String()[f.emitted:]; text != "" {
		f.emitted = f.out.Len()
		f.emit(text)
	}
}

// top returns the innermost open bracket that may begin a marker.
func (f *filter) top() *candidate { return &f.open[len(f.open)-1] }

// step processes one character.
func (f *filter) step(r rune) {
	if f.skipBlanks && isBlank(r) {
		return
	}

	f.skipBlanks = false
	if f.md.runEnded(r) {
		f.endRun()
	}

	// Brackets in code are ordinary text. Brackets are held back until it is clear whether the text
	// is inline code.
	switch {
	case f.md.mode == inSpan:
		f.span(r)
	case f.md.mode != inText:
		f.put(r)
	case len(f.open) > 0:
		f.candidate(r)
	case r == '[':
		f.begin()
	case isBlank(r) && len(f.tail) < maxHeld:
		f.tail = append(f.tail, r)
	default:
		f.release()
		f.md.count(r)
		f.put(r)
	}
}

// put appends a character to the final text.
func (f *filter) put(r rune) {
	f.md.put(r)
	f.out.WriteRune(r)
}

// release appends the text that was held back to the final text, unchanged.
func (f *filter) release() {
	for _, r := range f.tail {
		f.put(r)
	}
	f.tail, f.open = f.tail[:0], f.open[:0]
}

// rescan processes the given held-back text again, from its first character.
func (f *filter) rescan(held []rune) {
	for _, r := range held {
		f.step(r)
	}
}

// span processes a character after a backtick that may begin inline code. The text is inline code
// only if a closing run of backticks follows.
func (f *filter) span(r rune) {
	// Inline code cannot continue on the next line.
	if r == '\n' {
		f.notCode()
		f.step(r)
		return
	}

	f.md.count(r)
	switch {
	case f.maybeCode || r == '[':
		f.maybeCode = true
		f.tail = append(f.tail, r)
	case isBlank(r):
		f.tail = append(f.tail, r)
	default:
		f.release()
		f.put(r)
	}

	// If more than maxHeld characters are held back, they become ordinary text.
	if len(f.tail) > maxHeld {
		f.notCode()
	}
}

// notCode processes the held-back text again as ordinary text, because the inline code has no end.
func (f *filter) notCode() {
	held := f.tail
	f.tail, f.maybeCode = nil, false
	f.md.dropSpan()
	f.rescan(held)
}

// endRun processes the end of a run of backticks or tildes. If the run closes inline code, endRun
// releases the text that was held back inside of the code.
func (f *filter) endRun() {
	if f.md.endRun(f.maybeCode) {
		f.maybeCode = false
		f.release()
	}
}

// begin starts to hold back text at an opening bracket.
func (f *filter) begin() {
	from := len(f.tail)
	for from > 0 && isBlank(f.tail[from-1]) {
		from--
	}
	f.open = append(f.open, candidate{from: from, at: len(f.tail)})
	f.tail = append(f.tail, '[')
}

// candidate processes a character that follows a bracket that may begin a marker.
func (f *filter) candidate(r rune) {
	top := f.top()
	// The character after the closing bracket decides between a marker and a Markdown link.
	switch {
	case top.closed && r == '(':
		f.release()
		f.step(r)
		return
	case top.closed:
		f.resolve(r)
		f.step(r)
		return
	case r == '[' && !top.grammar.quoted():
		f.begin()
	default:
		became := top.grammar.accept(r)
		if r == '\n' && f.md.loose && became == undecided {
			became = unclosed
		}

		switch became {
		case notMarker:
			f.release()
			f.step(r)
			return
		case unclosed:
			f.tail = append(f.tail, r)
			f.abandon()
			return
		case complete:
			top.closed = true
		case undecided:
		}
		f.tail = append(f.tail, r)
	}
	if len(f.tail) > maxHeld {
		f.abandon()
	}
}

// resolve accepts or rejects the innermost marker, whose closing bracket was read. next is the
// character after that bracket.
func (f *filter) resolve(next rune) {
	top := *f.top()
	f.open = f.open[:len(f.open)-1]
	kept := f.judge(top)
	if len(kept) == 0 {
		f.remove(top, next)
		return
	}

	// Discard the original spelling and write each valid item as a separate marker.
	f.tail = f.tail[:top.at]
	f.release()
	for _, m := range kept {
		m.from = f.out.Len()
		for _, r := range "[" + strconv.Itoa(m.number) + "]" {
			f.put(r)
		}
		m.to = f.out.Len()
		f.marks = append(f.marks, m)
	}
}

// judge returns the valid items of a marker, and counts the other items as removed citations.
func (f *filter) judge(c candidate) (kept []mark) {
	for _, it := range c.grammar.items {
		quotes := make([]string, len(it.quotes))
		for i, q := range it.quotes {
			quotes[i] = string(f.tail[c.at+1+q.from : c.at+1+q.to])
		}
		quote, missed, ok := f.check(it.number, quotes)
		f.removed += missed
		if ok {
			kept = append(kept, mark{number: it.number, quote: quote})
		}
	}
	return kept
}

// remove deletes a marker. It also deletes the white space before the marker, unless the words on
// both sides would then be joined.
func (f *filter) remove(c candidate, next rune) {
	f.tail = f.tail[:c.from]
	if unicode.IsLetter(next) || unicode.IsNumber(next) {
		f.tail = f.tail[:c.at]
	}
	if len(f.open) > 0 { // the text after an outer open bracket may still become a marker
		f.top().grammar.without(c.at - len(f.tail))
		return
	}

	// Keep the position of the removed marker. It still separates the words that the previous
	// marker supports from those of the next one.
	f.marks = append(f.marks, mark{from: f.out.Len(), to: f.out.Len()})

	// At the beginning of a line, also remove the white space after the marker, so that the line is
	// not indented.
	text := f.out.String()
	f.skipBlanks = len(f.tail) == 0 && (text == "" || strings.HasSuffix(text, "\n"))
	f.separate(next)
}

// separate inserts a space if a removal would join two runs of backticks or tildes. Markdown would
// read the joined run as a different, longer fence.
func (f *filter) separate(next rune) {
	if (next == '`' || next == '~') && len(f.tail) == 0 && strings.HasSuffix(f.out.String(), string(next)) {
		f.put(' ')
	}
}

// abandon gives up brackets that have stayed open for too long: it deletes the brackets and emits
// the text after them. If a number is followed by the beginning of a quote, abandon also deletes
// the number, counts it as a removed citation, and scans the quote again.
func (f *filter) abandon() {
	held, top := f.tail, *f.top()
	f.tail, f.open = nil, nil
	var rest []rune

	// The number was meant as a citation, so it must not remain in the text.
	if top.grammar.quoted() {
		held, rest = held[:top.at], held[top.at+1+top.grammar.lastOpened():]
		f.removed += len(top.grammar.items)
	}

	for _, r := range held {
		if r != '[' {
			f.put(r)
		}
	}

	if f.reread += len(rest); f.reread > rereadAlways+maxReread*f.taken {
		// Delete the brackets: each of them could begin another quote without an end and cause
		// another scan.
		rest = slices.DeleteFunc(rest, func(r rune) bool { return r == '[' })
	}

	if len(rest) > 0 {
		f.separate(rest[0])
	}
	f.rescan(rest)
}
