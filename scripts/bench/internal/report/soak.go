package report

import (
	"fmt"
	"slices"
	"strings"
)

// Soak is what processes fill while a day's runs go through them as fast as they can.
type Soak struct {
	Runs      int            `json:"runs"` // asked for; some with keys that had been used
	Erased    int            `json:"erased"`
	Seconds   float64        `json:"seconds"`
	Kinds     map[string]int `json:"kinds"` // of what was asked
	Processes []SoakProcess  `json:"processes"`
}

// SoakProcess is a process's samples, in their order.
type SoakProcess struct {
	Process string       `json:"process"`
	Samples []SoakSample `json:"samples"`
}

// SoakSample is what a process has when so many runs are through.
type SoakSample struct {
	Done       int   `json:"done"`
	Bytes      int64 `json:"bytes"`
	Files      int   `json:"files"`
	Goroutines int   `json:"goroutines"`
}

const (
	soakGrowth  = 1.1
	soakAround  = 0.05 // samples so near to a share of the runs count for it: a heap goes up and down with each collection
	soakEarly   = 0.3
	soakLast    = 2.0 / 3
	runsOfSlope = 10_000
)

// at is the median of the samples around a share of all runs.
func (p SoakProcess) at(runs int, share float64) SoakSample {
	var bytes, files, goroutines []float64
	for _, s := range p.Samples {
		if done := float64(s.Done) / float64(runs); done >= share-soakAround && done <= share+soakAround {
			bytes, files, goroutines = append(bytes, float64(s.Bytes)), append(files, float64(s.Files)), append(goroutines, float64(s.Goroutines))
		}
	}
	return SoakSample{
		Done: int(share * float64(runs)), Bytes: int64(middle(bytes)), Files: int(middle(files)), Goroutines: int(middle(goroutines)),
	}
}

// slope is how many bytes it grows in so many runs, over the last third of all: the straight line with the least squares.
func (p SoakProcess) slope(runs int) float64 {
	last := slices.Clone(p.Samples)
	last = slices.DeleteFunc(last, func(s SoakSample) bool { return float64(s.Done) < soakLast*float64(runs) })
	var x, y, xx, xy float64
	for _, s := range last {
		at := float64(s.Done) / runsOfSlope
		x, y, xx, xy = x+at, y+float64(s.Bytes), xx+at*at, xy+at*float64(s.Bytes)
	}
	n := float64(len(last))
	return ratio(n*xy-x*y, n*xx-x*x)
}

// AddSoak adds what processes have filled.
func (r *Report) AddSoak(s *Soak) {
	r.Soak = s
	r.judge()
}

func (s *Soak) goals() []Goal {
	var out []Goal
	for _, p := range s.Processes {
		out = append(out, Goal{
			Measure: fmt.Sprintf("soak, memory of %s, at the end / at %.0f %%", p.Process, 100*soakEarly), Limit: soakGrowth,
			Value: ratio(float64(p.at(s.Runs, 1).Bytes), float64(p.at(s.Runs, soakEarly).Bytes)),
		})
	}
	return out
}

func (s *Soak) write(b *strings.Builder) {
	fmt.Fprintf(b, "Soak: %d requests in %.0f s; %d of their runs were erased meanwhile\n", s.Runs, s.Seconds, s.Erased)
	var kinds []string
	for kind, n := range s.Kinds {
		kinds = append(kinds, fmt.Sprintf("%s %d", kind, n))
	}
	slices.Sort(kinds)
	fmt.Fprintf(b, "(%s)\n\n", strings.Join(kinds, ", "))
	out := grid{{"process", "after", "MiB", "files", "goroutines"}}
	for _, p := range s.Processes {
		for _, share := range []float64{.1, soakEarly, .5, 1} {
			at := p.at(s.Runs, share)
			out = append(out, []string{
				p.Process, fmt.Sprintf("%.0f %%", 100*share), mebibytes(float64(at.Bytes)), fmt.Sprint(at.Files), fmt.Sprint(at.Goroutines),
			})
		}
	}
	out.write(b)
	b.WriteString("\n")
	for _, p := range s.Processes {
		fmt.Fprintf(b, "%s: %s MiB more with each %d of the last third\n", p.Process, mebibytes(p.slope(s.Runs)), runsOfSlope)
	}
}

func mebibytes(bytes float64) string { return fmt.Sprintf("%.2f", bytes/(1<<20)) }
