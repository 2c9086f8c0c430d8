package ratelimit

import (
	"sync"
	"time"
)

// Failures limits the number of failures within a window for each name. For example, it limits
// wrong passwords for each account and client address. Each process counts independently. It is
// safe for concurrent use.
type Failures struct {
	limit  int
	window time.Duration
	now    func() time.Time

	mu     sync.Mutex
	counts map[string]failureCount
}

// failureCount is the number of failures of a name in the current window. It counts as 0 after the
// window has ended.
type failureCount struct {
	n     int
	until time.Time
}

const maxFailures = 100_000 // maximum number of names in memory

// NewFailures returns Failures that allow each name up to limit failures per window.
func NewFailures(limit int, window time.Duration, now func() time.Time) *Failures {
	return &Failures{limit: limit, window: window, now: now, counts: map[string]failureCount{}}
}

// Begin counts an attempt as a failure in advance, so that concurrent attempts cannot exceed the
// limit. If the limit is reached, it returns how long to wait, and otherwise 0. The caller must
// call Undo after a success.
func (f *Failures) Begin(name string) (wait time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	c := f.counts[name]

	// The first failure after the end of a window begins a new window.
	if !now.Before(c.until) {
		if len(f.counts) >= maxFailures {
			f.shrink(now)
		}
		c = failureCount{until: now.Add(f.window)}
	}

	if c.n >= f.limit {
		return c.until.Sub(now)
	}
	c.n++
	f.counts[name] = c
	return 0
}

// Wait returns how long a name must wait for its next attempt. It does not count an attempt. A name
// without failures need not wait.
func (f *Failures) Wait(name string) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c := f.counts[name]; c.n >= f.limit {
		return max(0, c.until.Sub(f.now()))
	}
	return 0
}

// Undo reverses one call of Begin, after a successful attempt. An undo after the end of the window
// may reduce the count of the next window.
func (f *Failures) Undo(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c, known := f.counts[name]
	if !known {
		return
	}
	if c.n--; c.n <= 0 {
		delete(f.counts, name)
		return
	}
	f.counts[name] = c
}

// shrink drops expired counts. If too many counts remain, it also drops a tenth of them,
// chosen at random. The caller must hold f.mu.
func (f *Failures) shrink(now time.Time) {
	for name, c := range f.counts {
		if !now.Before(c.until) {
			delete(f.counts, name)
		}
	}
	for name := range f.counts {
		if len(f.counts) <= maxFailures-maxFailures/10 {
			return
		}
		delete(f.counts, name)
	}
}
