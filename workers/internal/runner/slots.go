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

// freeSlots counts the dispatch slots that finished runs have released and that no queued run has
// taken yet.
type freeSlots struct {
	mu sync.Mutex
	// nil if no slot has been freed since the last take.
	freed queuedb.FreedSlots
	// wake has capacity 1: a pending signal covers all slots added before it is received.
	wake chan struct{}
}

// add adds released slots and wakes dispatchFreed.
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
	default: // dispatchFreed has not handled the previous signal yet
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

// dispatchFreed dispatches queued runs into released slots and publishes their job messages, until
// ctx ends. Slots that it fails to fill stay free, and the sweeper fills them.
func (r *Runner) dispatchFreed(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.freeSlots.wake:
		}

		failpoint.Here(failpoint.HandOverBefore)

		// Slots that were freed during the previous dispatch are taken together.
		next, err := r.queue.DispatchNext(ctx, r.freeSlots.take())
		if err != nil {
			r.log.Warn().Err(err).Msg("cannot dispatch queued runs; the sweeper will retry")
		}

		failpoint.Here(failpoint.HandOverAfter)
		r.bus.PublishJobs(next...)
	}
}

// announce announces the worker's slots until ctx ends, then the slots of its remaining attempts
// until work ends, and then removes them. No runs are dispatched for a worker before its first
// announcement.
func (r *Runner) announce(ctx, work context.Context) {
	// The id is new in each process, so a restarted worker does not inherit old slots.
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

	// The announcement is repeated long before it expires, and sooner while the database's state is
	// unknown.
	for ctx.Err() == nil {
		next := time.NewTimer(write(r.cfg.Concurrency))
		select {
		case <-ctx.Done():
		case <-next.C:
		case <-r.database.doubted: // find out whether the database answers again
			_ = lifecycle.Sleep(ctx, time.Second)
		}
		next.Stop()
	}

	// The remaining runs still count as dispatched. Without their slots they would take those of other
	// workers.
	for work.Err() == nil {
		write(r.held.Count())
		_ = lifecycle.Sleep(work, time.Second)
	}
	write(0) // if it fails, the slots expire
}
