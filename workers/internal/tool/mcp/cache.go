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
	listTime   = 20 * time.Second
	freshAfter = 3 * time.Second // a list this young is not asked for again
)

// key is the hash of whatever a server's list may depend on.
type key [32]byte

// listing is what a server was found to have. What is below done is set before it is closed.
type listing struct {
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
func (c *cache) get(ctx context.Context, k key, ask func(context.Context, *listing) error) (*listing, error) {
	c.mu.Lock()
	now := c.now()
	l := c.lists[k]
	if l == nil || l.over(now) {
		l = &listing{asked: now, done: make(chan struct{})}
		c.lists[k] = l
		c.shrink(now)
		// It is for whoever else waits, too: it does not end with the first that has asked.
		asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), listTime)
		go func() {
			defer cancel()
			c.fill(l, ask(asking, l))
		}()
	}
	c.mu.Unlock()
	select {
	case <-l.done:
		return l, l.err
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for list: %w", context.Cause(ctx))
	}
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

// shrink drops what is over, and then the oldest until the rest is within its bounds.
func (c *cache) shrink(now time.Time) {
	size := 0
	for k, l := range c.lists {
		if l.over(now) {
			delete(c.lists, k)
			continue
		}
		size += sizeOf(l)
	}
	for len(c.lists) > maxLists || size > maxKept {
		var oldest key
		for k, l := range c.lists {
			if first := c.lists[oldest]; first == nil || l.asked.Before(first.asked) {
				oldest = k
			}
		}
		size -= sizeOf(c.lists[oldest])
		delete(c.lists, oldest)
	}
}

// sizeOf a listing on its way is not known yet.
func sizeOf(l *listing) int {
	select {
	case <-l.done:
		return l.size
	default:
		return 0
	}
}
