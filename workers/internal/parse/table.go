package parse

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// value matches numbers, dates and amounts, which do not occur in header rows.
var value = regexp.MustCompile(`^[\p{Sc}+(-]{0,3}\s?[0-9][0-9.,:/\-\sT%Z)+]*(?:\s?[\p{Sc}%])?$`)

// NamesColumns reports whether cells look like a header row. The texts in a header row are short
// and different, and contain no numbers. At least two thirds of the columns must have a text. The
// argument columns is the number of columns of the table.
func NamesColumns(cells []string, columns int) bool {
	seen := map[string]bool{}
	for _, c := range cells {
		c = strings.ToLower(strings.TrimSpace(c))
		if c == "" {
			continue
		}

		// A row of data often repeats a value or contains a number, but a header row does not.
		if seen[c] || value.MatchString(c) && !year(c) || utf8.RuneCountInString(c) > 80 {
			return false
		}
		seen[c] = true
	}
	return len(seen) > 0 && len(seen)*3 >= columns*2
}

// year reports whether a cell is a year. A year may be the name of a column, although it is a
// number.
func year(c string) bool { return len(c) == 4 && (c[:2] == "19" || c[:2] == "20") }

// Filled returns the number of cells that contain text.
func Filled(cells []string) int {
	n := 0
	for _, c := range cells {
		if strings.TrimSpace(c) != "" {
			n++
		}
	}
	return n
}
