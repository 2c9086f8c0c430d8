package ratelimit

import (
	"context"
	"fmt"
	"hash/maphash"
	"sync"
	"time"

	"parley/shared/store/pg"
)

const (
	countTime = 3 * time.Second // timeout for counting a request
	awayTime  = time.Second     // Retry-After while the database is unreachable
	maxDenied = 100_000         // maximum number of cached refusals
	stripes   = 256             // number of locks among which clients are distributed
)

// demoTier counts requests in the database and caches refusals. Requests of a refused client
// therefore need no query. A refusal is valid until the client's oldest counted request is older
// than the window. demoTier is safe for concurrent use.
type demoTier struct {
	counter Counter
	limit   int
	now     func() time.Time
	seed    maphash.Seed           // seed of the hash that assigns clients to the locks in the field turns
	turns   [stripes]chan struct{} // locks; without them, concurrent counts of a client would each occupy a connection during the wait

	mu     sync.Mutex
	denied map[string]time.Time // clients whose requests are refused, each with the end of the refusal
}

// newDemoTier returns a tier that allows limit requests per Window from each client.
func newDemoTier(c Counter, limit int, now func() time.Time) *demoTier {
	d := &demoTier{counter: c, limit: limit, now: now, seed: maphash.MakeSeed(), denied: map[string]time.Time{}}
	for i := range d.turns {
		d.turns[i] = make(chan struct{}, 1)
	}
	return d
}

// take counts one request of a client. If it returns an error, the decision is a refusal, because
// requests that cannot be counted must not pass. The error has the code unavailable if the database
// does not respond within countTime.
func (d *demoTier) take(ctx context.Context, client string) (Decision, error) {
	if wait := d.remembered(client); wait > 0 {
		return d.refusal(wait), nil
	}
	ctx, cancel := context.WithTimeout(ctx, countTime)
	defer cancel()

	// Clients whose hashes are equal wait for each other, which is rare and harmless.
	turn := d.turns[maphash.String(d.seed, client)%stripes]
	select {
	case turn <- struct{}{}:
		defer func() { <-turn }()
	case <-ctx.Done():
		return d.refusal(awayTime), pg.Unavailable(fmt.Errorf("waiting to count a demo request: %w", ctx.Err()))
	}
	if wait := d.remembered(client); wait > 0 { // another request of the client was refused while this one waited for the lock
		return d.refusal(wait), nil
	}

	v, err := d.counter.CountDemo(ctx, client, d.limit, Window)
	if err != nil {
		return d.refusal(awayTime), pg.Unavailable(err)
	}
	if !v.Allowed {
		d.remember(client, v.Reset)
		return d.refusal(v.Reset), nil
	}
	return Decision{Allowed: true, Tier: "demo", Limit: d.limit, Remaining: v.Remaining, Reset: v.Reset}, nil
}

// refusal returns the decision for a client that may retry after the given duration.
func (d *demoTier) refusal(wait time.Duration) Decision {
	return Decision{Tier: "demo", Limit: d.limit, Reset: wait, RetryAfter: wait}
}

// remembered returns the remaining time of a client's refusal. It is at most 0 if the client is not
// refused.
func (d *demoTier) remembered(client string) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	until, ok := d.denied[client]
	if !ok {
		return 0
	}
	wait := until.Sub(d.now())
	if wait <= 0 {
		delete(d.denied, client)
	}
	return wait
}

// remember caches a refusal. If the cache is full of valid refusals, the refusal is not cached, and
// the client's next request is counted in the database.
func (d *demoTier) remember(client string, wait time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.denied) >= maxDenied {
		d.dropOver()
	}
	if len(d.denied) < maxDenied {
		d.denied[client] = d.now().Add(wait)
	}
}

// dropOver drops expired refusals. The caller must hold d.mu.
func (d *demoTier) dropOver() {
	now := d.now()
	for client, until := range d.denied {
		if !now.Before(until) {
			delete(d.denied, client)
		}
	}
}
