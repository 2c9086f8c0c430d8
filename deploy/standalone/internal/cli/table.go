package cli

import (
	"strings"
	"text/tabwriter"
	"time"

	"parley/deploy/standalone/internal/console"
	"parley/shared/domain"
)

const stampLayout = "2006-01-02T15:04:05Z"

// table prints rows in columns; the first row names them.
func table(con *console.Console, rows [][]string) error {
	var out strings.Builder
	columns := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		_, _ = columns.Write([]byte(strings.Join(row, "\t") + "\n")) // memory takes all
	}
	_ = columns.Flush()
	for line := range strings.Lines(out.String()) {
		if err := con.Printf("%s\n", con.Cut(strings.TrimRight(line, " \n"))); err != nil {
			return err
		}
	}
	return nil
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
