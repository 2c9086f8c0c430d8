package auth

import (
	"context"
	"sync"
	"time"

	"parley/shared/lifecycle"
)

const (
	touchEvery = time.Minute     // per credential
	touchPause = time.Second     // time for which uses are collected before one write stores them
	touchTime  = 3 * time.Second // timeout of one write
	touchSize  = 100_000         // maximum number of credentials whose last use is cached
)

// touches stores when API keys and login sessions were last used. It writes in the background, so
// that requests do not wait. If the database is unreachable, the uses are not stored. touches is
// safe for concurrent use.
type touches struct {
	write func(context.Context, map[string]time.Time) error
	wake  chan struct{}

	mu      sync.Mutex
	last    map[string]time.Time // time of the last recorded use, by credential
	pending map[string]time.Time // uses that have not been written yet, by credential
}

// newTouches returns a touches that calls write to store uses. write receives the time of the last
// use of each credential, by the credential's id.
func newTouches(write func(context.Context, map[string]time.Time) error) *touches {
	return &touches{
		write: write, wake: make(chan struct{}, 1),
		last: map[string]time.Time{}, pending: map[string]time.Time{},
	}
}

// note records that a credential was used. It never blocks. It does nothing if a use of the
// credential was recorded in the last minute. The use is written within about a second.
func (t *touches) note(name string, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now.Sub(t.last[name]) < touchEvery {
		return
	}
	if len(t.last) >= touchSize {
		clear(t.last) // each credential then costs at most one additional write
	}

	t.last[name], t.pending[name] = now, now

	// This signal wakes run, which waits for touchPause, so that one write stores the uses of many
	// requests.
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// run writes the recorded uses until ctx ends. At the end it writes the remaining uses. run is
// called once.
func (t *touches) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			t.flush(context.WithoutCancel(ctx))
			return
		case <-t.wake:
		}
		if lifecycle.Sleep(ctx, touchPause) == nil {
			t.flush(ctx)
		}
	}
}

// flush writes the pending uses. If the write fails, they are lost.
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
	_ = t.write(ctx, used) // an error is ignored, because a later use of the credential will be recorded
}
