package mcp

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Limits of the cache.
const (
	// Time for which a list is used without a new request.
	keepList = 5 * time.Minute
	// Time for which a failure is cached, so that an unreachable server does not delay every run.
	keepError = 5 * time.Second
	// Maximum number of lists of all organizations.
	maxLists   = 512
	maxKept    = 64 << 20 // bytes of all lists together
	maxOrg     = 64       // lists per organization
	maxOrgKept = 8 << 20  // bytes of the lists per organization
	// Time limit of a request for a list, including all of its pages.
	listTime   = 20 * time.Second
	freshAfter = 3 * time.Second // a list that is younger than this is not requested again
)

// key is a hash of all data on which a server's list of tools may depend; see keyFor.
type key [32]byte

// listing is a server's list of tools, possibly still being requested. The fields after done are
// set before the channel done is closed.
type listing struct {
	org string
	// Time of the request, from which the age of the listing is computed.
	asked time.Time
	done  chan struct{}

	tools    []remoteTool
	protocol string // version of the protocol that the server uses
	size     int
	err      error
	until    time.Time
}

// expired reports whether a listing is complete and has expired.
func (l *listing) expired(now time.Time) bool {
	select {
	case <-l.done:
		return now.After(l.until)
	// While a listing is being requested, it cannot expire.
	default:
		return false
	}
}

// cache caches listings. Callers that need the same listing at the same time share one request.
// Failures are cached, too, but only briefly. A cache is safe for concurrent use. A cache belongs
// to one process, so two tool workers may have different lists for up to keepList.
type cache struct {
	now func() time.Time

	mu    sync.Mutex
	lists map[key]*listing
}

// newCache returns an empty cache that uses the real clock.
func newCache() *cache { return &cache{now: time.Now, lists: map[key]*listing{}} }

// get returns a listing from the cache. If the listing is missing or has expired, get calls the
// function ask to request a new listing. get returns the error of the request, or an error if ctx
// ends first. The listing must not be changed.
func (c *cache) get(ctx context.Context, org string, k key, ask func(context.Context, *listing) error) (*listing, error) {
	l := c.start(ctx, org, k, ask)
	select {
	case <-l.done:
		return l, l.err
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for list: %w", context.Cause(ctx))
	}
}

// start returns the cached listing, or starts a request for a new one. The listing may be
// incomplete.
func (c *cache) start(ctx context.Context, org string, k key, ask func(context.Context, *listing) error) *listing {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	if l := c.lists[k]; l != nil && !l.expired(now) {
		return l
	}
	// The incomplete listing is added before the request, so that other callers find it and wait.
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

// fill completes a listing with the outcome of its request and wakes up the callers that wait for
// it.
func (c *cache) fill(l *listing, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l.err, l.until = err, c.now().Add(keepList)
	// A server that has failed may recover soon, so its error is cached only briefly.
	if err != nil {
		l.until = c.now().Add(keepError)
	}

	// The size of the listing is known now, so the limits of the cache are enforced again.
	close(l.done)
	c.shrink(c.now())
}

// forget removes a listing from the cache and returns true. It keeps a listing that is younger than
// freshAfter and returns false.
func (c *cache) forget(k key) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.lists[k]
	// A model may invent tool names. Without this minimum age, each invented name would cause a
	// request to the server.
	if l == nil || c.now().Sub(l.asked) < freshAfter {
		return false
	}
	delete(c.lists, k)
	return true
}

// share is the number and total size of an organization's lists, or of all lists.
type share struct{ lists, size int }

// shrink removes expired lists, and then the oldest lists of each organization that exceeds its
// limit. If the total is still too large, shrink repeatedly removes the oldest list of the largest
// organization. So an organization with few lists does not lose lists because another organization
// has many.
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

	// Update the sums after each removal, instead of computing them again from all lists.
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
	// Cannot happen: shrink calls dropOldest only for organizations that have lists.
	if oldest == nil {
		return 0
	}
	delete(c.lists, at)
	return sizeFor(oldest)
}

// sizeFor returns the size of a listing, which is 0 while the listing is being requested.
func sizeFor(l *listing) int {
	select {
	case <-l.done:
		return l.size
	default:
		return 0
	}
}
