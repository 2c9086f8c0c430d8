package httpx

import (
	"fmt"
	"unicode/utf16"
	"unicode/utf8"

	"parley/shared/apierr"
)

// The methods in this file check that a text follows the grammar of JSON (RFC 8259). They do not
// depend on the Go types of values.

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// down enters an object or a list. At the end of the object or list, the methods member and element
// leave it. Too many levels are an error, because the decoder is recursive.
func (d *Decoder) down() *apierr.Field {
	d.pos++
	d.depth++
	if d.depth > maxDepth {
		return &apierr.Field{Field: BodyPath, Code: CodeTooDeep, Message: fmt.Sprintf("is nested more than %d levels deep", maxDepth)}
	}
	return nil
}

// member scans the name of an object's next member, up to the value. At the end of the object, more
// is false. name is valid until the next string is scanned.
func (d *Decoder) member(first bool) (name []byte, more bool, err *apierr.Field) {
	c := d.peek()
	if c == '}' {
		d.pos++
		d.depth--
		return nil, false, nil
	}
	if !first {
		if c != ',' {
			return nil, false, d.syntax("expected a comma or the end of the object")
		}
		d.pos++
		c = d.peek()
	}

	if c != '"' {
		return nil, false, d.syntax("expected a quoted name")
	}
	if name, err = d.text(); err != nil {
		return nil, false, err
	}

	if d.peek() != ':' {
		return nil, false, d.syntax("expected a colon")
	}

	d.pos++
	return name, true, nil
}

// element scans up to the next value of a list. At the end of the list, more is false.
func (d *Decoder) element(first bool) (more bool, err *apierr.Field) {
	c := d.peek()
	switch {
	case c == ']':
		d.pos++
		d.depth--
		return false, nil
	case first:
		return true, nil
	case c != ',':
		return false, d.syntax("expected a comma or the end of the list")
	}

	d.pos++
	if d.peek() == ']' {
		return false, d.syntax("unexpected comma before the end of the list")
	}
	return true, nil
}

// skip scans one value of any type. It checks only the syntax and that names are unique. It needs
// memory only for the names in objects.
func (d *Decoder) skip() *apierr.Field {
	switch c := d.peek(); {
	case c == '"':
		_, err := d.text()
		return err
	case c == '{':
		return d.skipObject()
	case c == '[':
		return d.skipList()
	case c == 't':
		return d.literal("true")
	case c == 'f':
		return d.literal("false")
	case c == 'n':
		return d.literal("null")
	case c == '-' || isDigit(c):
		_, err := d.number()
		return err
	case d.pos >= len(d.Src):
		return d.syntax("unexpected end")
	default:
		return d.syntax("expected a value")
	}
}

// skipObject scans an object and adds problems for repeated names.
func (d *Decoder) skipObject() *apierr.Field {
	if err := d.down(); err != nil {
		return err
	}

	seen := map[string]bool{}
	for first := true; ; first = false {
		raw, more, err := d.member(first)
		if err != nil || !more {
			return err
		}
		name := string(raw)
		back := d.enter(name)
		if seen[name] {
			d.add(CodeDuplicate, "is given twice")
		}
		seen[name] = true
		if err := d.skip(); err != nil {
			return err
		}
		d.leave(back)
	}
}

// skipList skips a list.
func (d *Decoder) skipList() *apierr.Field {
	if err := d.down(); err != nil {
		return err
	}

	for i := 0; ; i++ {
		more, err := d.element(i == 0)
		if err != nil || !more {
			return err
		}
		back := d.enterIndex(i)
		if err := d.skip(); err != nil {
			return err
		}
		d.leave(back)
	}
}

// literal scans exactly the word true, false or null.
func (d *Decoder) literal(word string) *apierr.Field {
	end := d.pos + len(word)
	if end > len(d.Src) || string(d.Src[d.pos:end]) != word {
		return d.syntax("an unknown word")
	}
	d.pos = end
	return nil
}

// number scans a number and returns its text. The text is a part of Src.
func (d *Decoder) number() ([]byte, *apierr.Field) {
	start := d.pos
	if d.at('-') {
		d.pos++
	}
	if d.at('0') {
		d.pos++
	} else if !d.digits() {
		return nil, d.syntax("expected a digit")
	}

	if d.at('.') {
		d.pos++
		if !d.digits() {
			return nil, d.syntax("expected a digit")
		}
	}

	if d.at('e') || d.at('E') {
		d.pos++
		if d.at('+') || d.at('-') {
			d.pos++
		}
		if !d.digits() {
			return nil, d.syntax("expected a digit")
		}
	}

	return d.Src[start:d.pos], nil
}

// at reports whether the next byte is c. It does not skip white space.
func (d *Decoder) at(c byte) bool { return d.pos < len(d.Src) && d.Src[d.pos] == c }

// digits skips digits. It returns false if there are none.
func (d *Decoder) digits() bool {
	start := d.pos
	for d.pos < len(d.Src) && isDigit(d.Src[d.pos]) {
		d.pos++
	}
	return d.pos > start
}

// text scans a string and returns its content. The returned slice is valid until the next string is
// scanned.
func (d *Decoder) text() ([]byte, *apierr.Field) {
	d.pos++
	start := d.pos
	for ; d.pos < len(d.Src); d.pos++ {
		switch c := d.Src[d.pos]; {
		case c == '"':
			d.pos++
			return d.Src[start : d.pos-1], nil
		case c == '\\':
			return d.escapedText(start)
		case c < ' ':
			return nil, d.syntax("unexpected control character in a string")
		}
	}

	return nil, d.syntax("unterminated string")
}

// escapedText scans the rest of a string that contains a backslash, beginning at the first one.
// start is the offset of the string's content.
func (d *Decoder) escapedText(start int) ([]byte, *apierr.Field) {
	d.buf = append(d.buf[:0], d.Src[start:d.pos]...)
	for d.pos < len(d.Src) {
		c := d.Src[d.pos]
		switch {
		case c == '"':
			d.pos++
			return d.buf, nil
		case c < ' ':
			return nil, d.syntax("unexpected control character in a string")
		case c != '\\':
			d.buf = append(d.buf, c)
			d.pos++
		default:
			if err := d.escape(); err != nil {
				return nil, err
			}
		}
	}

	return nil, d.syntax("unterminated string")
}

// unescaped maps the second character of an escape sequence to the character that the sequence
// stands for. It omits u, because the method escape handles such sequences.
var unescaped = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// escape decodes the escape sequence at the current position and appends the character to d.buf.
func (d *Decoder) escape() *apierr.Field {
	if d.pos+1 >= len(d.Src) {
		return d.syntax("unterminated string")
	}

	c := d.Src[d.pos+1]
	if c != 'u' {
		if unescaped[c] == 0 {
			return d.syntax("unknown escape sequence in a string")
		}
		d.buf = append(d.buf, unescaped[c])
		d.pos += 2
		return nil
	}

	r, ok := d.hex(d.pos)
	if !ok {
		return d.syntax("incomplete \\u escape sequence in a string")
	}
	if r == 0 {
		d.add(CodeInvalidValue, "must not contain the character U+0000")
	}

	// A character outside the Basic Multilingual Plane is written as two escape sequences, a
	// surrogate pair.
	width := 6
	if utf16.IsSurrogate(r) {
		low, _ := d.hex(d.pos + width)
		if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
			r, width = pair, 12
		} else {
			// This is half of a surrogate pair, for example because a client has truncated a text.
			// It is rejected, because two different idempotency keys could become equal if it were
			// replaced by U+FFFD.
			d.add(CodeInvalidValue, "must not contain an unpaired surrogate")
			r = utf8.RuneError
		}
	}

	d.buf = utf8.AppendRune(d.buf, r)
	d.pos += width
	return nil
}

// hex decodes the escape sequence \uXXXX that begins at the offset at.
func (d *Decoder) hex(at int) (r rune, ok bool) {
	if at+6 > len(d.Src) || d.Src[at] != '\\' || d.Src[at+1] != 'u' {
		return 0, false
	}

	for _, c := range d.Src[at+2 : at+6] {
		switch {
		case isDigit(c):
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}

	return r, true
}
