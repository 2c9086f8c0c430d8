package codeexec

import (
	"fmt"
	"unicode/utf8"
)

// forMark is room for the words between a text's beginning and its end.
const forMark = 48

// shorten gives a text that takes no more than most bytes as JSON: itself, or its beginning and its end, which says how many
// bytes are left out in between.
func shorten(text string, maximum int) (short string, cut bool) {
	if weight(text) <= maximum {
		return text, false
	}
	room := maximum - forMark
	head := begins(text, room/2)
	tail := ends(text[head:], room/2)
	left := len(text) - head - tail
	return text[:head] + fmt.Sprintf("\n… %d bytes left out …\n", left) + text[len(text)-tail:], true
}

// weight is how many bytes of JSON a text takes at most, its quotes not counted.
func weight(text string) (n int) {
	for at := 0; at < len(text); {
		r, width := utf8.DecodeRuneInString(text[at:])
		n, at = n+cost(r, width), at+width
	}
	return n
}

// begins gives how many bytes of a text's beginning take at most so many as JSON.
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

// ends gives how many bytes of a text's end take at most so many as JSON.
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

// cost is how many bytes of JSON a character takes at most, among texts that are not made for HTML.
func cost(r rune, width int) int {
	switch {
	case r == '"', r == '\\', r == '\n', r == '\r', r == '\t':
		return 2
	case r < ' ', r == '\u2028', r == '\u2029', r == utf8.RuneError:
		return 6
	default:
		return width
	}
}
