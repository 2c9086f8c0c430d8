package report

import (
	"fmt"
	"strings"
)

// FanOutSide is how fast tokens reach as many listeners: how many a second when everybody is told one and the next
// ones follow once all have it, and after which time, in milliseconds, when they come one by one.
type FanOutSide struct {
	PerSecond float64 `json:"tokensPerSecond"`
	P50       float64 `json:"p50Ms"`
	P99       float64 `json:"p99Ms"`
}

// FanOutFigures are one side's.
type FanOutFigures struct {
	Median FanOutSide   `json:"median"` // figure by figure
	Rounds []FanOutSide `json:"rounds"`
}

// FanOut is open streams beside bare subscribers of NATS, each on a connection of its own.
type FanOut struct {
	Streams int           `json:"streams"`
	Floor   FanOutFigures `json:"floor"`
	Parley  FanOutFigures `json:"parley"`
}

// Add adds a round.
func (f *FanOut) Add(bare, streams FanOutSide) {
	f.Floor.add(bare)
	f.Parley.add(streams)
}

func (f *FanOutFigures) add(round FanOutSide) {
	f.Rounds = append(f.Rounds, round)
	of := func(figure func(FanOutSide) float64) float64 { return middle(figures(f.Rounds, figure)) }
	f.Median = FanOutSide{
		PerSecond: of(func(s FanOutSide) float64 { return s.PerSecond }),
		P50:       of(func(s FanOutSide) float64 { return s.P50 }), P99: of(func(s FanOutSide) float64 { return s.P99 }),
	}
}

func (f *FanOut) goals() []Goal {
	floor, parley := f.Floor.Median, f.Parley.Median
	return []Goal{
		{Clients: f.Streams, Measure: "tokens/s, parley / floor", Value: ratio(parley.PerSecond, floor.PerSecond), Limit: 0.7, AtLeast: true},
		{Clients: f.Streams, Measure: "p99 added to a token, ms", Value: parley.P99 - floor.P99, Limit: 5},
	}
}

func (f *FanOut) write(b *strings.Builder) {
	fmt.Fprintf(b, "Tokens to %d open streams, beside as many subscribers of core NATS (floor), published in the worker's stead,\n", f.Streams)
	fmt.Fprintf(b, "medians of %d rounds\n\n", len(f.Parley.Rounds))
	out := grid{{"side", "tokens/s", "p50 ms", "p99 ms"}}
	for _, side := range []struct {
		name string
		s    FanOutSide
	}{{Floor, f.Floor.Median}, {Parley, f.Parley.Median}} {
		out = append(out, []string{
			side.name, fmt.Sprintf("%.0f", side.s.PerSecond), fmt.Sprintf("%.2f", side.s.P50), fmt.Sprintf("%.2f", side.s.P99),
		})
	}
	out.write(b)
}
