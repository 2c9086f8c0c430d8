package agentloop

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxHeld is the maximum number of characters that the filter holds back. A longer text is not a
// marker.
const maxHeld = 600

// Limits on rescanning: characters are scanned again if a quote turns out to have no end. The
// filter rescans at most rereadAlways characters, plus maxReread times the length of the text so
// far.
const (
	rereadAlways = 64 << 10
	maxReread    = 8
)

// mark is the position of a marker in the filtered text, or the position from which a marker was
// removed.
type mark struct {
	number   int    // 0 for a removed marker
	quote    string // as spelled in the passage; "" if the marker has no quote
	from, to int    // offsets in bytes of the filtered text
}

// filter checks the markers in a text while the model writes it. It removes markers that fail and
// rewrites the others as [n]. From a bracket on, it holds text back until it is clear whether the
// bracket begins a marker. Text that was emitted never changes. The result depends only on the
// text, not on how it was split into pieces.
//
//	           ┌── not a marker: passed on ──┐
//	[ ─► held ─┼── holds: passed on as [n] ──┼─► text
//	           └── fails: removed, counted ──┘
//
// Brackets in code and brackets of Markdown links are text. A bracket inside a possible marker is
// decided first, so that a removal cannot turn the remaining text into a marker.
type filter struct {
	// check looks up the quotes of a marker's item. It returns the first quote that occurs in the
	// source, as spelled there, the number of quotes that do not occur, and whether the item is a
	// valid citation.
	check func(number int, quotes []string) (quote string, missed int, ok bool)
	emit  func(text string)

	out        strings.Builder // text that is final
	emitted    int             // bytes of out that were emitted
	partial    []byte          // the first bytes of an incomplete character
	tail       []rune          // characters held back: white space, the text of open, or possible inline code
	open       []candidate     // possible markers, each inside the one before it
	maybeCode  bool            // tail begins with a bracket that may be inside inline code
	md         markdown
	marks      []mark
	removed    int
	skipBlanks bool // skip white space: a marker before it was removed together with the white space on its other side
	taken      int  // characters received
	reread     int  // characters scanned again after quotes that did not end
}

// candidate is a bracket that may begin a marker.
type candidate struct {
	from, at int // indexes in tail: where the white space before the bracket begins, and the bracket itself
	grammar  grammar
	closed   bool // the closing bracket was read; the next character decides whether this is a marker
}

// newFilter returns a filter at the beginning of a text. It calls check and emit from write and
// finish.
func newFilter(check func(int, []string) (string, int, bool), emit func(string)) *filter {
	return &filter{check: check, emit: emit, md: markdown{lead: true}}
}

// write reads a piece of text and emits as much as is final.
func (f *filter) write(piece string) {
	// Providers may split a character between two pieces.
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

// finish decides about the text held back, emits it, and returns the whole filtered text.
func (f *filter) finish() string {
	// An incomplete character at the end can never become valid.
	for range f.partial {
		f.step(utf8.RuneError)
	}
	f.partial = nil
	// Each decision may rescan text and open new brackets, so repeat until no bracket is open.
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

// flush emits the final text that was not emitted yet.
func (f *filter) flush() {
	if text := f.out.String()[f.emitted:]; text != "" {
		f.emitted = f.out.Len()
		f.emit(text)
	}
}

// top returns the innermost bracket that may begin a marker.
func (f *filter) top() *candidate { return &f.open[len(f.open)-1] }

// step reads one character.
func (f *filter) step(r rune) {
	if f.skipBlanks && isBlank(r) {
		return
	}

	f.skipBlanks = false
	if f.md.runEnded(r) {
		f.endRun()
	}

	// Within code, brackets are text. In possible inline code they are held back until the code
	// ends.
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

// release appends the text that was held back, unchanged.
func (f *filter) release() {
	for _, r := range f.tail {
		f.put(r)
	}
	f.tail, f.open = f.tail[:0], f.open[:0]
}

// rescan processes text that was held back again, from its first character.
func (f *filter) rescan(held []rune) {
	for _, r := range held {
		f.step(r)
	}
}

// span reads a character after a backtick that may begin inline code. Whether it is inline code is
// known only at the closing backtick.
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

	// Text that is held back for too long is emitted as ordinary text.
	if len(f.tail) > maxHeld {
		f.notCode()
	}
}

// notCode processes the text held back again as ordinary text, because the inline code has no end.
func (f *filter) notCode() {
	held := f.tail
	f.tail, f.maybeCode = nil, false
	f.md.dropSpan()
	f.rescan(held)
}

// endRun processes the end of a run of backticks or tildes. Text held back inside inline code is
// released.
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

// candidate reads a character after a bracket that may begin a marker.
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

// resolve decides about the innermost marker, whose closing bracket was read. next is the character
// after that bracket.
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

// judge returns the valid items of a marker and counts the others as removed.
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

// remove deletes a marker, together with the white space before it unless that would join two
// words.
func (f *filter) remove(c candidate, next rune) {
	f.tail = f.tail[:c.from]
	if unicode.IsLetter(next) || unicode.IsNumber(next) {
		f.tail = f.tail[:c.at]
	}
	if len(f.open) > 0 { // the text after an outer bracket may still be a marker
		f.top().grammar.without(c.at - len(f.tail))
		return
	}

	// The removed marker keeps its position, because it still separates the words of its
	// neighbours.
	f.marks = append(f.marks, mark{from: f.out.Len(), to: f.out.Len()})

	// At the beginning of a line, the white space after the marker goes, too, so that no indent
	// appears.
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

// abandon gives up on brackets that stayed open for too long. It keeps the text but removes the
// brackets. A number that is followed by the beginning of a quote is deleted and counted as
// removed.
func (f *filter) abandon() {
	held, top := f.tail, *f.top()
	f.tail, f.open = nil, nil
	var rest []rune

	// The model intended a citation here, so its number must not remain as text.
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
		// Delete the brackets: each could begin another quote without an end and cause another
		// scan.
		rest = slices.DeleteFunc(rest, func(r rune) bool { return r == '[' })
	}

	if len(rest) > 0 {
		f.separate(rest[0])
	}
	f.rescan(rest)
}
