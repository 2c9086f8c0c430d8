package mcp

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Limits of what is kept of servers' lists.
const (
	keepList   = 5 * time.Minute
	keepError  = 5 * time.Second
	maxLists   = 512
	maxKept    = 64 << 20 // bytes of all lists together
	maxOrg     = 64       // lists of one organization
	maxOrgKept = 8 << 20  // bytes of them together
	listTime   = 20 * time.Second
	freshAfter = 3 * time.Second // a list this young is not asked for again
)

// key is the hash of whatever a server's list may depend on.
type key [32]byte

// listing is what a server was found to have. What is below done is set before it is closed.
type listing struct {
	org   string
	asked time.Time
	done  chan struct{}

	tools    []remote
	protocol string // the version that the server speaks
	size     int
	err      error
	until    time.Time
}

// over reports whether a listing that is done is not to be used any more.
func (l *listing) over(now time.Time) bool {
	select {
	case <-l.done:
		return now.After(l.until)
	default:
		return false
	}
}

// cache keeps listings; whoever asks for one that is on its way waits for it.
type cache struct {
	now func() time.Time

	mu    sync.Mutex
	lists map[key]*listing
}

func newCache() *cache { return &cache{now: time.Now, lists: map[key]*listing{}} }

// get gives a listing that is not older than it may be, asking for it when there is none.
func (c *cache) get(ctx context.Context, org string, k key, ask func(context.Context, *listing) error) (*listing, error) {
	l := c.start(ctx, org, k, ask)
	select {
	case <-l.done:
		return l, l.err
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for list: %w", context.Cause(ctx))
	}
}

// start finds the listing to wait for.
func (c *cache) start(ctx context.Context, org string, k key, ask func(context.Context, *listing) error) *listing {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	if l := c.lists[k]; l != nil && !l.over(now) {
		return l
	}
	l := &listing{org: org, asked: now, done: make(chan struct{})}
	c.lists[k] = l
	c.shrink(now)
	// It is for whoever else waits, too: it does not end with the first that has asked.
	asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), listTime)
	go func() {
		defer cancel()
		c.fill(l, guard(asking, func() error { return ask(asking, l) }))
	}()
	return l
}

func (c *cache) fill(l *listing, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l.err, l.until = err, c.now().Add(keepList)
	if err != nil {
		l.until = c.now().Add(keepError)
	}
	close(l.done)
	c.shrink(c.now())
}

// forget drops a listing, unless it has just been asked for, and reports whether it did.
func (c *cache) forget(k key) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.lists[k]
	if l == nil || c.now().Sub(l.asked) < freshAfter {
		return false
	}
	delete(c.lists, k)
	return true
}

// share is what lists take up.
type share struct{ lists, size int }

// shrink drops what is over, and then the oldest lists until the rest is within its bounds: of each organization that
// has too much, and then of those that have the most. Whoever has little loses nothing to one that has a lot.
func (c *cache) shrink(now time.Time) {
	var all share
	shares := map[string]share{}
	for k, l := range c.lists {
		if l.over(now) {
			delete(c.lists, k)
			continue
		}
		s := shares[l.org]
		shares[l.org] = share{s.lists + 1, s.size + sizeFor(l)}
		all = share{all.lists + 1, all.size + sizeFor(l)}
	}
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

// largest names the organization that has the most bytes or the most lists.
func largest(shares map[string]share, bySize bool) string {
	var limit string
	for org, s := range shares {
		if bySize && s.size > shares[limit].size || !bySize && s.lists > shares[limit].lists {
			limit = org
		}
	}
	return limit
}

// dropOldest drops the oldest list of an organization and gives its size.
func (c *cache) dropOldest(org string) int {
	var at key
	var oldest *listing
	for k, l := range c.lists {
		if l.org == org && (oldest == nil || l.asked.Before(oldest.asked)) {
			at, oldest = k, l
		}
	}
	if oldest == nil {
		return 0
	}
	delete(c.lists, at)
	return sizeFor(oldest)
}

// sizeFor a listing on its way is not known yet.
func sizeFor(l *listing) int {
	select {
	case <-l.done:
		return l.size
	default:
		return 0
	}
}
