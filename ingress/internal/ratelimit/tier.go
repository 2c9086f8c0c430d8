package ratelimit

import (
	"context"
	"fmt"
	"sync"
	"time"

	"parley/shared/store/pg"
)

const (
	chunks    = 20                     // number of chunks into which a limit is divided; a lease is one chunk
	leaseTime = 3 * time.Second        // timeout for a lease from the database
	leaseLife = Window                 // age at which unused tokens expire, because the bucket in the database is full again by then
	leasePace = 200 * time.Millisecond // pause between leases of a bucket after a refusal or a failure
	sweepSize = 10_000                 // number of buckets at which idle buckets are dropped for the first time
)

// tier contains the buckets of one tier. It is safe for concurrent use. A bucket exists for each
// key that was used recently.
type tier struct {
	counter   Counter
	name      string
	limit     int
	perSecond float64 // tokens that a bucket gains per second
	chunk     int     // number of tokens in a lease
	now       func() time.Time

	mu      sync.RWMutex
	buckets map[string]*bucket
	sweepAt int // number of buckets at which idle buckets are dropped the next time
}

// newTier returns a tier that allows limit requests per Window for each key. A limit of 0 refuses
// all requests.
func newTier(c Counter, name string, limit int, now func() time.Time) *tier {
	return &tier{
		counter: c, name: name, limit: limit, chunk: max(1, limit/chunks), now: now,
		perSecond: float64(limit) / Window.Seconds(),
		buckets:   map[string]*bucket{}, sweepAt: sweepSize,
	}
}

// bucket is the part of a bucket that this ingress has leased. Its fields are protected by mu.
type bucket struct {
	mu      sync.Mutex
	tokens  int           // leased tokens that are not used yet
	left    float64       // tokens that remained in the database after the last lease
	leased  time.Time     // time of the last lease
	until   time.Time     // time at which the leased tokens expire
	paused  time.Time     // time before which no tokens are leased
	refused bool          // whether the last lease got no tokens
	err     error         // error of the last lease
	leasing chan struct{} // closed when the lease in progress is done; nil if none is in progress
}

// take takes one token from a bucket. It waits for a lease only if this ingress holds no token of
// the bucket. If the database cannot be reached, the error has the code unavailable. The wait ends
// with ctx.
func (t *tier) take(ctx context.Context, key string) (Decision, error) {
	if t.limit < 1 {
		return t.closed(), nil
	}
	b := t.bucket(key)
	for {
		b.mu.Lock()
		now := t.now()
		if !now.Before(b.until) {
			b.tokens = 0
		}
		if b.tokens > 0 {
			b.tokens--
			if b.tokens < t.chunk/2 && b.leasing == nil && !now.Before(b.paused) {
				t.lease(ctx, key, b)
			}
			d := t.standing(b, now)
			d.Remaining = min(t.limit-1, d.Remaining)
			b.mu.Unlock()
			return d, nil
		}

		// After a refusal or a failure, requests are refused without a query until a token may be
		// available.
		if now.Before(b.paused) {
			d, err := t.refusal(b, b.paused.Sub(now)), b.err
			b.mu.Unlock()
			return d, err
		}

		// Only one lease per bucket runs at a time. All requests without a token wait for it and
		// then try again.
		if b.leasing == nil {
			t.lease(ctx, key, b)
		}

		over := b.leasing
		b.mu.Unlock()
		select {
		case <-over:
		case <-ctx.Done():
			return Decision{}, fmt.Errorf("waiting for the rate limit: %w", ctx.Err())
		}
	}
}

// lease fetches tokens for b from the database. It continues if the request that calls it is
// canceled, because other requests may wait for the tokens. The caller must hold b.mu. lease closes
// b.leasing when it is done, also after an error.
func (t *tier) lease(ctx context.Context, key string, b *bucket) {
	over := make(chan struct{})
	b.leasing = over
	go func() {
		defer close(over)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaseTime)
		defer cancel()

		// The lock is released during the query, so that other requests can use the remaining
		// tokens.
		g, err := t.counter.LeaseTokens(ctx, t.name+":"+key, t.limit, t.perSecond, t.chunk)
		b.mu.Lock()
		defer b.mu.Unlock()
		b.leasing, b.err, b.refused = nil, pg.Unavailable(err), err == nil && g.Granted == 0
		now := t.now()
		if err != nil || b.refused {
			b.paused = now.Add(max(leasePace, t.untilToken(g.Left)))
			return
		}
		b.tokens, b.left, b.leased, b.until = b.tokens+g.Granted, g.Left, now, now.Add(leaseLife)
	}()
}

// untilToken returns the time until a bucket has a whole token. The argument left is the number of
// tokens that the bucket has.
func (t *tier) untilToken(left float64) time.Duration {
	return time.Duration((1 - min(1, left)) / t.perSecond * float64(time.Second))
}

// closed returns the decision of a tier whose limit is zero.
func (t *tier) closed() Decision { return Decision{Tier: t.name, Reset: Window, RetryAfter: Window} }

// refusal returns the decision during a pause. If the last lease was refused, the decision is a
// refusal. If the last lease failed, the decision is zero, and take returns the error of the lease.
// The caller must hold b.mu.
func (t *tier) refusal(b *bucket, wait time.Duration) Decision {
	if !b.refused {
		return Decision{}
	}
	return Decision{Tier: t.name, Limit: t.limit, Reset: wait, RetryAfter: wait}
}

// plenty reports whether take would find a token without a lease.
func (t *tier) plenty(key string) bool {
	if t.limit < 1 {
		return false
	}
	b := t.bucket(key)
	b.mu.Lock()
	defer b.mu.Unlock()
	return t.now().Before(b.until) && b.tokens > max(1, t.chunk/2)
}

// refund puts one token back into a bucket, unless the bucket's tokens have expired. The number of
// tokens may exceed a chunk.
func (t *tier) refund(key string) {
	b := t.bucket(key)
	b.mu.Lock()
	defer b.mu.Unlock()
	if t.now().Before(b.until) {
		b.tokens++
	}
}

// bucket returns the bucket of a key. It creates the bucket if necessary. The bucket may be dropped
// later, if it is idle.
func (t *tier) bucket(key string) *bucket {
	t.mu.RLock()
	b := t.buckets[key]
	t.mu.RUnlock()
	if b != nil {
		return b
	}

	t.mu.Lock()
	defer t.mu.Unlock()
	if b = t.buckets[key]; b != nil {
		return b
	}
	if len(t.buckets) >= t.sweepAt {
		t.sweep()
	}
	b = &bucket{}
	t.buckets[key] = b
	return b
}

// sweep drops idle buckets. It runs again when the number of buckets has doubled. The caller must
// hold t.mu.
func (t *tier) sweep() {
	now := t.now()
	for key, b := range t.buckets {
		b.mu.Lock()

		// A bucket is kept if it has valid tokens, a pause or a lease in progress.
		idle := !now.Before(b.until) && !now.Before(b.paused) && b.leasing == nil
		b.mu.Unlock()
		if idle {
			delete(t.buckets, key)
		}
	}
	t.sweepAt = max(sweepSize, 2*len(t.buckets))
}
