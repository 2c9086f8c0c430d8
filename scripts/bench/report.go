package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"parley/scripts/bench/internal/process"
)

// report contains the results of one execution of the bench. It is printed and written as JSON.
type report struct {
	Setup      setup               `json:"setup"`
	Rows       []row               `json:"rows"`
	Statements []process.Statement `json:"statements,omitempty"`
}

// setup describes the machine and the servers.
type setup struct {
	Started    time.Time         `json:"startedAt"`
	Cores      int               `json:"cores"`
	System     string            `json:"system"` // operating system and architecture
	Go         string            `json:"go"`
	PostgreSQL string            `json:"postgresql"`
	NATS       string            `json:"nats"`
	Overrides  map[string]string `json:"overrides"` // Parley's settings that differ from their defaults
}

// row compares Parley's value of one measure with the floor's. For a measure without a floor, Floor
// is nil and Ratio is 0.
type row struct {
	Load    string  `json:"load"`
	Case    string  `json:"case"`
	Measure string  `json:"measure"`
	Floor   *figure `json:"floor,omitempty"`
	Parley  figure  `json:"parley"`
	Ratio   float64 `json:"ratio,omitempty"` // ratio of the medians
	Goal    *goal   `json:"goal,omitempty"`
}

// figure contains the values that a measure had in several rounds.
type figure struct {
	Median float64   `json:"median"`
	Rounds []float64 `json:"rounds"`
}

// goal is a bound from docs/performance.md. It applies to the ratio, to Parley's value, or to the
// difference between Parley's value and the floor's.
type goal struct {
	On      string  `json:"on"`
	AtLeast bool    `json:"atLeast"` // true: a lower bound; false: an upper bound
	Limit   float64 `json:"limit"`
	Met     bool    `json:"met"`
}

// ratioAtLeast, like the following functions, returns a goal. The goals of ratioAtLeast and
// ratioAtMost apply to the ratio. The goals of atLeast and atMost apply to Parley's value. The goal
// of addsAtMost applies to the difference.
func ratioAtLeast(limit float64) *goal { return &goal{On: "ratio", AtLeast: true, Limit: limit} }
func ratioAtMost(limit float64) *goal  { return &goal{On: "ratio", Limit: limit} }
func atLeast(limit float64) *goal      { return &goal{On: "value", AtLeast: true, Limit: limit} }
func atMost(limit float64) *goal       { return &goal{On: "value", Limit: limit} }
func addsAtMost(limit float64) *goal   { return &goal{On: "added", Limit: limit} }

// String returns the goal as the report's table shows it.
func (g *goal) String() string {
	sign, met := "≤", "missed"
	if g.AtLeast {
		sign = "≥"
	}
	if g.Met {
		met = "met"
	}
	return fmt.Sprintf("%s %s %g: %s", g.On, sign, g.Limit, met)
}

// add adds a row to the report. If there are no floor values, the row contains only Parley's values.
// If g is not nil, add records in g whether the goal is met.
func (s *loadEnv) add(name, measure string, floor, parley []float64, g *goal) {
	r := row{Load: s.load, Case: name, Measure: measure, Parley: newFigure(parley), Goal: g}
	var beside float64
	if len(floor) > 0 {
		f := newFigure(floor)
		r.Floor, beside = &f, f.Median
		if beside != 0 {
			r.Ratio = r.Parley.Median / beside
		}
	}
	if g != nil {
		value := map[string]float64{"ratio": r.Ratio, "value": r.Parley.Median, "added": r.Parley.Median - beside}[g.On]
		g.Met = g.AtLeast && value >= g.Limit || !g.AtLeast && value <= g.Limit
	}
	s.report.Rows = append(s.report.Rows, r)
}

// newFigure returns the figure of the values of several rounds.
func newFigure(rounds []float64) figure { return figure{Median: median(rounds), Rounds: rounds} }

// median returns the middle value, or the mean of the two middle values if their number is even.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	half := len(sorted) / 2
	switch {
	case len(sorted) == 0:
		return 0
	case len(sorted)%2 == 1:
		return sorted[half]
	}
	return (sorted[half-1] + sorted[half]) / 2
}

// writeJSON writes the report to a file. It creates the file's directory if necessary.
func (r *report) writeJSON(path string) error {
	raw, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o750)
	}
	if err == nil {
		err = os.WriteFile(path, append(raw, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("writing report: %w", err)
	}
	return nil
}

// writeText writes the report as text tables.
func (r *report) writeText(w io.Writer) error {
	s := r.Setup
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(out, "%d cores, %s, %s, PostgreSQL %s, nats-server %s\n", s.Cores, s.System, s.Go, s.PostgreSQL, s.NATS)
	var settings []string
	for _, name := range slices.Sorted(maps.Keys(s.Overrides)) {
		settings = append(settings, name+"="+s.Overrides[name])
	}

	fmt.Fprintf(out, "Parley's settings have their defaults, except %s\n\n", strings.Join(settings, ", "))
	fmt.Fprintln(out, "load\tcase\tmeasure\tfloor\tparley\tmin-max\tratio\tgoal")
	for _, row := range r.Rows {
		var floor, spread, ratio, goal string
		if row.Floor != nil {
			floor = number(row.Floor.Median)
		}
		if rounds := row.Parley.Rounds; len(rounds) > 1 {
			spread = number(slices.Min(rounds)) + "-" + number(slices.Max(rounds))
		}
		if row.Ratio != 0 {
			ratio = fmt.Sprintf("%.2f", row.Ratio)
		}
		if row.Goal != nil {
			goal = row.Goal.String()
		}
		cells := []string{row.Load, row.Case, row.Measure, floor, number(row.Parley.Median), spread, ratio, goal}
		fmt.Fprintln(out, strings.Join(cells, "\t"))
	}

	if len(r.Statements) > 0 {
		fmt.Fprintln(out, "\nload\ttotal ms\tcalls\trows\tWAL bytes\tstatement")
	}

	for _, st := range r.Statements {
		query := []rune(st.Query)
		fmt.Fprintf(out, "%s\t%.0f\t%d\t%d\t%d\t%s\n", st.Load, st.Millis, st.Calls, st.Rows, st.WAL, string(query[:min(len(query), 90)]))
	}

	if err := out.Flush(); err != nil {
		return fmt.Errorf("writing report: %w", err)
	}
	return nil
}

// number formats a value with at least three significant digits.
func number(v float64) string {
	digits := 3
	for limit := 1.0; limit <= 100 && v >= limit; limit *= 10 {
		digits--
	}
	return fmt.Sprintf("%.*f", digits, v)
}
