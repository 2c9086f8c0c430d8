package dispatch

import (
	"context"
	"sync"
	"time"

	"parley/shared/apierr"
)

const (
	backlogEvery = time.Second
	// Once there may be no more room, and while runs are refused, it is counted more often: but for no more than a tenth of the time.
	backlogLeast = 50 * time.Millisecond
	backlogPart  = 10
	backlogTime  = 3 * time.Second
)

// backlog refuses new runs while too many are queued, of all organizations or of their own. It goes by the last count, and counts again as
// soon as it has admitted so many runs since that there may be no more room. Other ingresses admit as many by counts of their own.
type backlog struct {
	count   func(ctx context.Context, maximum int) (map[string]int, error)
	maximum int // queued runs of all organizations
	share   int // queued runs of one organization
	look    chan struct{}

	mu            sync.Mutex
	total         level
	organizations map[string]*level // those with queued runs at the last count, and those of which runs were admitted since
}

// level is how many runs are queued: those of the last count, and those admitted since.
type level struct{ counted, admitted int }

// over reports whether a new run is one too many by the last count. However long a count takes, no more than twice as many as may be
// queued come in meanwhile: of those that did, some have been carried out.
func (l level) over(maximum int) bool {
	return l.counted >= maximum || l.counted+l.admitted >= 2*maximum
}

func newBacklog(count func(context.Context, int) (map[string]int, error), maximum, share int) *backlog {
	return &backlog{count: count, maximum: maximum, share: share, look: make(chan struct{}, 1), organizations: map[string]*level{}}
}

// admit returns nil if a new run of the organization may be queued, or else why not. An organization may have at most its share queued,
// and at most as many as there is room left: so however many organizations fill their shares, another one finds room.
func (b *backlog) admit(org string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	of := b.organizations[org]
	if of == nil {
		of = &level{}
		b.organizations[org] = of
	}
	share := max(1, min(b.share, b.maximum-b.total.counted))
	full, over := b.total.over(b.maximum), of.over(share)
	if full || over || b.total.counted+b.total.admitted+1 >= b.maximum || of.counted+of.admitted+1 >= share {
		select {
		case b.look <- struct{}{}:
		default: // it will be counted anyhow
		}
	}
	switch {
	case full:
		return overloaded(nil)
	case over:
		e := apierr.New(apierr.Overloaded, "too many runs of this organization are waiting; try again shortly")
		e.RetryAfter = overloadedWait
		return e
	}
	b.total.admitted++
	of.admitted++
	return nil
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
	counted, err := b.count(ctx, b.maximum)
	if err != nil {
		return
	}
	organizations := make(map[string]*level, len(counted))
	total := 0
	for org, n := range counted {
		organizations[org] = &level{counted: n}
		total += n
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.total, b.organizations = level{counted: total}, organizations
}
