package codeexec

import (
	"fmt"
	"unicode/utf8"
)

// noteReserve is the number of bytes reserved for the note in the middle of a truncated text.
const noteReserve = 48

// truncateMiddle truncates a text to at most maximum bytes as JSON, and reports whether the text
// was longer. A truncated text consists of the beginning and the end, with a note between them that
// states the number of omitted bytes. No character is divided.
func truncateMiddle(text string, maximum int) (short string, cut bool) {
	if weight(text) <= maximum {
		return text, false
	}

	room := maximum - noteReserve
	// The beginning shows the program's first output, and the end shows how the program ended.
	head := begins(text, room/2)
	tail := ends(text[head:], room/2)
	left := len(text) - head - tail
	return text[:head] + fmt.Sprintf("\n… %d bytes left out …\n", left) + text[len(text)-tail:], true
}

// weight returns the maximum number of bytes of a text as JSON, without quotes.
func weight(text string) (n int) {
	for at := 0; at < len(text); {
		r, width := utf8.DecodeRuneInString(text[at:])
		n, at = n+cost(r, width), at+width
	}
	return n
}

// begins returns the length of the longest prefix of a text for which the prefix has at most
// maximum bytes as JSON.
func begins(text string, maximum int) (n int) {
	for n < len(text) {
		r, width := utf8.DecodeRuneInString(text[n:])
		if maximum -= cost(r, width); maximum < 0 {
			return n
		}
		n += width
	}
	return n
}

// ends returns the length of the longest suffix of a text for which the suffix has at most maximum
// bytes as JSON.
func ends(text string, maximum int) (n int) {
	for n < len(text) {
		r, width := utf8.DecodeLastRuneInString(text[:len(text)-n])
		if maximum -= cost(r, width); maximum < 0 {
			return n
		}
		n += width
	}
	return n
}

// cost returns the maximum number of bytes of a character as JSON without HTML escapes.
func cost(r rune, width int) int {
	switch {
	case r == '"', r == '\\', r == '\n', r == '\r', r == '\t':
		return 2
	// An encoder may write a character of this kind as \uXXXX.
	case r < ' ', r == '\u2028', r == '\u2029', r == utf8.RuneError:
		return 6
	default:
		return width
	}
}
