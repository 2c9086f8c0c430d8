package cli

import (
	"strings"
	"time"
	"unicode/utf8"

	"parley/deploy/standalone/internal/console"
	"parley/shared/domain"
)

const (
	stampLayout = "2006-01-02T15:04:05Z"
	columnGap   = "  "
	leastText   = 20 // characters of the last column, a text, that are worth their line
)

// table prints rows in columns; the first row names them.
func table(con *console.Console, rows [][]string) error {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		if err := con.Printf("%s", folded(row, widths, con.Width())); err != nil {
			return err
		}
	}
	return nil
}

// folded sets a row in columns of these widths. Where a terminal has no room for all of them, those that are left stand
// beneath, so that none is lost; only the last column, a text, is cut first. No room: no terminal, and one line.
func folded(row []string, widths []int, room int) string {
	var out strings.Builder
	line := ""
	flush := func() {
		line = strings.TrimRight(line, " ")
		if room > 0 {
			line = console.Clip(line, room)
		}
		if line != "" {
			out.WriteString(line + "\n")
		}
	}
	used := 0 // of the line, with a column's whole width
	for i, cell := range row {
		needs := widths[i]
		if i == len(row)-1 {
			needs = min(needs, leastText)
		}
		if i > 0 && room > 0 && used+len(columnGap)+needs > room {
			flush()
			line, used = indent, len(indent)
		} else if i > 0 {
			line += columnGap
			used += len(columnGap)
		}
		cell = console.Clip(cell, widths[i])
		line += cell + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
		used += widths[i]
	}
	flush()
	return out.String()
}

// stamp shows an instant in UTC, whole seconds.
func stamp(at *domain.Time, none string) string {
	if at == nil {
		return none
	}
	return at.UTC().Format(stampLayout)
}

// took is how long something lasted, in words as short as they can be.
func took(from, to *domain.Time) string {
	if from == nil || to == nil {
		return "-"
	}
	lasted := to.Sub(from.Time)
	if lasted < time.Second {
		return lasted.Round(time.Millisecond).String()
	}
	return lasted.Round(100 * time.Millisecond).String()
}

func or(text, none string) string {
	if text == "" {
		return none
	}
	return console.OneLine(text)
}
