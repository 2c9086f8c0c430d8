package sentence

// fence is a block of code between lines of back quotes or tildes, which is a segment of its own.
type fence struct {
	mark   rune
	count  int // marks that open it
	from   int // the byte they begin at
	open   bool
	head   bool // its first line, which may say that it is none
	marks  int  // of a line inside that may close it: -1 if it cannot
	closes bool
}

// next takes a character; fresh tells that nothing but white space was read of its line. It gives where the segment ends,
// and whether the character is a fence's.
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
		case c == '`' && f.mark == '`': // code within a line
			*f = fence{}
		default:
			f.marks = -1
		}
		return 0, true
	}
	return f.inside(c, at+size), true
}

// opening looks for the marks that open a fence.
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
	if f.from > 0 {
		return f.from, true
	}
	f.open, f.head, f.marks = true, true, 0
	return 0, true
}

// inside looks for the line that closes the fence; end is behind the character.
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
