package report

import (
	"fmt"
	"strings"
)

// hooksEnough is from how many clients on deliveries a second are held against the floor's.
const hooksEnough = 16

// AddHooks adds how fast deliveries to hooks are accepted, beside a process that does no more than check and store them.
func (r *Report) AddHooks(samples []Sample) {
	var of Report
	of.AddSamples(samples)
	r.Hooks = of.Levels
	r.judge()
}

func (r *Report) hookGoals() []Goal {
	var out []Goal
	for _, l := range r.Hooks {
		if l.Ratios != nil && l.Clients >= hooksEnough {
			out = append(out, Goal{
				Clients: l.Clients, Measure: "signed deliveries/s, parley / floor", Value: l.Ratios.Throughput, Limit: 0.7, AtLeast: true,
			})
		}
	}
	return out
}

func (r *Report) writeHooks(b *strings.Builder) {
	b.WriteString("Signed deliveries to a hook, each accepted with a run (202), beside a process that checks\n")
	b.WriteString("the signature and inserts a row (floor); nothing carries the runs out meanwhile; medians of the rounds\n\n")
	out := grid{{"clients", "side", "deliveries/s", "p50 ms", "p99 ms", "commits each", "syncs each", "/ floor"}}
	for _, l := range r.Hooks {
		for _, side := range l.sides() {
			m := side.figures.Median
			out = append(out, []string{
				fmt.Sprint(l.Clients), side.name, fmt.Sprintf("%.0f", m.RunsPerSecond), fmt.Sprintf("%.2f", m.P50), fmt.Sprintf("%.2f", m.P99),
				fmt.Sprintf("%.3f", m.CommitsPerRun), fmt.Sprintf("%.3f", m.WALSyncsPerRun), side.share,
			})
		}
	}
	out.write(b)
	writeCPU(b, r.Hooks, "a delivery")
	writeBytes(b, r.Hooks, "a delivery")
}
