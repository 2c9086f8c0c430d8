package report

import (
	"fmt"
	"strings"
)

// steadyTail is the goal of the performance page, of the p99.9 over the p50.
const steadyTail = 10

// Steady is run-automation by arrivals at a share of the peak (open loop), each answered as expected. Latency counts from when
// a request was due.
type Steady struct {
	Clients int     `json:"clients"` // of the closed loop whose throughput is the peak
	Peak    Round   `json:"peak"`
	Share   float64 `json:"share"`
	Seed    uint64  `json:"seed"` // of the gaps between arrivals
	Seconds float64 `json:"seconds"`

	Offered  float64 `json:"offeredPerSecond"`
	Round    Round   `json:"round"`
	P999     float64 `json:"p999Ms"`
	InFlight int     `json:"inFlight"`  // the most at a time
	LateP99  float64 `json:"lateP99Ms"` // how long after it was due the client turned to a request
	LateMax  float64 `json:"lateMaxMs"`
}

// AddSteady adds what arrivals found.
func (r *Report) AddSteady(s *Steady) {
	r.Steady = s
	r.judge()
}

func (s *Steady) goals() []Goal {
	return []Goal{{
		Clients: s.Clients, Measure: fmt.Sprintf("p99.9 / p50 at %.3g %% of the peak", 100*s.Share),
		Value: ratio(s.P999, s.Round.P50), Limit: steadyTail,
	}}
}

func (s *Steady) write(b *strings.Builder) {
	fmt.Fprintf(b, "run-automation by arrivals at %.3g %% of the peak of %d clients for %g s (Poisson, seed %d), each answered as\n",
		100*s.Share, s.Clients, s.Seconds, s.Seed)
	b.WriteString("expected; latency counts from when a request was due (open), at the peak from when it was sent (closed)\n\n")
	open, closed := s.Round, s.Peak
	grid{
		{"loop", "offered/s", "answered/s", "p50 ms", "p99 ms", "p99.9 ms", "max ms", "in flight", "commits/run"},
		{
			"closed", "", fmt.Sprintf("%.0f", closed.RunsPerSecond), fmt.Sprintf("%.2f", closed.P50), fmt.Sprintf("%.2f", closed.P99), "",
			fmt.Sprintf("%.1f", closed.Max), fmt.Sprint(s.Clients), fmt.Sprintf("%.3f", closed.CommitsPerRun),
		},
		{
			"open", fmt.Sprintf("%.0f", s.Offered), fmt.Sprintf("%.0f", open.RunsPerSecond), fmt.Sprintf("%.2f", open.P50),
			fmt.Sprintf("%.2f", open.P99), fmt.Sprintf("%.2f", s.P999), fmt.Sprintf("%.1f", open.Max), fmt.Sprint(s.InFlight),
			fmt.Sprintf("%.3f", open.CommitsPerRun),
		},
	}.write(b)
	fmt.Fprintf(b, "\n(the client itself was late by %.2f ms at p99 and %.1f ms at most: its latencies have that in them",
		s.LateP99, s.LateMax)
	if open.Others > quiet {
		fmt.Fprintf(b, ";\nother processes took %.0f %% of the machine: measure again when it is quiet", 100*open.Others)
	}
	b.WriteString(")\n")
	s.writeCPU(b)
}

func (s *Steady) writeCPU(b *strings.Builder) {
	if s.Round.CPU == nil {
		return
	}
	b.WriteString("\nCPU time a run, µs (all processes of PostgreSQL together; client is the bench's own)\n\n")
	grid{
		append([]string{"loop"}, cpuTitles()...),
		append([]string{"closed"}, cpuCells(s.Peak.CPU)...),
		append([]string{"open"}, cpuCells(s.Round.CPU)...),
	}.write(b)
}
