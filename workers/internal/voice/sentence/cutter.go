package sentence

import (
	"unicode"
	"unicode/utf8"
)

// Lengths in characters. A wide character counts as three, because speaking it takes about three
// times as long.
const (
	minFirstSentence = 8   // minimum of the first segment to end with a sentence
	minFirstClause   = 60  // or with a clause
	enough           = 80  // minimum of later segments to end with a sentence
	minLine          = 40  // or with a line
	maxLength        = 300 // beyond this, a segment ends at the best possible end so far
	maxUnbroken      = 600 // beyond this, a segment without a possible end is divided anywhere
	minClause        = 40  // minimum of an overlong segment to end with a clause
)

// Segment is a part of an answer that is synthesized as a whole.
type Segment struct {
	Start, End int    // byte offsets in the answer
	Text       string // the text to speak; "" if there is none
}

// Cutter splits an answer into segments. Create it with New.
type Cutter struct {
	start   int    // offset of the current segment
	text    []byte // text of the current segment so far
	read    int    // bytes of text that were examined
	reading reading
}

// New creates a cutter for the part of an answer that begins at byte start. start must be 0 or the
// beginning of a segment.
func New(start int) *Cutter {
	return &Cutter{start: start, reading: newReading(start == 0)}
}

// Write appends text and returns the segments that are complete.
func (c *Cutter) Write(text string) []Segment {
	c.text = append(c.text, text...)
	return c.look(false)
}

// Close returns the remaining segments, at the end of the answer.
func (c *Cutter) Close() []Segment {
	done := c.look(true)
	if len(c.text) > 0 {
		done = append(done, c.cut(len(c.text)))
	}
	return done
}

// look reads the new text and returns the segments that are complete.
func (c *Cutter) look(last bool) []Segment {
	var done []Segment
	for c.read < len(c.text) && (last || utf8.FullRune(c.text[c.read:])) {
		r, size := utf8.DecodeRune(c.text[c.read:])
		end := c.reading.next(r, c.read, size)
		c.read += size
		if end > 0 {
			done = append(done, c.cut(end))
		}
	}
	return done
}

// cut ends the current segment at offset end and begins the next one.
func (c *Cutter) cut(end int) Segment {
	done := Segment{Start: c.start, End: c.start + end, Text: Speak(string(c.text[:end]))}
	c.start += end
	c.text = append([]byte(nil), c.text[end:]...)
	c.read, c.reading = 0, newReading(false)
	return done
}

// weight returns the length with which a character is counted.
func weight(r rune) int {
	if r >= 0x1100 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul) {
		return 3
	}
	return 1
}
