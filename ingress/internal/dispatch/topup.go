package dispatch

import (
	"context"
	"sync"
	"time"

	"parley/shared/store/queuedb"
)

const (
	topUpEvery = 50 * time.Millisecond
	topUpDuty  = 10 // no more than a tenth of the time is spent on counting
)

// leftovers are the lanes in which runs were accepted and not dispatched. Each finish dispatches the next run of its lane, but the last
// one may have come just before: then slots are free and nothing else would look for runs before the sweeper does.
type leftovers struct {
	mu    sync.Mutex
	lanes map[queuedb.Lane]bool
	wake  chan struct{}
}

func newLeftovers() *leftovers {
	return &leftovers{lanes: map[queuedb.Lane]bool{}, wake: make(chan struct{}, 1)}
}

func (l *leftovers) add(lane queuedb.Lane) {
	l.mu.Lock()
	l.lanes[lane] = true
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default: // it is awake already
	}
}

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

// dispatchLeftovers dispatches what acceptance has left waiting and has free slots after all, until ctx ends.
func (d *Dispatcher) dispatchLeftovers(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.left.wake:
		}
		began := time.Now()
		d.topUp(ctx, d.left.take())
		rest := time.NewTimer(max(topUpEvery, topUpDuty*time.Since(began)))
		select {
		case <-ctx.Done():
			rest.Stop()
			return
		case <-rest.C:
		}
	}
}

// topUp dispatches waiting runs of lanes that have free slots, and rings for them.
func (d *Dispatcher) topUp(ctx context.Context, lanes []queuedb.Lane) {
	next, err := d.store.Queue.TopUp(ctx, lanes, d.cfg.Window, d.cfg.Window)
	if err != nil {
		d.log.Warn().Err(err).Msg("cannot dispatch waiting runs; the sweeper will")
	}
	d.bus.Ring(next...)
	for _, job := range next { // there may be more
		d.left.add(queuedb.Lane{OrganizationID: job.OrganizationID, Lane: job.Lane})
	}
}
