package lifecycle

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	heapRoom     = 64 << 20 // bytes that may be allocated between two collections by a process that has little in use
	percentLeast = 100      // Go's own
	maxPercent   = 400
	roomEvery    = time.Second
)

// CollectSeldom lets the garbage collector run less often than by itself while little memory is in use, until ctx ends: what keeps
// little and allocates much would spend a tenth of its time on collections. It costs some 64 MiB: what is in use is looked at once a
// second. Where GOGC is set in the environment, that counts.
func CollectSeldom(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	now := maxPercent
	debug.SetGCPercent(now)
	go func() {
		ticker := time.NewTicker(roomEvery)
		defer ticker.Stop()
		// What the collector adds its percentage to.
		used := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"}}
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			metrics.Read(used)
			live := used[0].Value.Uint64() + used[1].Value.Uint64() + used[2].Value.Uint64()
			if percent := collectAt(live); percent != now { // setting it stops the world for a moment
				now = percent
				debug.SetGCPercent(now)
			}
		}
	}()
}

// collectAt is by how many percent memory of which live bytes are in use may grow, in steps of 50.
func collectAt(live uint64) int {
	percent := uint64(maxPercent)
	if live > 0 {
		percent = min(percent, heapRoom*100/live)
	}
	return int(max(percentLeast, percent/50*50))
}
