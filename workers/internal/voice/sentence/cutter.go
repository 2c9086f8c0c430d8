package sentence

import (
	"unicode"
	"unicode/utf8"
)

// Lengths in characters; those that are as wide as two count for three, as they take as long to say.
const (
	firstSentence = 8   // of the answer's first segment, to end with a sentence
	firstClause   = 60  // or with a clause
	enough        = 80  // of the others, to end with a sentence
	enoughLine    = 40  // or with a line
	longest       = 300 // then it ends where it best can
	longestWord   = 600 // or anywhere, when there is no such place
	clauseLeast   = 40  // of a segment that is too long, to end with a clause
)

// Segment is a part of an answer that is said at once.
type Segment struct {
	Start, End int    // bytes of the answer
	Text       string // what is said; "" where nothing is
}

// Cutter cuts an answer into segments. Make it with New.
type Cutter struct {
	start   int    // of the segment that is being read
	text    []byte // of it, as far as it came
	read    int    // bytes of text that were looked at
	reading reading
}

// New makes a cutter of an answer's text from the byte start on, which is 0 or where a segment begins.
func New(start int) *Cutter {
	return &Cutter{start: start, reading: newReading(start == 0)}
}

// Write takes more of the answer, and gives the segments that are complete.
func (c *Cutter) Write(text string) []Segment {
	c.text = append(c.text, text...)
	return c.look(false)
}

// Close gives the rest: the answer has ended.
func (c *Cutter) Close() []Segment {
	done := c.look(true)
	if len(c.text) > 0 {
		done = append(done, c.cut(len(c.text)))
	}
	return done
}

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

// cut ends the segment, and begins to read the next one.
func (c *Cutter) cut(end int) Segment {
	done := Segment{Start: c.start, End: c.start + end, Text: Speak(string(c.text[:end]))}
	c.start += end
	c.text = append([]byte(nil), c.text[end:]...)
	c.read, c.reading = 0, newReading(false)
	return done
}

// weight is how many characters a character counts for.
func weight(r rune) int {
	if r >= 0x1100 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul) {
		return 3
	}
	return 1
}
