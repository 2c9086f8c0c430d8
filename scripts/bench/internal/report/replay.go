package report

import (
	"fmt"
	"strings"
)

// replayShare is the goal of the performance page, of the floor's requests a second.
const replayShare = 0.8

// AddReplay adds how fast requests are answered whose runs have ended before, beside a process that reads a row.
func (r *Report) AddReplay(samples []Sample) {
	var of Report
	of.AddSamples(samples)
	r.Replay = of.Levels
	r.judge()
}

func (r *Report) replayGoals() []Goal {
	var out []Goal
	for _, l := range r.Replay {
		if l.Ratios != nil {
			out = append(out, Goal{
				Clients: l.Clients, Measure: "replays/s, parley / floor", Value: l.Ratios.Throughput, Limit: replayShare, AtLeast: true,
			})
		}
	}
	return out
}

func (r *Report) writeReplay(b *strings.Builder) {
	b.WriteString("run-automation with keys whose runs have ended, beside a process that reads the answer by an index\n")
	b.WriteString("of PostgreSQL (floor); medians of the rounds\n\n")
	out := grid{{"clients", "side", "requests/s", "min-max", "p50 ms", "p99 ms", "commits each", "/ floor"}}
	for _, l := range r.Replay {
		for _, side := range l.sides() {
			m := side.figures.Median
			out = append(out, []string{
				fmt.Sprint(l.Clients), side.name, fmt.Sprintf("%.0f", m.RunsPerSecond), spread(side.figures.Rounds), fmt.Sprintf("%.2f", m.P50),
				fmt.Sprintf("%.2f", m.P99), fmt.Sprintf("%.3f", m.CommitsPerRun), side.share,
			})
		}
	}
	out.write(b)
	writeCPU(b, r.Replay, "a request")
	writeBytes(b, r.Replay, "a request")
}
