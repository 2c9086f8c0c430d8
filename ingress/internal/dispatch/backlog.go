package dispatch

import (
	"context"
	"sync"
	"time"

	"parley/shared/apierr"
)

const (
	// A count decides about new runs for up to backlogEvery.
	backlogEvery = time.Second

	// When the backlog may be full, the runs are counted again sooner than after backlogEvery. The
	// pause between two counts is at least backlogLeast and at least backlogPart times as long as
	// the last count took.
	backlogLeast = 50 * time.Millisecond
	backlogPart  = 10

	backlogTime = 3 * time.Second // timeout of one count
)

// backlog refuses new runs while too many runs are queued, in total or in their organization. It
// decides by the last count and by the number of runs that this process has admitted since. When
// these may have filled the backlog, it counts again. Each ingress counts for itself.
type backlog struct {
	count   func(ctx context.Context, maximum int) (map[string]int, error)
	maximum int           // queued runs of all organizations
	share   int           // queued runs of one organization
	look    chan struct{} // asks watch for a count before the next tick

	mu sync.Mutex
	// The levels since the last count. recount replaces them, so a run that was claimed in the
	// meantime stops counting then.
	total         level
	organizations map[string]*level // organizations with queued runs at the last count or admitted runs since
}

// level is the number of queued runs at the last count, and the number admitted since.
type level struct{ counted, admitted int }

// over reports whether the queue is full. It is full if the last count reached the limit, or if the
// count and the runs admitted since then reach twice the limit: workers have executed some of these
// runs since the count.
func (l level) over(maximum int) bool {
	return l.counted >= maximum || l.counted+l.admitted >= 2*maximum
}

// newBacklog returns a backlog that admits up to maximum runs, of which one organization may have
// share. It counts nothing until watch runs.
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

	// If other organizations have filled most of the backlog, the share shrinks with the free part.
	// It never shrinks to 0, because then an organization without queued runs could start none.
	share := max(1, min(b.share, b.maximum-b.total.counted))

	// One more run could reach a limit, so the decision needs a newer count.
	full, over := b.total.over(b.maximum), of.over(share)
	if full || over || b.total.counted+b.total.admitted+1 >= b.maximum || of.counted+of.admitted+1 >= share {
		select {
		case b.look <- struct{}{}:
		default: // a count is due already
		}
	}

	// Both refusals have the same Retry-After; only the text says whose limit is reached.
	switch {
	case full:
		return overloaded(nil)
	case over:
		e := apierr.New(apierr.Overloaded, "too many runs of this organization are queued; try again shortly")
		e.RetryAfter = overloadedWait
		return e
	}

	// A request that starts no run in the end, such as a replay, is counted here too. The next
	// count corrects that.
	b.total.admitted++
	of.admitted++
	return nil
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

	// The new levels forget the runs admitted while the query ran. The next count includes these
	// runs.
	b.mu.Lock()
	defer b.mu.Unlock()
	b.total, b.organizations = level{counted: total}, organizations
}
