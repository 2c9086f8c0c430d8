package sentence

// fence tracks a code block between two lines of backticks or tildes. Each code block is a separate
// segment, which Speak omits. The zero value is ready for the beginning of a segment.
type fence struct {
	// mark is a backtick or a tilde, with which the block opens and closes.
	mark  rune
	count int // number of marks that opened the block
	from  int // offset of the marks that opened the block
	open  bool
	head  bool // true while the opening line is read, because it may still turn out not to be a fence
	marks int  // number of marks in the current line, which may close the block; -1 if the line cannot close it
	// closes is true if the current line has enough marks to close the block.
	closes bool
}

// next processes the character c at the offset at. fresh means that the line contains only white
// space so far. end is the end of the segment, or 0. inside reports whether the character belongs
// to a fence.
func (f *fence) next(c rune, at, size int, fresh bool) (end int, inside bool) {
	if !f.open {
		return f.opening(c, at, fresh)
	}
	if f.head {
		switch {
		case c == '\n':
			f.head = false
		case c == f.mark && f.marks == 0:
			f.count++
		case c == '`' && f.mark == '`': // not a fence but code within a line
			*f = fence{}
		default:
			f.marks = -1
		}
		return 0, true
	}
	return f.inside(c, at+size), true
}

// opening detects the marks that open a fence: at least three equal marks at the beginning of a
// line. Its results are those of next.
func (f *fence) opening(c rune, at int, fresh bool) (end int, inside bool) {
	switch {
	case c != '`' && c != '~':
		f.count = 0
	case f.count > 0 && c == f.mark:
		f.count++
	case fresh:
		f.mark, f.count, f.from = c, 1, at
	default:
		f.count = 0
	}

	if f.count < 3 {
		return 0, false
	}

	// A fence in the middle of a segment ends the segment before the fence.
	if f.from > 0 {
		return f.from, true
	}
	f.open, f.head, f.marks = true, true, 0
	return 0, true
}

// inside recognizes the line that closes the fence, and returns the line's end. It returns 0 for
// all other characters of the block. end is the offset after the character c.
//
// The closing line has at least as many marks as the opening line, and nothing else.
func (f *fence) inside(c rune, end int) int {
	switch {
	case c == '\n':
		if f.closes {
			return end
		}
		f.marks = 0
	case f.marks < 0:
	case c == f.mark:
		f.marks++
		f.closes = f.marks >= f.count
	case c != ' ' && c != '\t' && c != '\r', f.marks > 0 && !f.closes:
		f.marks, f.closes = -1, false
	}
	return 0
}
