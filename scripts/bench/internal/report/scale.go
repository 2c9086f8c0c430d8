package report

import (
	"fmt"
	"slices"
	"strings"
)

// ScaleRound is one measurement of some worker processes; in a report also the median, the least and the most of several.
type ScaleRound struct {
	RunsPerSecond float64 `json:"runsPerSecond"`
	P50           float64 `json:"p50Ms"`
	P99           float64 `json:"p99Ms"`
	// Linear is RunsPerSecond over what the same round's fewest workers would come to if each carried as much as theirs.
	Linear float64 `json:"ofLinear"`
	// Busy is the share (0 to 1) of the machine's CPU time that was taken, by whatever process: at 1 the machine is the limit.
	Busy float64 `json:"busyShare"`
}

// ScaleLevel is a number of worker processes.
type ScaleLevel struct {
	Workers int          `json:"workers"`
	Clients int          `json:"clients"` // twice as many as the workers carry out at a time
	Median  ScaleRound   `json:"median"`
	Min     ScaleRound   `json:"min"`
	Max     ScaleRound   `json:"max"`
	Rounds  []ScaleRound `json:"rounds"`
}

// FloodRound is one organization's requests, alone and beside another's flood.
type FloodRound struct {
	AloneP50  float64 `json:"aloneP50Ms"`
	AloneP99  float64 `json:"aloneP99Ms"`
	BesideP50 float64 `json:"besideP50Ms"`
	BesideP99 float64 `json:"besideP99Ms"`
	P99       float64 `json:"p99Ratio"` // beside over alone
	// Quiet and Flooding are the runs a second of the two organizations when both are there.
	Quiet    float64 `json:"quietRunsPerSecond"`
	Flooding float64 `json:"floodRunsPerSecond"`
}

// Flood is one organization that asks a little, beside another that asks more than all workers can do.
type Flood struct {
	Workers  int          `json:"workers"`
	Window   int          `json:"window"` // runs of one organization that are dispatched at a time
	Clients  int          `json:"clients"`
	Flooding int          `json:"floodClients"`
	Median   FloodRound   `json:"median"`
	Min      FloodRound   `json:"min"`
	Max      FloodRound   `json:"max"`
	Rounds   []FloodRound `json:"rounds"`
}

// Scale is what more worker processes bring, with an agent whose model takes its time, and what organizations see of one another.
type Scale struct {
	Places int          `json:"places"` // runs that a worker carries out at a time
	Answer float64      `json:"answerMs"`
	Levels []ScaleLevel `json:"levels"`
	Flood  *Flood       `json:"flood,omitempty"`
}

const (
	scaleShare = 0.95 // of linear
	floodMost  = 2    // times the p99 alone
)

// AddScale adds what more workers bring.
func (r *Report) AddScale(s *Scale) {
	for i := range s.Levels {
		s.Levels[i].summarize()
	}
	if s.Flood != nil {
		s.Flood.summarize()
	}
	r.Scale = s
	r.judge()
}

// LinearOf fills in a round's share of linear growth, from the round with the fewest workers.
func (l *ScaleRound) LinearOf(workers int, fewest ScaleRound, fewestWorkers int) {
	l.Linear = ratio(l.RunsPerSecond/float64(workers), fewest.RunsPerSecond/float64(fewestWorkers))
}

func (l *ScaleLevel) summarize() {
	fold := func(pick func([]float64) float64) ScaleRound {
		of := picker(l.Rounds, pick)
		return ScaleRound{
			RunsPerSecond: of(func(r ScaleRound) float64 { return r.RunsPerSecond }),
			P50:           of(func(r ScaleRound) float64 { return r.P50 }),
			P99:           of(func(r ScaleRound) float64 { return r.P99 }),
			Linear:        of(func(r ScaleRound) float64 { return r.Linear }),
			Busy:          of(func(r ScaleRound) float64 { return r.Busy }),
		}
	}
	l.Median, l.Min, l.Max = fold(middle), fold(slices.Min), fold(slices.Max)
}

func (f *Flood) summarize() {
	fold := func(pick func([]float64) float64) FloodRound {
		of := picker(f.Rounds, pick)
		return FloodRound{
			AloneP50:  of(func(r FloodRound) float64 { return r.AloneP50 }),
			AloneP99:  of(func(r FloodRound) float64 { return r.AloneP99 }),
			BesideP50: of(func(r FloodRound) float64 { return r.BesideP50 }),
			BesideP99: of(func(r FloodRound) float64 { return r.BesideP99 }),
			P99:       of(func(r FloodRound) float64 { return r.P99 }),
			Quiet:     of(func(r FloodRound) float64 { return r.Quiet }),
			Flooding:  of(func(r FloodRound) float64 { return r.Flooding }),
		}
	}
	f.Median, f.Min, f.Max = fold(middle), fold(slices.Min), fold(slices.Max)
}

// picker folds one figure of all rounds.
func picker[R any](rounds []R, pick func([]float64) float64) func(func(R) float64) float64 {
	return func(figure func(R) float64) float64 {
		values := make([]float64, len(rounds))
		for i, r := range rounds {
			values[i] = figure(r)
		}
		return pick(values)
	}
}

func (s *Scale) goals() []Goal {
	var out []Goal
	if n := len(s.Levels); n > 1 {
		most := s.Levels[n-1]
		out = append(out, Goal{
			Clients: most.Clients, Measure: fmt.Sprintf("runs/s of %d workers, of linear", most.Workers), Value: most.Median.Linear,
			Limit: scaleShare, AtLeast: true,
		})
	}
	if f := s.Flood; f != nil {
		out = append(out, Goal{Clients: f.Clients, Measure: "p99 beside a flood / alone", Value: f.Median.P99, Limit: floodMost})
	}
	return out
}

func (s *Scale) write(b *strings.Builder) {
	fmt.Fprintf(b, "Worker processes behind one ingress, an agent whose model answers after %g ms, %d runs at a time in each worker\n",
		s.Answer, s.Places)
	b.WriteString("(with the model: as many at a time as these runs a second make; busy: what was taken of the machine's CPU time)\n\n")
	out := grid{{"workers", "clients", "runs/s", "min-max", "p50 ms", "p99 ms", "with the model", "busy", "of linear", "min-max"}}
	for _, l := range s.Levels {
		out = append(out, []string{
			fmt.Sprint(l.Workers), fmt.Sprint(l.Clients), fmt.Sprintf("%.1f", l.Median.RunsPerSecond),
			fmt.Sprintf("%.1f-%.1f", l.Min.RunsPerSecond, l.Max.RunsPerSecond), fmt.Sprintf("%.1f", l.Median.P50), fmt.Sprintf("%.1f", l.Median.P99),
			fmt.Sprintf("%.1f", l.Median.RunsPerSecond*s.Answer/1e3), fmt.Sprintf("%.0f %%", 100*l.Median.Busy),
			fmt.Sprintf("%.3f", l.Median.Linear), fmt.Sprintf("%.3f-%.3f", l.Min.Linear, l.Max.Linear),
		})
	}
	out.write(b)
	if s.Flood != nil {
		b.WriteString("\n")
		s.Flood.write(b)
	}
}

func (f *Flood) write(b *strings.Builder) {
	fmt.Fprintf(b, "One organization's %d clients alone, and beside %d clients of another; %d workers, at most %d runs of one\n",
		f.Clients, f.Flooding, f.Workers, f.Window)
	b.WriteString("organization are dispatched at a time\n\n")
	m := f.Median
	row := func(name, format string, p50, p99, least, most float64) []string {
		return []string{name, fmt.Sprintf(format, p50), fmt.Sprintf(format, p99), fmt.Sprintf(format+"-"+format, least, most)}
	}
	grid{
		{"", "p50 ms", "p99 ms", "min-max"},
		row("alone", "%.1f", m.AloneP50, m.AloneP99, f.Min.AloneP99, f.Max.AloneP99),
		row("beside", "%.1f", m.BesideP50, m.BesideP99, f.Min.BesideP99, f.Max.BesideP99),
		row("ratio", "%.2f", ratio(m.BesideP50, m.AloneP50), m.P99, f.Min.P99, f.Max.P99),
	}.write(b)
	fmt.Fprintf(b, "\nMeanwhile %.0f runs/s of the one and %.0f of the other\n", m.Quiet, m.Flooding)
}
