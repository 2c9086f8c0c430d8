package sandbox

import (
	"context"
	"time"
)

// watchEvery is the interval between two measurements of a box. It is short compared with the time
// limits.
const watchEvery = 50 * time.Millisecond

// Watch measures a box until its usage exceeds a limit, and returns that limit. began is the usage
// at the start of the measured program. The CPU time in began is subtracted. Watch returns "" when
// ctx is done or no process is left in the box. After a failed measurement, it continues.
func Watch(ctx context.Context, box Box, l Limits, began Usage) Limit {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ""
		case <-box.Done():
			return ""
		case <-tick.C:
		}

		// A measurement may fail, for example while the sandbox is being created or removed.
		usage, err := box.Usage()
		if err != nil {
			continue
		}
		if limit := usage.Exceeds(l, began); limit != "" {
			return limit
		}
	}
}
