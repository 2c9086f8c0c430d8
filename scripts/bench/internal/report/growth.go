package report

import (
	"fmt"
	"slices"
	"strings"
)

// Growth is what is measured with few finished runs and with many, the two in turn.
type Growth struct {
	Small         int          `json:"small"`         // finished runs on the one side, all of one organization, which has as many on the other
	Organizations int          `json:"organizations"` // on the other side, each with an agent
	Sizes         []GrowthSize `json:"sizes"`
	Erasing       *Erasing     `json:"erasing,omitempty"`
}

// GrowthSize is what was measured with so many finished runs beside the few.
type GrowthSize struct {
	Runs    int            `json:"runs"`
	Figures []GrowthFigure `json:"figures"`
	Others  float64        `json:"othersShare"` // the most of the machine that others had in a round
}

// GrowthFigure is one figure on both sides, of a number of clients.
type GrowthFigure struct {
	What    string    `json:"what"`
	Clients int       `json:"clients"`
	Small   GrowthOne `json:"small"`
	Large   GrowthOne `json:"large"`
	Ratio   float64   `json:"ratio"` // large / small, of the medians
	Goal    bool      `json:"goal"`  // it is to be flat
}

// GrowthOne is the median of rounds.
type GrowthOne struct {
	Median float64   `json:"median"`
	Rounds []float64 `json:"rounds"`
}

// NewGrowthFigure compares the rounds of both sides.
func NewGrowthFigure(what string, clients int, small, large []float64, goal bool) GrowthFigure {
	f := GrowthFigure{What: what, Clients: clients, Goal: goal, Small: growthOne(small), Large: growthOne(large)}
	f.Ratio = ratio(f.Large.Median, f.Small.Median)
	return f
}

func growthOne(rounds []float64) GrowthOne {
	return GrowthOne{Median: middle(slices.Clone(rounds)), Rounds: rounds}
}

// Erasing is what run-automation is like while the sweeper erases runs whose retention is over, all at once.
type Erasing struct {
	Expired   int     `json:"expired"`
	Erased    int     `json:"erased"` // in those seconds of the rounds while, and between them
	Seconds   float64 `json:"seconds"`
	PerSecond float64 `json:"erasedPerSecond"`
	Left      int     `json:"left"` // when measuring ended
	Clients   int     `json:"clients"`
	Before    Figures `json:"before"` // with all of them there and no sweeper
	While     Figures `json:"while"`
	After     Figures `json:"after"`
}

// Compare takes the medians.
func (e *Erasing) Compare() {
	e.PerSecond = ratio(float64(e.Erased), e.Seconds)
	for _, f := range []*Figures{&e.Before, &e.While, &e.After} {
		f.Median = fold(f.Rounds, middle)
	}
}

// Goals: of what is to be flat, and of what callers may notice of erasing. The page sets none for the latter.
const (
	flat         = 1.15
	whileErasing = 1.5
)

// AddGrowth adds what runs cost where there were many.
func (r *Report) AddGrowth(g *Growth) {
	r.Growth = g
	r.judge()
}

func (g *Growth) goals() []Goal {
	var out []Goal
	for _, size := range g.Sizes {
		for _, f := range size.Figures {
			if f.Goal {
				measure := fmt.Sprintf("%s, with %d runs / with %d", f.What, size.Runs, g.Small)
				out = append(out, Goal{Clients: f.Clients, Measure: measure, Value: f.Ratio, Limit: flat})
			}
		}
	}
	if e := g.Erasing; e != nil {
		out = append(out, Goal{
			Clients: e.Clients, Measure: "p99 while runs are erased / before", Limit: whileErasing,
			Value: ratio(e.While.Median.P99, e.Before.Median.P99),
		})
	}
	return out
}

func (g *Growth) write(b *strings.Builder) {
	fmt.Fprintf(b, "Growth: a database with %d finished runs of one organization, and one with more, of %d organizations with an\n",
		g.Small, g.Organizations)
	b.WriteString("agent each; both on one PostgreSQL, each with an ingress and a worker, in turn; medians of the rounds\n")
	for _, size := range g.Sizes {
		fmt.Fprintf(b, "\nWith %d runs:\n\n", size.Runs)
		out := grid{{"clients", "measure", fmt.Sprint(g.Small), fmt.Sprint(size.Runs), "ratio"}}
		for _, f := range size.Figures {
			out = append(out, []string{
				fmt.Sprint(f.Clients), f.What, fmt.Sprintf("%.4g", f.Small.Median), fmt.Sprintf("%.4g", f.Large.Median), fmt.Sprintf("%.2f", f.Ratio),
			})
		}
		out.write(b)
		if size.Others > quiet {
			fmt.Fprintf(b, "Other processes took up to %.0f %% of the machine in a round: measure again when it is quiet\n", 100*size.Others)
		}
	}
	if g.Erasing != nil {
		b.WriteString("\n")
		g.Erasing.write(b)
	}
}

func (e *Erasing) write(b *strings.Builder) {
	fmt.Fprintf(b, "run-automation while %d of them expire at once: %.0f erased a second, %d left at the end\n\n",
		e.Expired, e.PerSecond, e.Left)
	out := grid{{"clients", "when", "rounds", "runs/s", "p50 ms", "p99 ms", "max ms"}}
	for _, f := range []struct {
		name    string
		figures Figures
	}{{"before", e.Before}, {"while", e.While}, {"after", e.After}} {
		m := f.figures.Median
		out = append(out, []string{
			fmt.Sprint(e.Clients), f.name, fmt.Sprint(len(f.figures.Rounds)), fmt.Sprintf("%.0f", m.RunsPerSecond), fmt.Sprintf("%.2f", m.P50),
			fmt.Sprintf("%.2f", m.P99), fmt.Sprintf("%.1f", m.Max),
		})
	}
	out.write(b)
}
