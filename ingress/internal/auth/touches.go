package auth

import (
	"context"
	"sync"
	"time"
)

const (
	touchEvery = time.Minute     // per credential
	touchPause = time.Second     // time in which the credentials of many requests are collected for one write
	touchTime  = 3 * time.Second // timeout of one write
	touchSize  = 100_000         // credentials whose last use is remembered
)

// touches records when API keys and login sessions were last used. It writes outside of requests,
// and the records are lost if the database is unreachable.
type touches struct {
	write func(context.Context, map[string]time.Time) error
	wake  chan struct{}

	mu      sync.Mutex
	last    map[string]time.Time // the last use that was noted for each credential
	pending map[string]time.Time // uses to be written
}

// newTouches returns a touches that passes its records to write, as a map from a credential's id to its last use.
func newTouches(write func(context.Context, map[string]time.Time) error) *touches {
	return &touches{
		write: write, wake: make(chan struct{}, 1),
		last: map[string]time.Time{}, pending: map[string]time.Time{},
	}
}

// note records a use. It never blocks, and does nothing if a use of the credential was noted within
// touchEvery.
func (t *touches) note(name string, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now.Sub(t.last[name]) < touchEvery {
		return
	}
	if len(t.last) >= touchSize {
		clear(t.last) // emptying the map costs at most one extra write for each credential
	}

	t.last[name], t.pending[name] = now, now

	// The pause makes one write of the uses in many requests.
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// run writes records until ctx ends, and then writes the remaining ones.
func (t *touches) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			t.flush(context.WithoutCancel(ctx))
			return
		case <-t.wake:
		}
		select {
		case <-ctx.Done():
		case <-time.After(touchPause):
			t.flush(ctx)
		}
	}
}

// flush writes the pending records. It drops them if the write fails.
func (t *touches) flush(ctx context.Context) {
	t.mu.Lock()
	used := t.pending
	t.pending = map[string]time.Time{}
	t.mu.Unlock()
	if len(used) == 0 {
		return
	}

	ctx, cancel := context.WithTimeout(ctx, touchTime)
	defer cancel()
	_ = t.write(ctx, used) // the next use, a minute later, writes it again
}
