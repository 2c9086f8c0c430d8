package dispatch

import (
	"context"
	"sync"
	"time"

	"parley/shared/store/queuedb"
)

const (
	// topUpEvery is the minimum pause between two queries for free slots. The runs accepted during
	// the pause share the next query.
	topUpEvery = 50 * time.Millisecond
	topUpDuty  = 20 // minimum pause between two queries, as a multiple of the duration of the last query
)

// leftovers contains the lanes of runs that were accepted but not dispatched, because their lanes
// had no free slot. Usually such a run is dispatched when another run of its lane finishes. If the
// lane's last other run finished just before this run was accepted, no run of the lane is left to
// finish. The lane must therefore be checked for free slots. leftovers is safe for concurrent use.
type leftovers struct {
	mu    sync.Mutex
	lanes map[queuedb.Lane]bool
	wake  chan struct{} // signals that lanes is not empty
}

// newLeftovers returns a set without lanes.
func newLeftovers() *leftovers {
	return &leftovers{lanes: map[queuedb.Lane]bool{}, wake: make(chan struct{}, 1)}
}

// add marks a lane to be checked, and wakes dispatchLeftovers. It never blocks.
func (l *leftovers) add(lane queuedb.Lane) {
	l.mu.Lock()
	l.lanes[lane] = true
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default: // dispatchLeftovers has already been woken
	}
}

// take removes and returns all marked lanes. The order is random.
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

// dispatchLeftovers dispatches the waiting runs of marked lanes into free slots, until ctx ends. It
// is called once.
func (d *Dispatcher) dispatchLeftovers(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.left.wake:
		}

		began := time.Now()
		d.topUp(ctx, d.left.take())

		// Lanes that are marked during the pause share the next query.
		rest := time.NewTimer(max(topUpEvery, topUpDuty*time.Since(began)))
		select {
		case <-ctx.Done():
			rest.Stop()
			return
		case <-rest.C:
		}
	}
}

// topUp dispatches waiting runs of the given lanes into free slots, and publishes their jobs. A
// failure is only logged, because the sweeper dispatches the runs later.
func (d *Dispatcher) topUp(ctx context.Context, lanes []queuedb.Lane) {
	// TopUp may return jobs together with an error, if it failed after it had dispatched some runs.
	// Publish these jobs in any case.
	next, err := d.store.Queue.TopUp(ctx, lanes)
	if err != nil {
		d.log.Warn().Err(err).Msg("cannot dispatch queued runs; the sweeper will retry")
	}
	d.bus.PublishJobs(next...)
	for _, job := range next { // these lanes may have more waiting runs
		d.left.add(queuedb.Lane{OrganizationID: job.OrganizationID, Lane: job.Lane})
	}
}
