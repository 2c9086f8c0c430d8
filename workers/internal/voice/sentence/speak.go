package sentence

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Speak returns the text to speak of a part of an answer. It drops Markdown marks, citations, link
// targets, emojis and blocks of code. The result is "" if nothing is left.
func Speak(markdown string) string {
	lines := strings.Split(markdown, "\n")
	if opensFence(lines[0]) {
		return ""
	}

	var out strings.Builder
	broke := false // the previous line stands alone
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

func opensFence(line string) bool {
	line = strings.TrimSpace(line)
	return strings.HasPrefix(line, "~~~") || strings.HasPrefix(line, "```") && !strings.Contains(strings.TrimLeft(line, "`"), "`")
}

// between returns the separator of two lines. It ends the first one with a full stop if they do not
// belong together.
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

// unmark removes the marks at the start of a line, and reports whether the line stands alone: a
// heading, or an item of a list or table.
func unmark(line string) (text string, own bool) {
	line = strings.TrimSpace(line)
	for strings.HasPrefix(line, ">") {
		line = strings.TrimSpace(line[1:])
	}
	if strings.Trim(line, "-=*_|:+ \t") == "" {
		return "", true // a rule, or the line below a table's header
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

// cells returns a table's row as a comma-separated list.
func cells(row string) string {
	var filled []string
	for cell := range strings.SplitSeq(strings.ReplaceAll(row, `\|`, "/"), "|") {
		if cell = strings.TrimSpace(cell); cell != "" {
			filled = append(filled, cell)
		}
	}
	return strings.Join(filled, ", ")
}
