package report

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// The sides of a comparison.
const (
	Floor  = "floor"
	Parley = "parley"
)

// Round is one measurement of one side; in a report also the median, the least and the most of several, figure by figure.
type Round struct {
	Runs          int64   `json:"runs"` // answered in the measured time
	RunsPerSecond float64 `json:"runsPerSecond"`
	P50           float64 `json:"p50Ms"`
	P99           float64 `json:"p99Ms"`
	Mean          float64 `json:"meanMs"`
	Max           float64 `json:"maxMs"`
	CommitsPerRun float64 `json:"commitsPerRun"`
	// WALSyncsPerRun is how often PostgreSQL put its log on disk, all of it: other databases and its own processes included.
	WALSyncsPerRun float64 `json:"walSyncsPerRun"`
	// Bytes is what was allocated on the heap a run, by process, of those that tell.
	Bytes map[string]float64 `json:"bytesPerRun,omitempty"`
	// CPU is microseconds of CPU time a run, by process; postgres is all of its processes together.
	CPU map[string]float64 `json:"cpuMicrosPerRun,omitempty"`
	// Others is the share (0 to 1) of the machine's CPU time that went to none of these processes.
	Others float64 `json:"othersShare"`
}

// Sample is a round with what it is a round of.
type Sample struct {
	Side    string
	Clients int
	Round   Round
}

// Figures are one side's at one number of clients.
type Figures struct {
	Median Round   `json:"median"`
	Min    Round   `json:"min"`
	Max    Round   `json:"max"`
	Rounds []Round `json:"rounds"`
}

// Ratios are Parley's medians over the floor's.
type Ratios struct {
	Throughput float64 `json:"throughput"`
	P50        float64 `json:"p50"`
	P99        float64 `json:"p99"`
}

// Level is all that was measured at one number of clients. A side that was not measured is nil, and then so are the ratios.
type Level struct {
	Clients int      `json:"clients"`
	Floor   *Figures `json:"floor,omitempty"`
	Parley  *Figures `json:"parley,omitempty"`
	Ratios  *Ratios  `json:"ratios,omitempty"`
}

// Setup is what the figures were measured on and how.
type Setup struct {
	Started    time.Time         `json:"startedAt"`
	Cores      int               `json:"cores"`
	System     string            `json:"system"` // operating system and architecture
	Go         string            `json:"go"`
	PostgreSQL map[string]string `json:"postgresql"` // version and the settings that durability hangs on
	NATS       string            `json:"nats"`
	SyncMillis float64           `json:"syncMs"` // to write 8 KiB and have it on disk

	// Of run-automation.
	Overrides map[string]string `json:"overrides,omitempty"`
	Rounds    int               `json:"rounds,omitempty"`
	Seconds   float64           `json:"seconds,omitempty"`
	WarmUp    float64           `json:"warmUpSeconds,omitempty"`
	Stored    map[string]int64  `json:"stored,omitempty"` // rows found afterwards, by side: at least one for each answer
}

// Statement is what one of Parley's statements has cost PostgreSQL, over all numbers of clients.
type Statement struct {
	Database     string  `json:"database"` // which measurement's
	Query        string  `json:"query"`
	CallsPerRun  float64 `json:"callsPerRun"`
	MicrosPerRun float64 `json:"microsPerRun"` // planning and carrying out, waits included
	MeanMillis   float64 `json:"meanMs"`       // of a call
	RowsPerCall  float64 `json:"rowsPerCall"`
	WALPerRun    float64 `json:"walBytesPerRun"`
}

// Report is one run of the bench; what was not measured is missing.
type Report struct {
	Setup      Setup       `json:"setup"`
	Levels     []Level     `json:"levels,omitempty"`
	Waiting    *Waiting    `json:"waiting,omitempty"`
	FanOut     *FanOut     `json:"fanOut,omitempty"`
	Code       *Code       `json:"code,omitempty"`
	Documents  *Documents  `json:"documents,omitempty"`
	Retrieval  *Retrieval  `json:"retrieval,omitempty"`
	Voice      *Voice      `json:"voice,omitempty"`
	Hooks      []Level     `json:"hooks,omitempty"`
	Replay     []Level     `json:"replay,omitempty"`
	Steady     *Steady     `json:"steady,omitempty"`
	Scale      *Scale      `json:"scale,omitempty"`
	Growth     *Growth     `json:"growth,omitempty"`
	Soak       *Soak       `json:"soak,omitempty"`
	Goals      []Goal      `json:"goals"`
	Statements []Statement `json:"statements,omitempty"` // when they were asked for
}

// others is the largest share that other processes had of the machine in any round.
func (r *Report) others() float64 {
	most := 0.0
	for _, level := range r.Levels {
		for _, side := range []*Figures{level.Floor, level.Parley} {
			if side == nil {
				continue
			}
			for _, round := range side.Rounds {
				most = max(most, round.Others)
			}
		}
	}
	return most
}

// AddSamples groups the samples by number of clients.
func (r *Report) AddSamples(samples []Sample) {
	levels := map[int]*Level{}
	for _, s := range samples {
		level := levels[s.Clients]
		if level == nil {
			level = &Level{Clients: s.Clients}
			levels[s.Clients] = level
		}
		side := &level.Floor
		if s.Side == Parley {
			side = &level.Parley
		}
		if *side == nil {
			*side = &Figures{}
		}
		(*side).Rounds = append((*side).Rounds, s.Round)
	}
	for _, clients := range slices.Sorted(maps.Keys(levels)) {
		levels[clients].compare()
		r.Levels = append(r.Levels, *levels[clients])
	}
	r.judge()
}

// AddWaiting adds what clients that wait cost, and how fast streams are served; nil if that was not measured.
func (r *Report) AddWaiting(w *Waiting, fan *FanOut) {
	r.Waiting, r.FanOut = w, fan
	r.judge()
}

// AddCode adds what calls of codeExecution take.
func (r *Report) AddCode(c *Code) {
	r.Code = c
	r.judge()
}

// AddDocuments adds how fast documents are ingested and searched.
func (r *Report) AddDocuments(d *Documents) {
	r.Documents = d
	r.judge()
}

// AddVoice adds what conversations cost.
func (r *Report) AddVoice(v *Voice) {
	r.Voice = v
	r.judge()
}

// sideOf is one side of a level as tables show it; share is its part of the floor's throughput, empty for the floor.
type sideOf struct {
	name    string
	figures *Figures
	share   string
}

// sides are those that were measured.
func (l *Level) sides() (out []sideOf) {
	if l.Floor != nil {
		out = append(out, sideOf{name: Floor, figures: l.Floor})
	}
	if l.Parley != nil {
		share := ""
		if l.Ratios != nil {
			share = fmt.Sprintf("%.2f", l.Ratios.Throughput)
		}
		out = append(out, sideOf{Parley, l.Parley, share})
	}
	return out
}

func (l *Level) compare() {
	for _, side := range []*Figures{l.Floor, l.Parley} {
		if side != nil {
			side.Median, side.Min, side.Max = fold(side.Rounds, middle), fold(side.Rounds, slices.Min), fold(side.Rounds, slices.Max)
		}
	}
	if l.Floor == nil || l.Parley == nil {
		return
	}
	floor, parley := l.Floor.Median, l.Parley.Median
	l.Ratios = &Ratios{
		Throughput: ratio(parley.RunsPerSecond, floor.RunsPerSecond),
		P50:        ratio(parley.P50, floor.P50),
		P99:        ratio(parley.P99, floor.P99),
	}
}

// ratio is 0 when there is nothing to compare with.
func ratio(ours, floor float64) float64 {
	if floor == 0 {
		return 0
	}
	return ours / floor
}

// fold makes one round of several, each figure by itself: the round with the middle throughput need not have the middle p99.
func fold(rounds []Round, pick func([]float64) float64) Round {
	of := func(f func(Round) float64) float64 { return pick(figures(rounds, f)) }
	return Round{
		Runs:           int64(of(func(r Round) float64 { return float64(r.Runs) })),
		RunsPerSecond:  of(func(r Round) float64 { return r.RunsPerSecond }),
		P50:            of(func(r Round) float64 { return r.P50 }),
		P99:            of(func(r Round) float64 { return r.P99 }),
		Mean:           of(func(r Round) float64 { return r.Mean }),
		Max:            of(func(r Round) float64 { return r.Max }),
		CommitsPerRun:  of(func(r Round) float64 { return r.CommitsPerRun }),
		WALSyncsPerRun: of(func(r Round) float64 { return r.WALSyncsPerRun }),
		Others:         of(func(r Round) float64 { return r.Others }),
		CPU:            foldEach(rounds, func(r Round) map[string]float64 { return r.CPU }, of),
		Bytes:          foldEach(rounds, func(r Round) map[string]float64 { return r.Bytes }, of),
	}
}

// foldEach folds a figure that each process has of its own; nil when none has.
func foldEach(rounds []Round, figure func(Round) map[string]float64, of func(func(Round) float64) float64) map[string]float64 {
	var out map[string]float64
	for _, r := range rounds {
		for name := range figure(r) {
			if out == nil {
				out = map[string]float64{}
			}
			out[name] = of(func(r Round) float64 { return figure(r)[name] })
		}
	}
	return out
}

// figures gives one figure of each round.
func figures[R any](rounds []R, figure func(R) float64) []float64 {
	values := make([]float64, len(rounds))
	for i, r := range rounds {
		values[i] = figure(r)
	}
	return values
}

// middle is the median: of an even number of values the mean of the two in the middle.
func middle(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	half := len(values) / 2
	if len(values)%2 == 1 {
		return values[half]
	}
	return (values[half-1] + values[half]) / 2
}
