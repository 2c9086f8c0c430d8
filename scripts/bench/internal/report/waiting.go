package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// The processes and stages of a measurement of clients that wait.
const (
	Parked  = "parked"
	Ingress = "ingress"

	StageBefore  = "before"
	StageIdle    = "idle connections"
	StageWaiting = "waiting requests"
	StageStreams = "and open streams"
)

// Stage is the memory of a process at one point of a round, in bytes; in a report the median of several rounds.
type Stage struct {
	Process string `json:"process"`
	Stage   string `json:"stage"`
	Clients int    `json:"clients"` // whose share this stage tells
	Bytes   int64  `json:"bytes"`
	// Each is KiB for each of the clients: of idle connections and waiting requests what the process has grown since
	// before, of streams what it has grown since there were only waiting requests.
	Each float64 `json:"kibEach"`
}

// WaitingRound is one round: its stages in order, and how long after the model's answers the last client had its own.
type WaitingRound struct {
	Stages  []Stage `json:"stages"`
	Answers int     `json:"answers"` // right ones; one that is missing, wrong or doubled ends the measurement
	Seconds float64 `json:"answeredInSeconds"`
}

// Waiting is what clients that wait cost.
type Waiting struct {
	Waiters  int               `json:"waiters"`
	Streams  int               `json:"streams"`
	Settings map[string]string `json:"settings"` // that differ from the defaults
	Parked   []Stage           `json:"parked"`   // of the bare server; measured once, it hardly varies
	Median   WaitingRound      `json:"median"`
	Rounds   []WaitingRound    `json:"rounds"`
}

// NewWaiting takes the medians of rounds that have the same stages.
func NewWaiting(waiters, streams int, settings map[string]string, parked []Stage, rounds []WaitingRound) *Waiting {
	w := &Waiting{Waiters: waiters, Streams: streams, Settings: settings, Parked: compared(parked)}
	for _, r := range rounds {
		r.Stages = compared(r.Stages)
		w.Rounds = append(w.Rounds, r)
	}
	of := func(f func(WaitingRound) float64) float64 { return middle(figures(w.Rounds, f)) }
	w.Median = WaitingRound{Answers: w.Rounds[0].Answers, Seconds: of(func(r WaitingRound) float64 { return r.Seconds })}
	for i, s := range w.Rounds[0].Stages {
		s.Bytes = int64(of(func(r WaitingRound) float64 { return float64(r.Stages[i].Bytes) }))
		s.Each = of(func(r WaitingRound) float64 { return r.Stages[i].Each })
		w.Median.Stages = append(w.Median.Stages, s)
	}
	return w
}

// compared gives the stages of a process with each one's share.
func compared(stages []Stage) []Stage {
	out := slices.Clone(stages)
	var before, waiting int64
	for i, s := range out {
		base := before
		switch s.Stage {
		case StageBefore:
			before = s.Bytes
			continue
		case StageWaiting:
			waiting = s.Bytes
		case StageStreams:
			base = waiting
		}
		out[i].Each = float64(s.Bytes-base) / float64(max(s.Clients, 1)) / (1 << 10)
	}
	return out
}

// perClient is the goal of the performance page, in KiB.
const perClient = 20

func (w *Waiting) goals() []Goal {
	var out []Goal
	for _, s := range w.Median.Stages {
		if s.Process == Ingress && (s.Stage == StageWaiting || s.Stage == StageStreams) {
			name := "KiB a waiting request"
			if s.Stage == StageStreams {
				name = "KiB an open stream"
			}
			out = append(out, Goal{Clients: s.Clients, Measure: name, Value: s.Each, Limit: perClient})
		}
	}
	return out
}

func (w *Waiting) write(b *strings.Builder) {
	fmt.Fprintf(b, "%d waiting requests, then %d open streams besides, at one ingress: memory it has filled, medians of %d rounds\n",
		w.Waiters, w.Streams, len(w.Rounds))
	fmt.Fprintf(b, "(parked: requests of the same shape, each parked in a handler of a bare gin server)\n")
	var settings []string
	for _, name := range slices.Sorted(maps.Keys(w.Settings)) {
		settings = append(settings, name+"="+w.Settings[name])
	}
	fmt.Fprintf(b, "Parley's settings are the defaults but for %s\n\n", strings.Join(settings, ", "))
	w.stages().write(b)
	fmt.Fprintf(b, "\nThen the model answered: %d clients had each its own answer once, the last one %.1f s later\n",
		w.Median.Answers, w.Median.Seconds)
}

func (w *Waiting) stages() grid {
	out := grid{{"process", "clients", "stage", "MiB", "KiB each", "min-max"}}
	for _, s := range w.Parked {
		out = append(out, s.row(""))
	}
	for i, s := range w.Median.Stages {
		least, most := s.Each, s.Each
		for _, r := range w.Rounds {
			least, most = min(least, r.Stages[i].Each), max(most, r.Stages[i].Each)
		}
		out = append(out, s.row(fmt.Sprintf("%.1f-%.1f", least, most)))
	}
	return out
}

func (s Stage) row(spread string) []string {
	row := []string{s.Process, fmt.Sprint(s.Clients), s.Stage, fmt.Sprintf("%.1f", float64(s.Bytes)/(1<<20)), "", ""}
	if s.Stage != StageBefore {
		row[4], row[5] = fmt.Sprintf("%.1f", s.Each), spread
	}
	return row
}
