package sandbox

import (
	"context"
	"time"
)

// watchEvery is how often a box is looked at: short against any limit, and cheap.
const watchEvery = 50 * time.Millisecond

// Watch looks at what a box uses until that exceeds a limit, and names the limit; CPU time counts from began on. It
// returns "" when ctx is done or nothing lives in the box any more. Usage that cannot be read is asked for again.
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
