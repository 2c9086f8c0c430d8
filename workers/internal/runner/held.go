package runner

import (
	"context"
	"time"

	"parley/shared/store/lease"
	"parley/workers/internal/leased"
)

// Causes with which an attempt's context is cancelled.
var (
	errTaken    = leased.ErrTaken
	errLease    = leased.ErrLease
	errDraining = leased.ErrDraining
)

// lockedRetry is the delay between two attempts to claim a run that another transaction has locked.
const lockedRetry = 250 * time.Millisecond

// heldRuns is the set of runs that this worker executes.
type heldRuns = leased.Set[lease.Held]

// newHeldRuns returns an empty set. Its keys are the ids of the runs.
func newHeldRuns() *heldRuns { return leased.New(func(h lease.Held) string { return h.RunID }) }

// heartbeat extends the leases of the runs that this worker executes, until ctx ends. All runs are
// extended by one statement. A run that was not extended and is not locked was taken over, and its
// attempt is cancelled with errTaken.
func (r *Runner) heartbeat(ctx context.Context) {
	r.held.Heartbeat(ctx, r.log, func(ctx context.Context, held []lease.Held) (extended, locked map[string]bool, err error) {
		leases, err := r.runs.Extend(ctx, held)
		return leases.Extended, leases.Locked, err
	})
}
