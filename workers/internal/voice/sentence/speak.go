package sentence

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Speak returns the text that is spoken for a part of an answer. It omits Markdown marks,
// citations, the targets of links, emojis and code blocks. The result may be "". The result is a
// single line, in which headings, list items and rows end with a full stop.
func Speak(markdown string) string {
	lines := strings.Split(markdown, "\n")
	if opensFence(lines[0]) {
		return ""
	}

	var out strings.Builder
	broke := false // true if the previous line is a heading, a list item or a row of a table
	for _, raw := range lines {
		line, own := unmark(raw)
		line = inline(line)
		if !strings.ContainsFunc(line, isSpoken) {
			broke = broke || strings.TrimSpace(raw) == ""
			continue
		}
		if out.Len() > 0 {
			first, _ := utf8.DecodeRuneInString(line)
			out.WriteString(between(out.String(), broke || own || !unicode.IsLower(first)))
		}
		out.WriteString(line)
		broke = own
	}
	return out.String()
}

// isSpoken reports whether a character is spoken.
func isSpoken(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }

// opensFence reports whether a line begins a code block. A line that also ends with backticks is
// inline code.
func opensFence(line string) bool {
	line = strings.TrimSpace(line)
	return strings.HasPrefix(line, "~~~") || strings.HasPrefix(line, "```") && !strings.Contains(strings.TrimLeft(line, "`"), "`")
}

// between returns the text between two lines. before is the text of the first line. If the lines do
// not belong together, between ends the first line with a full stop, in the form of its script.
func between(before string, apart bool) string {
	last, _ := utf8.DecodeLastRuneInString(strings.TrimRight(before, "\"'”’»)]"))
	switch {
	case !apart, isTerminal(last), strings.ContainsRune(",;:–—،؛、，；：", last):
		return " "
	case unicode.In(last, unicode.Han, unicode.Hiragana, unicode.Katakana):
		return "。"
	}
	return ". "
}

// unmark removes the marks at the beginning of a line: quotation, heading, bullet and check box.
// own reports that the line is a heading, or an item of a list or table, and is therefore spoken
// separately.
func unmark(line string) (text string, own bool) {
	line = strings.TrimSpace(line)
	for strings.HasPrefix(line, ">") {
		line = strings.TrimSpace(line[1:])
	}
	if strings.Trim(line, "-=*_|:+ \t") == "" {
		return "", true // a horizontal rule, or the line after a table's header
	}
	if rest := strings.TrimLeft(line, "#"); rest != line && (rest == "" || rest[0] == ' ') {
		return strings.TrimSpace(strings.TrimRight(rest, "#")), true
	}

	if strings.HasPrefix(line, "|") {
		return cells(line), true
	}

	first, size := utf8.DecodeRuneInString(line)
	if strings.ContainsRune("-*+•‣◦–", first) && strings.HasPrefix(line[size:], " ") {
		line = strings.TrimSpace(line[size:])
		for _, box := range []string{"[ ] ", "[x] ", "[X] "} {
			line = strings.TrimPrefix(line, box)
		}
		return line, true
	}

	// The number of an ordered item is spoken.
	digits := strings.TrimLeft(line, "0123456789")
	return line, digits != line && (strings.HasPrefix(digits, ". ") || strings.HasPrefix(digits, ") "))
}

// cells returns the cells of a table's row, separated by commas.
func cells(row string) string {
	var filled []string
	for cell := range strings.SplitSeq(strings.ReplaceAll(row, `\|`, "/"), "|") {
		if cell = strings.TrimSpace(cell); cell != "" {
			filled = append(filled, cell)
		}
	}
	return strings.Join(filled, ", ")
}
