package runner

import (
	"context"
	"sync"

	"parley/shared/failpoint"
	"parley/shared/store/queuedb"
)

// freeSlots counts the dispatch slots that finished runs have released and that no queued run has
// taken yet.
type freeSlots struct {
	mu    sync.Mutex
	freed map[queuedb.Lane]int
	// wake has capacity 1: a pending signal covers all slots added before it is received.
	wake chan struct{}
}

// add adds released slots and wakes dispatchFreed.
func (p *freeSlots) add(freed map[queuedb.Lane]int) {
	if len(freed) == 0 {
		return
	}
	p.mu.Lock()
	if p.freed == nil {
		p.freed = make(map[queuedb.Lane]int, len(freed))
	}
	for lane, n := range freed {
		p.freed[lane] += n
	}
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default: // dispatchFreed has not handled the previous signal yet
	}
}

// take returns the released slots and resets them.
func (p *freeSlots) take() map[queuedb.Lane]int {
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
		next, err := r.queue.DispatchNext(ctx, r.freeSlots.take(), r.cfg.Window)
		if err != nil {
			r.log.Warn().Err(err).Msg("cannot dispatch queued runs; the sweeper will retry")
		}

		failpoint.Here(failpoint.HandOverAfter)
		r.bus.PublishJobs(next...)
	}
}
