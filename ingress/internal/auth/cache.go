package auth

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"time"

	"parley/shared/apierr"
	"parley/shared/batch"
	"parley/shared/store/pg"
)

const (
	remember    = 4 * time.Second // how long an entry is cached; with the time of a slow read, a revocation takes effect within 5 s
	lookupTime  = 3 * time.Second // timeout for reading a batch of credentials
	lookupBatch = 256             // credentials read in one query
	lookupQueue = 8192            // maximum number of requests that wait for a read; further requests are refused
	cacheSize   = 100_000         // maximum number of entries
)

// cache caches credentials and similar values. It also caches that a value does not exist. One
// query reads the missing entries for many requests, so the number of different credentials hardly
// affects the cost. A cache is safe for concurrent use. The field group must be running; otherwise,
// get waits until the context of the call ends.
type cache[K comparable, V any] struct {
	now    func() time.Time
	absent time.Duration // how long absence is cached
	group  *batch.Group[K, entry[V]]

	mu        sync.RWMutex
	entries   map[K]entry[V]
	forgotten int // number of calls of forget and forgetWhere
}

// entry is the cached result of reading a value. It is valid until the time in the field until. The
// value is shared by all requests and must not be modified.
type entry[V any] struct {
	found *V // nil if the value is absent
	until time.Time
}

// newCache returns a cache that calls read to read missing values in batches. read returns a map of
// values; the parameter name is a function that returns the name of a key in this map. absent is
// how long absence is cached. Errors of read are not cached.
func newCache[K comparable, V any](
	now func() time.Time, absent time.Duration, read func(context.Context, []K) (map[string]*V, error), name func(K) string,
) *cache[K, V] {
	c := &cache[K, V]{now: now, absent: absent, entries: map[K]entry[V]{}}
	c.group = batch.New(lookupBatch, lookupQueue, func(ctx context.Context, keys []K) ([]entry[V], error) {
		began, forgotten := c.now(), c.timesForgotten() // before the read, because the read may miss a change that is made while it runs
		ctx, cancel := context.WithTimeout(ctx, lookupTime)
		defer cancel()

		found, err := read(ctx, keys)
		if err != nil {
			return nil, err
		}

		out := make([]entry[V], len(keys))
		for i, key := range keys {
			life := remember
			if found[name(key)] == nil {
				life = c.absent
			}
			out[i] = entry[V]{found[name(key)], began.Add(life)}
		}
		c.put(keys, out, forgotten)
		return out, nil
	})
	return c
}

// get returns the entry of a key. The entry's field found is nil if the value is absent. Errors
// have a code; see package apierr. get waits for a read until ctx ends. The codes are overloaded if
// too many requests wait, and unavailable if the database cannot be read or the service stops.
func (c *cache[K, V]) get(ctx context.Context, key K, now time.Time) (entry[V], error) {
	// Most requests are answered from the map. A read lock lets them proceed in parallel.
	c.mu.RLock()
	e, ok := c.entries[key]
	c.mu.RUnlock()
	if ok && now.Before(e.until) {
		return e, nil
	}

	// Concurrent requests for a missing key wait for the same batch.
	e, err := c.group.Do(ctx, key)
	switch {
	case errors.Is(err, batch.ErrFull):
		return entry[V]{}, busy(err)
	case errors.Is(err, batch.ErrStopped):
		e := apierr.Wrap(apierr.Unavailable, err, "the service is stopping")
		e.RetryAfter = time.Second
		return entry[V]{}, e
	case err != nil:
		return entry[V]{}, pg.Unavailable(fmt.Errorf("reading credential: %w", err))
	}
	return e, nil
}

// busy returns the error for a request that cannot wait because too many others wait.
func busy(err error) error {
	e := apierr.Wrap(apierr.Overloaded, err, "too many requests are waiting for authentication; try again shortly")
	e.RetryAfter = time.Second
	return e
}

// timesForgotten returns the number of calls of forget and forgetWhere so far.
func (c *cache[K, V]) timesForgotten() int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.forgotten
}

// put caches the entries in found, which has one entry for each key, in the same order. forgotten is
// the result of timesForgotten before the entries were read. If entries were dropped since then, put
// caches nothing, because the read may have missed the change for which they were dropped.
func (c *cache[K, V]) put(keys []K, found []entry[V], forgotten int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.forgotten != forgotten {
		return
	}

	// The map is shrunk before the insertion, so it never exceeds its maximum size.
	if len(c.entries)+len(keys) > cacheSize {
		c.shrink()
	}
	for i, key := range keys {
		c.entries[key] = found[i]
	}
}

// shrink drops expired entries, and a tenth of the rest if too many remain. Requests with many
// random credentials therefore cause database reads, but do not increase the memory.
func (c *cache[K, V]) shrink() {
	// A whole tenth is dropped, so that shrink is rarely called. Go iterates over maps in random
	// order, so the dropped entries are random.
	now, spare := c.now(), cacheSize/10
	for key, e := range c.entries {
		if !now.Before(e.until) {
			delete(c.entries, key)
		}
	}
	for key := range c.entries {
		if len(c.entries) <= cacheSize-spare {
			return
		}
		delete(c.entries, key)
	}
}

// forget drops the entry of a key, so that the next get reads the value again. Reads in progress
// cache nothing; see put.
func (c *cache[K, V]) forget(key K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forgotten++
	delete(c.entries, key)
}

// forgetWhere drops the entries for whose values the function meant returns true. It scans all
// entries, which can take milliseconds. Call it only for rare changes.
func (c *cache[K, V]) forgetWhere(meant func(*V) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forgotten++
	for key, e := range c.entries {
		if e.found != nil && meant(e.found) {
			delete(c.entries, key)
		}
	}
}

// hashed returns the SHA-256 of a token, the only form in which tokens are stored and cached.
func hashed(token string) [32]byte { return sha256.Sum256([]byte(token)) }
