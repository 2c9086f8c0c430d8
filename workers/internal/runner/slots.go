package runner

import (
	"context"
	"sync"
	"time"

	"parley/shared/failpoint"
	"parley/shared/id"
	"parley/shared/lifecycle"
	"parley/shared/store/lease"
	"parley/shared/store/queuedb"
	"parley/workers/internal/leased"
)

// freeSlots counts the dispatch slots that finished runs have released and that have not been
// refilled yet. Attempts add to it and dispatchFreed takes from it, so that a finished run need not
// wait for the dispatch of the next one.
type freeSlots struct {
	mu sync.Mutex
	// The released slots; nil if none was released since the last call of take.
	freed queuedb.FreedSlots
	// wake has capacity 1, because one signal covers all slots that were added before it is
	// received.
	wake chan struct{}
}

// add adds released slots and wakes the goroutine of dispatchFreed.
func (p *freeSlots) add(freed queuedb.FreedSlots) {
	if len(freed) == 0 {
		return
	}
	p.mu.Lock()
	if p.freed == nil {
		p.freed = make(queuedb.FreedSlots, len(freed))
	}
	for lane, f := range freed {
		p.freed.Add(lane, f)
	}
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default: // a signal is already pending
	}
}

// take returns the released slots and resets them.
func (p *freeSlots) take() queuedb.FreedSlots {
	p.mu.Lock()
	defer p.mu.Unlock()
	freed := p.freed
	p.freed = nil
	return freed
}

// dispatchFreed fills released slots with queued runs and publishes their job messages, until ctx
// ends. One statement fills the slots of all runs that have finished since the previous statement.
// When ctx ends, dispatchFreed fills the slots that remain, so that other workers can execute the
// next runs at once.
func (r *Runner) dispatchFreed(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			r.fill(ctx)
			return
		case <-r.freeSlots.wake:
			r.fill(ctx)
		}
	}
}

// fill fills the slots that have been released since its last call. fill continues after the end of
// ctx. Otherwise runs could be dispatched without a job message, and would wait for the sweeper. If
// fill cannot fill a slot, the sweeper does so later.
func (r *Runner) fill(ctx context.Context) {
	freed := r.freeSlots.take()
	if len(freed) == 0 {
		return
	}

	failpoint.Here(failpoint.DispatchNextBefore)

	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fillTime)
	defer cancel()
	next, err := r.queue.DispatchNext(ctx, freed)
	if err != nil {
		r.log.Warn().Err(err).Msg("cannot dispatch queued runs; the sweeper will retry")
	}

	failpoint.Here(failpoint.DispatchNextAfter)
	r.bus.PublishJobs(next...)
}

// announce announces the worker's slots until ctx ends. It then announces only the slots of the
// remaining attempts, until the second context ends. At the end it removes the announcement. No
// runs are dispatched to a worker before its first announcement.
func (r *Runner) announce(ctx, work context.Context) {
	// Each process has a new id, so a restarted worker does not inherit old slots.
	worker := id.New("worker")
	write := func(n int) time.Duration {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), announceTime)
		defer cancel()
		if err := r.queue.AnnounceSlots(ctx, worker, n, lease.Lease); err != nil {
			r.log.Warn().Err(err).Msg("cannot publish the worker's free slots, retrying")
			r.database.close()
			return time.Second
		}
		r.database.reopen()
		return leased.HeartbeatEvery
	}

	// Repeat the announcement long before it expires, and sooner if it is unknown whether the
	// database answers.
	for ctx.Err() == nil {
		next := time.NewTimer(write(r.cfg.Concurrency))
		select {
		case <-ctx.Done():
		case <-next.C:
		case <-r.database.doubted: // the next announcement shows whether the database answers again
			_ = lifecycle.Sleep(ctx, time.Second)
		}
		next.Stop()
	}

	// The remaining runs still count as dispatched. If their slots were not announced, these runs
	// would occupy the slots of other workers.
	for work.Err() == nil {
		write(r.held.Count())
		_ = lifecycle.Sleep(work, time.Second)
	}
	write(0) // remove the announcement; if this fails, it expires
}
