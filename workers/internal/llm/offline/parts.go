package offline

import (
	"iter"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"parley/shared/domain"
)

// cellEnd separates the cells of a table in the text of a document.
const cellEnd = " | "

// maxHeading is the maximum length of a heading in characters.
const maxHeading = 100

// part is a sentence of a text, or a row of a table.
type part struct {
	text    string
	heading bool   // a heading, or the header of a table
	header  string // for a row: the header of its table; empty: unknown
}

// numbered matches the number of a section.
var numbered = regexp.MustCompile(`^\d+(?:\.\d+)*\.? `)

// parts returns the sentences of a text, in order.
func parts(text string) iter.Seq[part] {
	return func(yield func(part) bool) {
		header, table, blank := "", false, true // blank: an empty line or nothing precedes the sentence
		for rest := text; rest != ""; {
			p, all := part{}, rest
			if p.text, rest = cutSentence(rest); p.text == "" {
				continue
			}

			first, isRow := strings.TrimSpace(text[:len(text)-len(all)]) == "", strings.Contains(p.text, cellEnd)
			_, after, _ := strings.Cut(all, p.text)
			before := blank
			blank = strings.HasPrefix(strings.TrimLeft(after, " \t\r"), "\n\n")
			switch next, _ := cutSentence(rest); {
			case isRow && !table && isHeader(p.text, next, first):
				header, p.heading = p.text, true
			case isRow && !table:
				header = ""
			case isRow:
				p.header = header
			default:
				p.heading = before && blank && next != "" && isHeading(p.text, first)
			}
			if table = isRow; !yield(p) {
				return
			}
		}
	}
}

// onlyHeadings reports whether a text contains no sentence.
func onlyHeadings(text string) bool {
	for p := range parts(text) {
		if !p.heading {
			return false
		}
	}
	return true
}

// isHeading reports whether a paragraph is a heading: a short line without a full stop. first is
// true for the first sentence of a text. Except in this sentence and in the number of a section, a
// heading contains no digits, because other short lines with digits are facts.
func isHeading(text string, first bool) bool {
	last, _ := utf8.DecodeLastRuneInString(text)
	ends := unicode.IsLetter(last) || unicode.IsDigit(last) || unicode.IsMark(last) || strings.ContainsRune(")?？", last)
	fact := strings.Contains(text, ": ") || !first && strings.ContainsFunc(numbered.ReplaceAllString(text, ""), unicode.IsDigit)
	return ends && !fact && utf8.RuneCountInString(text) <= maxHeading
}

// isHeader reports whether the first row of a table contains the names of the columns. next is the
// second row. A passage may begin in the middle of a table. Therefore, a row at the beginning of a
// passage is a header only if it has fewer cells with digits than the next row.
func isHeader(row, next string, beginning bool) bool {
	return strings.Contains(next, cellEnd) && strings.Count(row, cellEnd) >= strings.Count(next, cellEnd) &&
		(!beginning || numbersIn(row) < numbersIn(next))
}

// numbersIn returns the number of cells with digits.
func numbersIn(row string) (n int) {
	for cell := range strings.SplitSeq(row, cellEnd) {
		if strings.ContainsFunc(cell, unicode.IsDigit) {
			n++
		}
	}
	return n
}

// spoken returns the part as a sentence. In a row, each cell after the first follows the name of
// its column: "Express – Price: 12.90; Days: 1."
func (p part) spoken() string {
	cells, names := strings.Split(p.text, cellEnd), strings.Split(p.header, cellEnd)
	switch {
	case len(cells) == 1:
		return p.text
	case len(cells) > len(names): // the header is unknown; a row may lack its last cells
		return strings.TrimRight(strings.Join(cells, ", "), ".") + "."
	}
	values := make([]string, 0, len(cells))
	for i, cell := range cells[1:] {
		if cell = strings.TrimSpace(cell); cell != "" {
			values = append(values, strings.TrimSpace(names[i+1])+": "+cell)
		}
	}
	return cells[0] + " – " + strings.TrimRight(strings.Join(values, "; "), ".") + "."
}

// pointsOfSource is the maximum number of sentences that points returns.
const pointsOfSource = 3

// points returns a list with an item for each of the first sections of a source: the section's
// heading, its first sentence and the source's marker. If the source has no headings, points
// returns its first sentence.
func points(s domain.Citation) string {
	var lines []string
	heading := ""
	for p := range parts(s.CitedText) {
		text := withoutMarkers(p.spoken())
		switch {
		case p.heading && !strings.Contains(p.text, cellEnd):
			heading = strings.ReplaceAll(text, "*", "")
			continue
		case p.heading || text == "" || len(lines) > 0 && heading == "":
			continue
		case strings.HasSuffix(heading, "?"):
			text = heading + " " + text
		case heading != "":
			text = heading + ": " + text
		}
		lines, heading = append(lines, "- "+excerpt(text, quotedText)+" "+mark(s.ID, exact(p.text))), ""
		if len(lines) == pointsOfSource {
			break
		}
	}
	return strings.Join(lines, "\n")
}
