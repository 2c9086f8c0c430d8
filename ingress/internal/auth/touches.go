package auth

import (
	"context"
	"sync"
	"time"
)

const (
	touchEvery = time.Minute     // per credential
	touchPause = time.Second     // pause during which uses are collected for one write
	touchTime  = 3 * time.Second // timeout of one write
	touchSize  = 100_000         // maximum number of credentials whose last use is cached
)

// touches records when API keys and login sessions were last used. It writes the records
// independently of requests. If the database is unreachable, it drops them.
type touches struct {
	write func(context.Context, map[string]time.Time) error
	wake  chan struct{}

	mu      sync.Mutex
	last    map[string]time.Time // time of the last recorded use, by credential
	pending map[string]time.Time // uses that have not been written yet, by credential
}

// newTouches returns a touches that stores its records with write. The argument of write maps the
// id of a credential to the time of its last use.
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
		clear(t.last) // after clearing the map, each credential costs at most one extra write
	}

	t.last[name], t.pending[name] = now, now

	// During this pause, the uses of many requests accumulate, so that they need only one write.
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
	_ = t.write(ctx, used) // if the write fails, the uses are lost; a later use is recorded after a minute
}
