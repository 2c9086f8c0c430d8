package waiting

import (
	"context"
	"slices"
	"time"

	"parley/scripts/bench/internal/machine"
)

const (
	sampleEvery  = 50 * time.Millisecond
	sampleCount  = 6                       // that must agree
	sampleSpread = 0.01                    // how far they may be apart, of the largest
	settleTime   = 1000 * time.Millisecond // after which what was seen last counts
)

// settled is a process's memory once it has stopped changing, or after settleTime.
func settled(ctx context.Context, pid int) (int64, error) {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	over := time.Now().Add(settleTime)
	var last []int64
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
		bytes, err := machine.Memory(pid)
		if err != nil {
			return 0, err
		}
		last = append(last, bytes)
		if steady(last) || time.Now().After(over) {
			return bytes, nil
		}
	}
}

// steady reports whether the last samples agree.
func steady(samples []int64) bool {
	if len(samples) < sampleCount {
		return false
	}
	last := samples[len(samples)-sampleCount:]
	least, most := slices.Min(last), slices.Max(last)
	return float64(most-least) <= sampleSpread*float64(most)
}
