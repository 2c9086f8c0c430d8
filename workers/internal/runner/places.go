package runner

import (
	"context"
	"sync"

	"parley/shared/failpoint"
	"parley/shared/store/queuedb"
)

// places are the slots that finished runs left in their lanes and that no waiting run has yet.
type places struct {
	mu    sync.Mutex
	freed map[queuedb.Lane]int
	wake  chan struct{}
}

func (p *places) add(freed map[queuedb.Lane]int) {
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
	default: // it will look anyhow
	}
}

func (p *places) take() map[queuedb.Lane]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	freed := p.freed
	p.freed = nil
	return freed
}

// handOver gives places to waiting runs and rings for them, until ctx ends. What it fails to hand over
// stays free, and the sweeper fills it.
func (r *Runner) handOver(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.places.wake:
		}
		failpoint.Here(failpoint.HandOverBefore)
		next, err := r.queue.HandOver(ctx, r.places.take(), r.cfg.Window)
		if err != nil {
			r.log.Warn().Err(err).Msg("cannot dispatch queued runs; the sweeper will retry")
		}
		failpoint.Here(failpoint.HandOverAfter)
		r.bus.Ring(next...)
	}
}
