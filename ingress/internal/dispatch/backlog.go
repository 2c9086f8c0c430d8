package dispatch

import (
	"context"
	"sync/atomic"
	"time"
)

const (
	backlogEvery = time.Second
	// Once there may be no more room, and while runs are refused, it is counted more often: but for no more than a tenth of the time.
	backlogLeast = 50 * time.Millisecond
	backlogPart  = 10
	backlogTime  = 3 * time.Second
)

// backlog tells when too many runs wait, of all organizations. It goes by what was counted last, and has it counted again as soon as so
// many runs were let in here since that there may be no more room. Other ingresses let in as many by counts of their own.
type backlog struct {
	count    func(ctx context.Context, most int) (int, error)
	most     int
	refusing atomic.Bool
	room     atomic.Int64 // at the last count, less what was let in since
	look     chan struct{}
}

func newBacklog(count func(context.Context, int) (int, error), most int) *backlog {
	b := &backlog{count: count, most: most, look: make(chan struct{}, 1)}
	b.room.Store(int64(most))
	return b
}

// full reports whether a new run is one too many; it is let in otherwise. However long a count takes, no more come in meanwhile than may
// wait at all: of those that did, some will have been carried out.
func (b *backlog) full() bool {
	refusing := b.refusing.Load()
	if !refusing {
		left := b.room.Add(-1)
		if left >= 0 {
			return false
		}
		refusing = left < -int64(b.most)
	}
	select {
	case b.look <- struct{}{}:
	default: // somebody will look anyhow
	}
	return refusing
}

// watch counts every second, and as soon as it is asked to, until ctx ends.
func (b *backlog) watch(ctx context.Context) {
	ticker := time.NewTicker(backlogEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-b.look:
		}
		began := time.Now()
		b.recount(ctx)
		rest := time.NewTimer(min(max(backlogLeast, backlogPart*time.Since(began)), backlogEvery))
		select {
		case <-ctx.Done():
			rest.Stop()
			return
		case <-rest.C:
		}
	}
}

// recount changes nothing when it fails.
func (b *backlog) recount(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, backlogTime)
	defer cancel()
	n, err := b.count(ctx, b.most)
	if err != nil {
		return
	}
	b.room.Store(int64(b.most - n))
	b.refusing.Store(n >= b.most)
}
