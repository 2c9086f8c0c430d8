package dispatch

import (
	"context"
	"sync"
	"time"

	"parley/shared/apierr"
)

const (
	// backlogEvery is the time for which a count of the queued runs is used.
	backlogEvery = time.Second

	// If the backlog may be full, the runs are counted again earlier than after backlogEvery. The
	// pause between two counts is at least backlogLeast, and at least backlogPart times the
	// duration of the last count.
	backlogLeast = 50 * time.Millisecond
	backlogPart  = 10

	backlogTime = 3 * time.Second // timeout of one count
)

// backlog refuses new runs while too many runs are queued, in total or in their organization. It
// decides by the last count and by the number of runs that this process has admitted since. If
// these together may have reached a limit, it counts again. Each ingress process counts
// independently.
type backlog struct {
	count   func(ctx context.Context, maximum int) (map[string]int, error)
	maximum int           // limit on the queued runs of all organizations
	share   int           // limit on the queued runs of one organization
	look    chan struct{} // requests a count from watch before its next tick

	mu sync.Mutex
	// These fields contain the numbers of queued runs. recount replaces them, so a run that a
	// worker has claimed stops counting at the next recount.
	total         level
	organizations map[string]*level // organizations that had queued runs at the last count or have had runs admitted since
}

// level is the number of queued runs at the last count and the number of runs admitted since then.
type level struct{ counted, admitted int }

// over reports whether the queue is full. It is full if the last count reached the maximum. It is
// also full if the count and the runs admitted since then reach twice the maximum. The second limit
// is higher, because workers have executed some of these runs since the count.
func (l level) over(maximum int) bool {
	return l.counted >= maximum || l.counted+l.admitted >= 2*maximum
}

// newBacklog returns a backlog that admits up to maximum queued runs, of which one organization may
// have at most share. It counts nothing until watch runs.
func newBacklog(count func(context.Context, int) (map[string]int, error), maximum, share int) *backlog {
	return &backlog{count: count, maximum: maximum, share: share, look: make(chan struct{}, 1), organizations: map[string]*level{}}
}

// admit returns nil if a new run of the organization may be queued, or an error that says which
// limit is reached. An organization's limit is its share, or the free part of the whole backlog if
// that is smaller, so that other organizations can always queue runs.
func (b *backlog) admit(org string) error {
	b.mu.Lock()
	defer b.mu.Unlock()

	// An organization that is not in the map had no queued run at the last count.
	of := b.organizations[org]
	if of == nil {
		of = &level{}
		b.organizations[org] = of
	}

	// If other organizations have filled most of the backlog, the share is reduced to the free
	// part. It is never reduced to 0, because otherwise an organization without queued runs could
	// start none.
	share := max(1, min(b.share, b.maximum-b.total.counted))

	// One more run could reach a limit, so a newer count is requested.
	full, over := b.total.over(b.maximum), of.over(share)
	if full || over || b.total.counted+b.total.admitted+1 >= b.maximum || of.counted+of.admitted+1 >= share {
		select {
		case b.look <- struct{}{}:
		default: // a count has already been requested
		}
	}

	// Both errors have the same Retry-After. Only the text says whose limit is reached.
	switch {
	case full:
		return overloaded(nil)
	case over:
		e := apierr.New(apierr.Overloaded, "too many runs of this organization are queued; try again shortly")
		e.RetryAfter = overloadedWait
		return e
	}

	// A request that starts no run after all, such as a replay, is counted here too. The next count
	// corrects the number.
	b.total.admitted++
	of.admitted++
	return nil
}

// mayHave reports whether an organization may have at least n queued runs. It adds the runs that were
// admitted since the last count.
func (b *backlog) mayHave(org string, n int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()

	// The count stops at the maximum, so that it may have missed runs.
	if b.total.counted >= b.maximum {
		return true
	}
	of := b.organizations[org]
	return of != nil && of.counted+of.admitted >= n
}

// watch counts every second, and earlier on request, until ctx ends.
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

		// The pause grows with the duration of the count, to limit the load of counting.
		rest := time.NewTimer(min(max(backlogLeast, backlogPart*time.Since(began)), backlogEvery))
		select {
		case <-ctx.Done():
			rest.Stop()
			return
		case <-rest.C:
		}
	}
}

// recount counts the queued runs. If that fails, it keeps the last count.
func (b *backlog) recount(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, backlogTime)
	defer cancel()

	// The count stops at the maximum. A larger number would change no decision.
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

	// The new levels do not include the runs that were admitted during the query. The next count
	// includes these runs.
	b.mu.Lock()
	defer b.mu.Unlock()
	b.total, b.organizations = level{counted: total}, organizations
}
