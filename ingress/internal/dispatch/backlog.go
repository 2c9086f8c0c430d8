package dispatch

import (
	"context"
	"sync"
	"time"

	"parley/shared/apierr"
)

const (
	// backlogEvery is the time between two counts of the queued runs.
	backlogEvery = time.Second

	// If the backlog may be full, the runs are counted earlier. The pause between two counts is at
	// least backlogLeast, and at least backlogPart times as long as the last count took.
	backlogLeast = 50 * time.Millisecond
	backlogPart  = 10

	backlogTime = 3 * time.Second // timeout of one count
)

// backlog refuses new runs while too many runs are queued, in total or in one organization. It
// knows the number of queued runs at the last count, and how many runs this process has admitted
// since. If the sum may have reached a limit, it counts again. Each ingress process has its own
// backlog.
type backlog struct {
	count   func(ctx context.Context, maximum int) (map[string]int, error)
	maximum int           // limit on the queued runs of all organizations
	share   int           // limit on the queued runs of one organization
	look    chan struct{} // requests an early count from watch

	mu sync.Mutex
	// The fields below contain the numbers of queued runs. recount replaces all of them, so that
	// runs that workers have claimed no longer count.
	known         bool // true after the first count
	total         level
	organizations map[string]*level // organizations with queued runs at the last count, or with runs admitted since
}

// level is the number of queued runs at the last count and the number of runs admitted since then.
// Both are at least 0.
type level struct{ counted, admitted int }

// over reports whether the number of queued runs exceeds a limit: whether the last count has
// reached maximum, or the sum of the count and of the runs admitted since has reached twice
// maximum. The limit on the sum is higher, because workers may have claimed some of these runs in
// the meantime.
func (l level) over(maximum int) bool {
	return l.counted >= maximum || l.counted+l.admitted >= 2*maximum
}

// newBacklog returns a backlog that admits up to maximum queued runs, of which one organization may
// have at most share. The runs are counted while watch runs.
func newBacklog(count func(context.Context, int) (map[string]int, error), maximum, share int) *backlog {
	return &backlog{count: count, maximum: maximum, share: share, look: make(chan struct{}, 1), organizations: map[string]*level{}}
}

// admit returns nil if a new run of the organization may be queued. Otherwise it returns an error
// that says which limit is reached. An organization's limit is the smaller of its share and the
// free part of the whole backlog, so that all organizations can always queue runs.
func (b *backlog) admit(org string) error {
	b.mu.Lock()
	defer b.mu.Unlock()

	// An organization that is not in the map had no queued run at the last count.
	of := b.organizations[org]
	if of == nil {
		of = &level{}
		b.organizations[org] = of
	}

	// If most of the backlog is full, the share is reduced to the free part. It is never 0, because
	// then an organization without queued runs could start none.
	share := max(1, min(b.share, b.maximum-b.total.counted))

	// If one more run could reach a limit, request a new count.
	full, over := b.total.over(b.maximum), of.over(share)
	if full || over || b.total.counted+b.total.admitted+1 >= b.maximum || of.counted+of.admitted+1 >= share {
		select {
		case b.look <- struct{}{}:
		default: // a count has already been requested
		}
	}

	// Both errors have the same Retry-After; only their texts differ.
	switch {
	case full:
		return overloaded(nil)
	case over:
		e := apierr.New(apierr.Overloaded, "too many runs of this organization are queued; try again shortly")
		e.RetryAfter = overloadedWait
		return e
	}

	// This also counts requests that turn out to start no run, such as replays. The next count of
	// the queued runs corrects the number.
	b.total.admitted++
	of.admitted++
	return nil
}

// mayHave reports whether an organization may have at least n queued runs. It adds the runs that
// were admitted since the last count to that count. Before the first count, it returns true.
func (b *backlog) mayHave(org string, n int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()

	// The count stops at the maximum, so it may have missed runs.
	if !b.known || b.total.counted >= b.maximum {
		return true
	}
	of := b.organizations[org]
	return of != nil && of.counted+of.admitted >= n
}

// watch counts the queued runs every second, and earlier on request, until ctx ends. It is called
// once.
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

		// The longer a count takes, the longer is the pause, to limit the load on the database.
		rest := time.NewTimer(min(max(backlogLeast, backlogPart*time.Since(began)), backlogEvery))
		select {
		case <-ctx.Done():
			rest.Stop()
			return
		case <-rest.C:
		}
	}
}

// recount counts the queued runs. If that fails, it keeps the last count. The numbers of all
// organizations change together.
func (b *backlog) recount(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, backlogTime)
	defer cancel()

	// The query stops counting at the maximum, because a larger number would change no decision.
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

	// The new levels do not contain the runs that were admitted during the query. The next count
	// contains them.
	b.mu.Lock()
	defer b.mu.Unlock()
	b.known, b.total, b.organizations = true, level{counted: total}, organizations
}
