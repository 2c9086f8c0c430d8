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
	"parley/shared/store"
)

const (
	remember    = 4 * time.Second // and a revocation holds after 5 s: the rest is for a slow read
	lookupTime  = 3 * time.Second
	lookupBatch = 256
	lookupQueue = 8192
	cacheSize   = 100_000
)

// cache remembers credentials, and that there is none, for a moment. Misses of many requests are read
// in one query, so that many credentials used rarely cost little more than one used often.
type cache[K comparable] struct {
	now   func() time.Time
	group *batch.Group[K, entry]

	mu      sync.RWMutex
	entries map[K]entry
}

type entry struct {
	cred  *store.Credential // nil: there is none
	until time.Time
}

// newCache reads many credentials at once with read, which gives them by the name that name makes of a key.
func newCache[K comparable](
	now func() time.Time, read func(context.Context, []K) (map[string]*store.Credential, error), name func(K) string,
) *cache[K] {
	c := &cache[K]{now: now, entries: map[K]entry{}}
	c.group = batch.New(lookupBatch, lookupQueue, func(ctx context.Context, keys []K) ([]entry, error) {
		until := c.now().Add(remember) // from before the read: a change after it may have been missed
		ctx, cancel := context.WithTimeout(ctx, lookupTime)
		defer cancel()
		found, err := read(ctx, keys)
		if err != nil {
			return nil, err
		}
		out := make([]entry, len(keys))
		for i, key := range keys {
			out[i] = entry{found[name(key)], until}
		}
		c.put(keys, out)
		return out, nil
	})
	return c
}

// get gives the entry of a credential, in which it is nil when there is none. Its errors are coded.
func (c *cache[K]) get(ctx context.Context, key K, now time.Time) (entry, error) {
	c.mu.RLock()
	e, ok := c.entries[key]
	c.mu.RUnlock()
	if ok && now.Before(e.until) {
		return e, nil
	}
	e, err := c.group.Do(ctx, key)
	switch {
	case errors.Is(err, batch.ErrFull):
		return entry{}, busy(err)
	case errors.Is(err, batch.ErrStopped):
		e := apierr.Wrap(apierr.Unavailable, err, "the service is stopping")
		e.RetryAfter = time.Second
		return entry{}, e
	case err != nil:
		return entry{}, store.Unavailable(fmt.Errorf("reading credential: %w", err))
	}
	return e, nil
}

// busy is the refusal of work that would have to wait too long.
func busy(err error) error {
	e := apierr.Wrap(apierr.Overloaded, err, "too many requests are waiting to log in or be recognised")
	e.RetryAfter = time.Second
	return e
}

func (c *cache[K]) put(keys []K, found []entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.entries)+len(keys) > cacheSize {
		c.shrink()
	}
	for i, key := range keys {
		c.entries[key] = found[i]
	}
}

// shrink drops what is over, and a tenth of the rest when that was not enough to go on with: a flood
// of invented credentials costs reads, not memory.
func (c *cache[K]) shrink() {
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

func (c *cache[K]) forget(key K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.entries, key)
}

// forgetWhere looks at all entries, which takes milliseconds when there are many: it is for rare changes.
func (c *cache[K]) forgetWhere(meant func(*store.Credential) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, e := range c.entries {
		if e.cred != nil && meant(e.cred) {
			delete(c.entries, key)
		}
	}
}

func hashed(token string) [32]byte { return sha256.Sum256([]byte(token)) }
