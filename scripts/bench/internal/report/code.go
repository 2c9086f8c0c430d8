package report

import (
	"fmt"
	"strings"
)

// CodeSide is how long a call takes, in milliseconds; in a report also the median of several rounds, figure by figure.
type CodeSide struct {
	P50 float64 `json:"p50Ms"`
	P99 float64 `json:"p99Ms"`
	Max float64 `json:"maxMs"`
}

// CodeFigures are one side's.
type CodeFigures struct {
	Median CodeSide   `json:"median"`
	Rounds []CodeSide `json:"rounds"`
}

// Code is calls of codeExecution, from the request on the bus to its whole answer, beside a bare bubblewrap with Python up to its
// first output (floor): with no sandbox kept ready (cold) and as it is set up by default (warm).
type Code struct {
	Calls       int         `json:"calls"` // of each side in a round
	Rounds      int         `json:"rounds"`
	PauseMillis float64     `json:"pauseMs"` // between two calls
	Floor       CodeFigures `json:"floor"`
	Cold        CodeFigures `json:"cold"`
	Warm        CodeFigures `json:"warm"`
}

// Compare takes the medians of the rounds.
func (c *Code) Compare() {
	for _, side := range []*CodeFigures{&c.Floor, &c.Cold, &c.Warm} {
		of := func(f func(CodeSide) float64) float64 { return middle(figures(side.Rounds, f)) }
		side.Median = CodeSide{
			P50: of(func(r CodeSide) float64 { return r.P50 }),
			P99: of(func(r CodeSide) float64 { return r.P99 }),
			Max: of(func(r CodeSide) float64 { return r.Max }),
		}
	}
}

func (c *Code) goals() []Goal {
	return []Goal{
		{Clients: 1, Measure: "code, cold p50 / bare bwrap", Value: ratio(c.Cold.Median.P50, c.Floor.Median.P50), Limit: 1.2},
		{Clients: 1, Measure: "code, warm p50, ms", Value: c.Warm.Median.P50, Limit: 10},
	}
}

func (c *Code) write(b *strings.Builder) {
	fmt.Fprintf(b, "codeExecution of one print, over the bus to its answer, beside a bare bwrap … python3 -c to its first output (floor)\n")
	fmt.Fprintf(b, "medians of %d rounds of %d calls, %g ms between two calls, the sides in turn\n\n", c.Rounds, c.Calls, c.PauseMillis)
	out := grid{{"side", "p50 ms", "p99 ms", "max ms", "p50 / floor"}}
	for _, side := range []struct {
		name string
		f    CodeFigures
	}{{Floor, c.Floor}, {"cold", c.Cold}, {"warm", c.Warm}} {
		m := side.f.Median
		out = append(out, []string{
			side.name, fmt.Sprintf("%.1f", m.P50), fmt.Sprintf("%.1f", m.P99), fmt.Sprintf("%.1f", m.Max),
			fmt.Sprintf("%.2f", ratio(m.P50, c.Floor.Median.P50)),
		})
	}
	out.write(b)
}
