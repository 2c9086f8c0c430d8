package sandbox

import (
	"context"
	"time"
)

// watchEvery is the interval between measurements of a box. It is short compared to any limit.
const watchEvery = 50 * time.Millisecond

// Watch measures a box until its usage exceeds a limit, and returns that limit. CPU time counts
// from began. It returns "" when ctx is done or nothing in the box is alive. If the usage cannot be
// read, it is read again later.
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
		usage, err := box.Usage()
		if err != nil {
			continue
		}
		if limit := usage.Exceeds(l, began); limit != "" {
			return limit
		}
	}
}
