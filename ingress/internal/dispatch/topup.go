package dispatch

import (
	"context"
	"sync"
	"time"

	"parley/shared/store/queuedb"
)

const (
	// The minimum pause between two queries. Acceptances during the pause share the next query.
	topUpEvery = 50 * time.Millisecond
	topUpDuty  = 20 // minimum pause between two queries, as a multiple of the last query's duration
)

// leftovers are the lanes with runs that were accepted but not dispatched. Usually they are
// dispatched when the lane's next run finishes. But if the lane's last run finished just before the
// acceptance, slots are free and no further run finishes.
type leftovers struct {
	mu    sync.Mutex
	lanes map[queuedb.Lane]bool
	wake  chan struct{} // signals that lanes is not empty
}

// newLeftovers returns a set without lanes.
func newLeftovers() *leftovers {
	return &leftovers{lanes: map[queuedb.Lane]bool{}, wake: make(chan struct{}, 1)}
}

// add marks a lane for the next top-up and wakes dispatchLeftovers. It never blocks.
func (l *leftovers) add(lane queuedb.Lane) {
	l.mu.Lock()
	l.lanes[lane] = true
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default: // already awake
	}
}

// take removes and returns all marked lanes.
func (l *leftovers) take() []queuedb.Lane {
	l.mu.Lock()
	defer l.mu.Unlock()
	lanes := make([]queuedb.Lane, 0, len(l.lanes))
	for lane := range l.lanes {
		lanes = append(lanes, lane)
	}
	clear(l.lanes)
	return lanes
}

// dispatchLeftovers dispatches accepted runs of lanes that turn out to have free slots, until ctx
// ends.
func (d *Dispatcher) dispatchLeftovers(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.left.wake:
		}

		began := time.Now()
		d.topUp(ctx, d.left.take())

		// Lanes added during the pause share the next query.
		rest := time.NewTimer(max(topUpEvery, topUpDuty*time.Since(began)))
		select {
		case <-ctx.Done():
			rest.Stop()
			return
		case <-rest.C:
		}
	}
}

// topUp dispatches waiting runs of lanes that have free slots, and publishes their jobs.
func (d *Dispatcher) topUp(ctx context.Context, lanes []queuedb.Lane) {
	// If the query fails after it has dispatched some lanes, the jobs of these lanes are returned
	// with the error. They are published in any case.
	next, err := d.store.Queue.TopUp(ctx, lanes)
	if err != nil {
		d.log.Warn().Err(err).Msg("cannot dispatch queued runs; the sweeper will retry")
	}
	d.bus.PublishJobs(next...)
	for _, job := range next { // more runs may be waiting
		d.left.add(queuedb.Lane{OrganizationID: job.OrganizationID, Lane: job.Lane})
	}
}
