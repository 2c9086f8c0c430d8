package mcp

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Limits of the cache.
const (
	// time for which a list is used without asking the server again
	keepList = 5 * time.Minute
	// time for which a failure is kept, so that an unreachable server does not delay every run
	keepError = 5 * time.Second
	// lists of all organizations
	maxLists   = 512
	maxKept    = 64 << 20 // bytes of all lists together
	maxOrg     = 64       // lists of one organization
	maxOrgKept = 8 << 20  // bytes of them
	// time limit for all pages of a list
	listTime   = 20 * time.Second
	freshAfter = 3 * time.Second // a list younger than this is not requested again
)

// key is a hash of all data on which a server's list may depend.
type key [32]byte

// listing is a server's list of tools, or a request for it. The fields below done are set before
// done is closed.
type listing struct {
	org string
	// asked is the time of the request. It determines the age of the listing.
	asked time.Time
	done  chan struct{}

	tools    []remoteTool
	protocol string // the protocol version that the server uses
	size     int
	err      error
	until    time.Time
}

// expired reports whether a completed listing has expired.
func (l *listing) expired(now time.Time) bool {
	select {
	case <-l.done:
		return now.After(l.until)
	// A listing that is being requested has no age yet.
	default:
		return false
	}
}

// cache caches listings. Callers that need the same listing at the same time share one request.
type cache struct {
	now func() time.Time

	mu    sync.Mutex
	lists map[key]*listing
}

// newCache returns an empty cache that uses the real clock.
func newCache() *cache { return &cache{now: time.Now, lists: map[key]*listing{}} }

// get returns a listing from the cache. If there is none or it has expired, get calls ask.
func (c *cache) get(ctx context.Context, org string, k key, ask func(context.Context, *listing) error) (*listing, error) {
	l := c.start(ctx, org, k, ask)
	select {
	case <-l.done:
		return l, l.err
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for list: %w", context.Cause(ctx))
	}
}

// start returns the current listing, or starts a new one.
func (c *cache) start(ctx context.Context, org string, k key, ask func(context.Context, *listing) error) *listing {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	if l := c.lists[k]; l != nil && !l.expired(now) {
		return l
	}
	// The incomplete listing is added first, so that further callers find it and wait.
	l := &listing{org: org, asked: now, done: make(chan struct{})}
	c.lists[k] = l
	c.shrink(now)
	// Other callers may wait for the same listing, so the request must not end with the context of
	// the first caller.
	asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), listTime)
	go func() {
		defer cancel()
		c.fill(l, guard(asking, func() error { return ask(asking, l) }))
	}()
	return l
}

// fill completes a listing with the outcome of its request.
func (c *cache) fill(l *listing, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l.err, l.until = err, c.now().Add(keepList)
	// A server that fails may soon recover, so the error is kept only briefly.
	if err != nil {
		l.until = c.now().Add(keepError)
	}

	// The size is known only now, so the limits are checked again.
	close(l.done)
	c.shrink(c.now())
}

// forget removes a listing from the cache. It returns false and keeps the listing if that is
// younger than freshAfter.
func (c *cache) forget(k key) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.lists[k]
	// A model that invents names must not cause a request for each of them.
	if l == nil || c.now().Sub(l.asked) < freshAfter {
		return false
	}
	delete(c.lists, k)
	return true
}

// share is the number and total size of an organization's lists, or of all lists.
type share struct{ lists, size int }

// shrink removes expired lists, and then the oldest lists of each organization that exceeds its
// limit. If the total is still too large, it removes the oldest lists of the largest organization
// repeatedly. So an organization with few lists does not lose them to an organization with many.
func (c *cache) shrink(now time.Time) {
	var all share
	shares := map[string]share{}
	for k, l := range c.lists {
		if l.expired(now) {
			delete(c.lists, k)
			continue
		}
		s := shares[l.org]
		shares[l.org] = share{s.lists + 1, s.size + sizeFor(l)}
		all = share{all.lists + 1, all.size + sizeFor(l)}
	}

	// The sums are updated incrementally, so that each removal needs no further pass over all
	// lists.
	drop := func(org string) {
		size := c.dropOldest(org)
		shares[org] = share{shares[org].lists - 1, shares[org].size - size}
		all = share{all.lists - 1, all.size - size}
	}

	for org := range shares {
		for shares[org].lists > maxOrg || shares[org].size > maxOrgKept {
			drop(org)
		}
	}
	for all.lists > maxLists || all.size > maxKept {
		drop(largest(shares, all.size > maxKept))
	}
}

// largest returns the organization with the most bytes or, if bySize is false, with the most lists.
func largest(shares map[string]share, bySize bool) string {
	var limit string
	for org, s := range shares {
		if bySize && s.size > shares[limit].size || !bySize && s.lists > shares[limit].lists {
			limit = org
		}
	}
	return limit
}

// dropOldest removes an organization's oldest list and returns its size.
func (c *cache) dropOldest(org string) int {
	var at key
	var oldest *listing
	for k, l := range c.lists {
		if l.org == org && (oldest == nil || l.asked.Before(oldest.asked)) {
			at, oldest = k, l
		}
	}
	// The loop in shrink calls this only for organizations with lists, so this is a safeguard.
	if oldest == nil {
		return 0
	}
	delete(c.lists, at)
	return sizeFor(oldest)
}

// sizeFor returns the size of a listing. While the listing is being requested, its size is 0.
func sizeFor(l *listing) int {
	select {
	case <-l.done:
		return l.size
	default:
		return 0
	}
}
