package agentloop

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxHeld is how many characters are held back at most: what is longer is no marker.
const maxHeld = 600

// How many characters are read again at most, because quotes do not end in a text that goes on beginning them: so many,
// and so many times those that came.
const (
	rereadAlways = 64 << 10
	maxReread    = 8
)

// mark is a marker of a filtered text, or the place of one that was removed.
type mark struct {
	number   int    // 0: removed
	quote    string // as it stands in the passage; "" if the model gave none
	from, to int    // in bytes of the filtered text
}

// filter takes the markers out of a text that do not hold, and brings the others into one form, while the text is
// being written. It holds text back from a bracket on until it is known whether that begins a marker, and passes on
// nothing that it would have to take back. What it does depends on the text alone, never on how it came in pieces.
//
//	           ┌── not a marker: passed on ──┐
//	[ ─► held ─┼── holds: passed on as [n] ──┼─► text
//	           └── fails: removed, counted ──┘
//
// Brackets in code, and those of Markdown links, are text. A bracket inside what may yet be a marker is decided on
// first, so that no removal makes a marker of what is left.
type filter struct {
	// check gives a source's passage's own words for the quotes of an item, how many of these do not stand in it, and
	// whether the item holds.
	check func(number int, quotes []string) (quote string, missed int, ok bool)
	emit  func(text string)

	out     strings.Builder // decided
	emitted int             // bytes of it
	partial []byte          // a character that has not come whole
	tail    []rune          // held back: white space, or what open is about, or the rest of what may be inline code
	open    []candidate     // each inside the one before
	unsure  bool            // tail begins with a bracket in what may be inline code
	md      markdown
	marks   []mark
	removed int
	swallow bool // the white space that follows went with a marker before it
	taken   int  // characters that came
	reread  int  // and those of them that were read again, behind quotes that did not end
}

// candidate is a bracket that may begin a marker.
type candidate struct {
	from, at int // in tail: the white space before it, and the bracket
	grammar  grammar
	closed   bool // but for what comes next
}

func newFilter(check func(int, []string) (string, int, bool), emit func(string)) *filter {
	return &filter{check: check, emit: emit, md: markdown{lead: true}}
}

// write takes a piece of text in and emits what is decided.
func (f *filter) write(piece string) {
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

// finish decides on what is held back at the text's end, emits it, and gives the whole text.
func (f *filter) finish() string {
	for range f.partial {
		f.step(utf8.RuneError)
	}
	f.partial = nil
	for {
		if f.md.run > 0 {
			f.endRun()
		}
		switch {
		case f.unsure:
			f.notCode()
		case len(f.open) == 0:
			f.release()
			f.flush()
			return f.out.String()
		case f.top().closed:
			f.settle(utf8.RuneError)
		case f.top().grammar.quoted():
			f.abandon()
		default:
			f.release()
		}
	}
}

func (f *filter) flush() {
	if text := f.out.String()[f.emitted:]; text != "" {
		f.emitted = f.out.Len()
		f.emit(text)
	}
}

func (f *filter) top() *candidate { return &f.open[len(f.open)-1] }

// step takes one character.
func (f *filter) step(r rune) {
	if f.swallow && isBlank(r) {
		return
	}
	f.swallow = false
	if f.md.ended(r) {
		f.endRun()
	}
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

// put decides on a character: it is text.
func (f *filter) put(r rune) {
	f.md.put(r)
	f.out.WriteRune(r)
}

// release passes on what is held back, as it is.
func (f *filter) release() {
	for _, r := range f.tail {
		f.put(r)
	}
	f.tail, f.open = f.tail[:0], f.open[:0]
}

// again takes held text once more, from its beginning.
func (f *filter) again(held []rune) {
	for _, r := range held {
		f.step(r)
	}
}

// span takes a character of what may be inline code: whether it is, only its end tells.
func (f *filter) span(r rune) {
	if r == '\n' {
		f.notCode()
		f.step(r)
		return
	}
	f.md.count(r)
	switch {
	case f.unsure || r == '[':
		f.unsure = true
		f.tail = append(f.tail, r)
	case isBlank(r):
		f.tail = append(f.tail, r)
	default:
		f.release()
		f.put(r)
	}
	if len(f.tail) > maxHeld {
		f.notCode()
	}
}

// notCode takes back that the text at hand is inline code.
func (f *filter) notCode() {
	held := f.tail
	f.tail, f.unsure = nil, false
	f.md.noSpan()
	f.again(held)
}

func (f *filter) endRun() {
	if f.md.endRun(f.unsure) {
		f.unsure = false
		f.release()
	}
}

// begin holds back from a bracket on.
func (f *filter) begin() {
	from := len(f.tail)
	for from > 0 && isBlank(f.tail[from-1]) {
		from--
	}
	f.open = append(f.open, candidate{from: from, at: len(f.tail)})
	f.tail = append(f.tail, '[')
}

// candidate takes a character behind a bracket that may begin a marker.
func (f *filter) candidate(r rune) {
	top := f.top()
	switch {
	case top.closed && r == '(':
		f.release()
		f.step(r)
		return
	case top.closed:
		f.settle(r)
		f.step(r)
		return
	case r == '[' && !top.grammar.quoted():
		f.begin()
	default:
		became := top.grammar.accept(r)
		if r == '\n' && f.md.loose && became == goesOn {
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
		case goesOn:
		}
		f.tail = append(f.tail, r)
	}
	if len(f.tail) > maxHeld {
		f.abandon()
	}
}

// settle decides on the marker that is closed; next is what follows.
func (f *filter) settle(next rune) {
	top := *f.top()
	f.open = f.open[:len(f.open)-1]
	kept := f.judge(top)
	if len(kept) == 0 {
		f.remove(top, next)
		return
	}
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

// judge gives what holds of a marker, and counts what does not.
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

// remove takes a marker out, with the white space before it unless that would join two words.
func (f *filter) remove(c candidate, next rune) {
	f.tail = f.tail[:c.from]
	if unicode.IsLetter(next) || unicode.IsNumber(next) {
		f.tail = f.tail[:c.at]
	}
	if len(f.open) > 0 { // what is left of an outer bracket may still be a marker
		f.top().grammar.without(c.at - len(f.tail))
		return
	}
	f.marks = append(f.marks, mark{from: f.out.Len(), to: f.out.Len()})
	text := f.out.String()
	f.swallow = len(f.tail) == 0 && (text == "" || strings.HasSuffix(text, "\n"))
	f.part(next)
}

// part keeps what stood around something that was taken out from becoming one run, which Markdown would read as another.
func (f *filter) part(next rune) {
	if (next == '`' || next == '~') && len(f.tail) == 0 && strings.HasSuffix(f.out.String(), string(next)) {
		f.put(' ')
	}
}

// abandon gives up on brackets that were left open for too long. The text stays, but not what made it look like a
// marker: a number with the beginning of a quote, which counts as removed, and the brackets around it.
func (f *filter) abandon() {
	held, top := f.tail, *f.top()
	f.tail, f.open = nil, nil
	var rest []rune
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
		// Each bracket in there may begin a quote that does not end either, and have the rest read once more.
		rest = slices.DeleteFunc(rest, func(r rune) bool { return r == '[' })
	}
	if len(rest) > 0 {
		f.part(rest[0])
	}
	f.again(rest)
}
