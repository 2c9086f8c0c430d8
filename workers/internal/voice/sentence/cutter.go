package sentence

import (
	"unicode"
	"unicode/utf8"
)

// Lengths in characters. A wide character counts as three characters, because it takes about three
// times as long to speak.
const (
	minFirstSentence = 8   // minimum length of the first segment if it ends with a sentence
	minFirstClause   = 60  // minimum length of the first segment if it ends with a clause
	enough           = 80  // minimum length of later segments that end with a sentence
	minLine          = 40  // minimum length of later segments that end with a line
	maxLength        = 300 // a longer segment ends at the best position found so far
	maxUnbroken      = 600 // a longer segment without any suitable position is divided anywhere
	minClause        = 40  // minimum length at which a segment that is too long ends with a clause
)

// Segment is a part of an answer that is synthesized in one call. The segments of an answer are
// consecutive, and together they contain all of its bytes.
type Segment struct {
	Start, End int    // byte offsets in the answer
	Text       string // the text to speak; "" if there is none
}

// Cutter splits an answer into segments. Create it with New.
//
// A Cutter belongs to one answer, and to the goroutine that receives the answer's pieces. It keeps
// only the text of the current segment.
type Cutter struct {
	start  int    // offset of the current segment
	text   []byte // text of the current segment that has arrived
	read   int    // number of bytes of text that have been examined
	reader segmentReader
}

// New returns a Cutter for an answer, or for the part of an answer that begins at the byte offset
// start. start must be 0 or the beginning of a segment. Only the first segment of the whole answer
// is short.
func New(start int) *Cutter {
	return &Cutter{start: start, reader: newSegmentReader(start == 0)}
}

// Write appends text to the answer and returns the segments that are now complete. text may end in
// the middle of a character. A segment is complete when the following text can no longer change its
// end.
func (c *Cutter) Write(text string) []Segment {
	c.text = append(c.text, text...)
	return c.look(false)
}

// Close ends the answer and returns the remaining segments. Write must not be called afterwards.
func (c *Cutter) Close() []Segment {
	done := c.look(true)
	if len(c.text) > 0 {
		done = append(done, c.cut(len(c.text)))
	}
	return done
}

// look examines the new text and returns the segments that are complete. last means that the answer
// has ended. Until then, a character whose bytes have not all arrived is not examined.
func (c *Cutter) look(last bool) []Segment {
	var done []Segment
	for c.read < len(c.text) && (last || utf8.FullRune(c.text[c.read:])) {
		r, size := utf8.DecodeRune(c.text[c.read:])
		end := c.reader.next(r, c.read, size)
		c.read += size
		if end > 0 {
			done = append(done, c.cut(end))
		}
	}
	return done
}

// cut ends the current segment at the given offset, relative to its start, and begins the next
// segment. The text after the offset is examined again, because the state depends only on the new
// segment.
func (c *Cutter) cut(end int) Segment {
	done := Segment{Start: c.start, End: c.start + end, Text: Speak(string(c.text[:end]))}
	c.start += end
	// Copy the rest, so that the memory of the finished segment can be freed.
	c.text = append([]byte(nil), c.text[end:]...)
	c.read, c.reader = 0, newSegmentReader(false)
	return done
}

// weight returns the number of characters for which a character counts: three for characters of
// Chinese, Japanese and Korean, and one for all others.
func weight(r rune) int {
	if r >= 0x1100 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul) {
		return 3
	}
	return 1
}
