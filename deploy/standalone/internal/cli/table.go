package cli

import (
	"strings"
	"time"
	"unicode/utf8"

	"parley/deploy/standalone/internal/console"
	"parley/shared/domain"
	"parley/shared/truncate"
)

// stampLayout is the format of times, and columnGap is the space between two columns.
const (
	stampLayout = "2006-01-02T15:04:05Z"
	columnGap   = "  "
	minText     = 20 // minimum width of the last column, in characters; the column is a text and may be truncated
)

// table prints rows in columns. The first row contains the headers. All rows must have the same
// number of cells, without newlines.
func table(con *console.Console, rows [][]string) error {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		if err := con.Printf("%s", foldRow(row, widths, con.Width())); err != nil {
			return err
		}
	}
	return nil
}

// foldRow formats a row in columns of the given widths. room is the width of the terminal, or 0 if
// the output is not a terminal. A column that does not fit continues on an indented line. The last
// column is truncated instead if at least minText characters of it fit. If room is 0, the row stays
// on one line.
func foldRow(row []string, widths []int, room int) string {
	var out strings.Builder
	line := ""
	flush := func() {
		line = strings.TrimRight(line, " ")
		if room > 0 {
			line = truncate.Ellipsis(line, room)
		}
		if line != "" {
			out.WriteString(line + "\n")
		}
	}

	used := 0 // used width of the line, including padding
	for i, cell := range row {
		needs := widths[i]
		if i == len(row)-1 {
			needs = min(needs, minText)
		}
		if i > 0 && room > 0 && used+len(columnGap)+needs > room {
			flush()
			line, used = indent, len(indent)
		} else if i > 0 {
			line += columnGap
			used += len(columnGap)
		}
		cell = truncate.Ellipsis(cell, widths[i])
		line += cell + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
		used += widths[i]
	}

	flush()
	return out.String()
}

// formatTime formats a time in UTC, in whole seconds. If the time is nil, it returns the text in
// the parameter none.
func formatTime(at *domain.Time, none string) string {
	if at == nil {
		return none
	}
	return at.UTC().Format(stampLayout)
}

// formatDuration formats the time between two times, such as "1m30s".
func formatDuration(from, to *domain.Time) string {
	if from == nil || to == nil {
		return "-"
	}
	lasted := to.Sub(from.Time)
	if lasted < time.Second {
		return lasted.Round(time.Millisecond).String()
	}
	return lasted.Round(100 * time.Millisecond).String()
}

// or returns the argument text without control characters. If text is empty, it returns the
// argument none.
func or(text, none string) string {
	if text == "" {
		return none
	}
	return console.OneLine(text)
}
