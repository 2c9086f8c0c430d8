package report

import (
	"time"

	"parley/scripts/bench/internal/latency"
)

// Took is how long something takes, in milliseconds.
type Took struct {
	P50  float64         `json:"p50Ms"`
	P99  float64         `json:"p99Ms"`
	Max  float64         `json:"maxMs"`
	Each []time.Duration `json:"-"`
}

// Compare takes the quantiles.
func (t *Took) Compare() {
	var h latency.Histogram
	for _, d := range t.Each {
		h.Record(d)
	}
	t.P50, t.P99, t.Max = milliseconds(h.Quantile(.5)), milliseconds(h.Quantile(.99)), milliseconds(h.Max())
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
