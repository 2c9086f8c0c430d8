package sentence

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Speak gives what is said of a part of an answer: its words, without the marks of its Markdown, its citations, the targets
// of its links, its emojis, and blocks of code. It is "" when nothing is left.
func Speak(markdown string) string {
	lines := strings.Split(markdown, "\n")
	if opensFence(lines[0]) {
		return ""
	}
	var out strings.Builder
	broke := false // the line before is one of its own
	for _, raw := range lines {
		line, own := unmark(raw)
		line = inline(line)
		if !strings.ContainsFunc(line, said) {
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

func said(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }

func opensFence(line string) bool {
	line = strings.TrimSpace(line)
	return strings.HasPrefix(line, "~~~") || strings.HasPrefix(line, "```") && !strings.Contains(strings.TrimLeft(line, "`"), "`")
}

// between gives what is said between two lines: that the first one ends, when they do not belong together.
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

// unmark takes the marks of a line's beginning away, and tells whether it is a line of its own: a heading, of a list or a table.
func unmark(line string) (text string, own bool) {
	line = strings.TrimSpace(line)
	for strings.HasPrefix(line, ">") {
		line = strings.TrimSpace(line[1:])
	}
	if strings.Trim(line, "-=*_|:+ \t") == "" {
		return "", true // a rule, or the line below a table's head
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
	digits := strings.TrimLeft(line, "0123456789")
	return line, digits != line && (strings.HasPrefix(digits, ". ") || strings.HasPrefix(digits, ") "))
}

// cells gives a table's row as a list.
func cells(row string) string {
	var filled []string
	for cell := range strings.SplitSeq(strings.ReplaceAll(row, `\|`, "/"), "|") {
		if cell = strings.TrimSpace(cell); cell != "" {
			filled = append(filled, cell)
		}
	}
	return strings.Join(filled, ", ")
}
