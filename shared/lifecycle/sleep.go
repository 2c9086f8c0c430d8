package lifecycle

import (
	"context"
	"time"
)

// Sleep waits for the duration d. If ctx ends earlier, it returns the context's cause.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
