package report

import "fmt"

// Goal is one of the performance page's goals beside what was measured.
type Goal struct {
	Clients int     `json:"clients"`
	Measure string  `json:"measure"`
	Value   float64 `json:"value"`
	Limit   float64 `json:"limit"`
	AtLeast bool    `json:"atLeast"` // else the value is to be at most the limit
	Aim     float64 `json:"aim,omitempty"`
	Met     bool    `json:"met"`
}

// String is the goal as the page words it.
func (g Goal) String() string {
	sign := "≤"
	if g.AtLeast {
		sign = "≥"
	}
	text := fmt.Sprintf("%s %g", sign, g.Limit)
	if g.Aim != 0 {
		text += fmt.Sprintf(" (aim %g)", g.Aim)
	}
	return text
}

// Goals of many clients, and limits on commits, hold from a number of clients on: fewer clients leave less to group.
const (
	someClients, someCommits = 16, 0.3
	manyClients, fewCommits  = 128, 0.05
)

// judge holds what was measured against its goals.
func (r *Report) judge() {
	r.Goals = nil
	for i := range r.Levels {
		r.Goals = append(r.Goals, r.Levels[i].goals()...)
	}
	for _, part := range r.sections() {
		if part.measured {
			r.Goals = append(r.Goals, part.goals()...)
		}
	}
	for i, g := range r.Goals {
		r.Goals[i].Met = g.AtLeast == (g.Value >= g.Limit) || g.Value == g.Limit
	}
}

func (l *Level) goals() []Goal {
	var out []Goal
	add := func(g Goal) {
		g.Clients = l.Clients
		out = append(out, g)
	}
	if l.Ratios != nil && l.Clients == 1 {
		add(Goal{Measure: "p50, parley / floor", Value: l.Ratios.P50, Limit: 2})
	}
	if l.Ratios != nil && l.Clients >= someClients {
		add(Goal{Measure: "runs/s, parley / floor", Value: l.Ratios.Throughput, Limit: 0.5, AtLeast: true, Aim: 0.7})
		add(Goal{Measure: "p99, parley / floor", Value: l.Ratios.P99, Limit: 2})
	}
	if l.Parley != nil && l.Clients >= someClients {
		limit := someCommits
		if l.Clients >= manyClients {
			limit = fewCommits
		}
		add(Goal{Measure: "commits/run", Value: l.Parley.Median.CommitsPerRun, Limit: limit})
	}
	return out
}
