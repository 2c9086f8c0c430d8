package lifecycle

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// Limits on the percentage that CollectSeldom sets.
const (
	heapRoom     = 64 << 20 // bytes that may be allocated between two collections while little memory is in use
	minPercent   = 100      // Go's default
	maxPercent   = 400
	roomInterval = time.Second
)

// CollectSeldom makes the garbage collector run less often while little memory is in use. A process
// with a small heap and many allocations would otherwise spend a tenth of its time on collections.
// CollectSeldom costs up to 64 MiB of memory. Until ctx ends, it adapts to the heap size once a
// second. CollectSeldom does nothing if GOGC is set in the environment.
func CollectSeldom(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}

	now := maxPercent
	debug.SetGCPercent(now)
	go func() {
		ticker := time.NewTicker(roomInterval)
		defer ticker.Stop()
		// GOGC is a percentage of the sum of the following metrics.
		used := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"}}
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}

			metrics.Read(used)
			live := used[0].Value.Uint64() + used[1].Value.Uint64() + used[2].Value.Uint64()
			if percent := gcPercent(live); percent != now { // setting the percentage stops the world briefly
				now = percent
				debug.SetGCPercent(now)
			}
		}
	}()
}

// gcPercent returns the GC percentage for a heap of the given size in bytes, in steps of 50.
func gcPercent(live uint64) int {
	percent := uint64(maxPercent)
	if live > 0 {
		percent = min(percent, heapRoom*100/live)
	}
	return int(max(minPercent, percent/50*50))
}
