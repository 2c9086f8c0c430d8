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

// FanOut is open streams beside bare subscribers of NATS, each on a connection of its own.
type FanOut struct {
	Streams int        `json:"streams"`
	Floor   FanOutSide `json:"floor"`
	Parley  FanOutSide `json:"parley"`
}

func (f *FanOut) goals() []Goal {
	return []Goal{
		{Clients: f.Streams, Measure: "tokens/s, parley / floor", Value: ratio(f.Parley.PerSecond, f.Floor.PerSecond), Limit: 0.7, AtLeast: true},
		{Clients: f.Streams, Measure: "p99 added to a token, ms", Value: f.Parley.P99 - f.Floor.P99, Limit: 5},
	}
}

func (f *FanOut) write(b *strings.Builder) {
	fmt.Fprintf(b, "Tokens to %d open streams, beside as many subscribers of core NATS (floor), published in the worker's stead\n\n",
		f.Streams)
	out := grid{{"side", "tokens/s", "p50 ms", "p99 ms"}}
	for _, side := range []struct {
		name string
		s    FanOutSide
	}{{Floor, f.Floor}, {Parley, f.Parley}} {
		out = append(out, []string{
			side.name, fmt.Sprintf("%.0f", side.s.PerSecond), fmt.Sprintf("%.2f", side.s.P50), fmt.Sprintf("%.2f", side.s.P99),
		})
	}
	out.write(b)
}
