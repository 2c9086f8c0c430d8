package report

import (
	"math"
	"slices"
	"time"
)

// Took is how long something takes, in milliseconds.
type Took struct {
	P50  float64         `json:"p50Ms"`
	P99  float64         `json:"p99Ms"`
	Max  float64         `json:"maxMs"`
	Each []time.Duration `json:"-"`
}

// Compare takes the quantiles. What was faster than what it is compared with is below zero.
func (t *Took) Compare() {
	if len(t.Each) == 0 {
		return
	}
	sorted := slices.Sorted(slices.Values(t.Each))
	at := func(q float64) float64 { return milliseconds(sorted[max(int(math.Ceil(q*float64(len(sorted)))), 1)-1]) }
	t.P50, t.P99, t.Max = at(.5), at(.99), at(1)
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
