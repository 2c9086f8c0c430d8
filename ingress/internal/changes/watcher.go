package changes

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"parley/shared/domain"
)

const (
	pace     = 500 * time.Millisecond // between two of a kind
	deafPace = 5 * time.Second        // between looks at whether anything can be heard
)

// ErrDrained ends the watchers of a hub that stops; one can watch on elsewhere.
var ErrDrained = errors.New("the service is stopping")

// Watcher is told of an organization's changes. Only one goroutine may use it.
type Watcher struct {
	hub    *Hub
	org    string
	wake   chan struct{}
	marks  atomic.Uint32    // of kinds that are to be told; anybody's
	next   [kinds]time.Time // no kind is told before
	sure   bool             // the bus has said that changes are heard
	lookAt time.Time
	timer  *time.Timer
}

// Close ends the watcher; it may be called again.
func (w *Watcher) Close() {
	w.hub.leave(w)
	if w.timer != nil {
		w.timer.Stop()
	}
}

func (w *Watcher) mark(marks uint32) {
	w.marks.Or(marks)
	select {
	case w.wake <- struct{}{}:
	default: // it will look anyhow
	}
}

// Next gives the kinds of what has changed since they were given last, waiting for some until that time; none when it has come.
func (w *Watcher) Next(ctx context.Context, until time.Time) ([]domain.ChangeKind, error) {
	for {
		now := time.Now()
		w.listens(ctx, now)
		told, wait := w.take(now, until)
		if len(told) > 0 {
			return told, nil
		}
		if !now.Before(until) {
			return nil, nil
		}
		if err := w.sleep(ctx, wait); err != nil {
			return nil, err
		}
	}
}

// take gives the kinds whose time has come, or else when to look again.
func (w *Watcher) take(now, until time.Time) (told []domain.ChangeKind, wait time.Time) {
	marks := w.marks.Load()
	for n, kind := range domain.ChangeKinds {
		switch {
		case marks&(1<<n) == 0:
		case now.Before(w.next[n]):
			if w.next[n].Before(until) {
				until = w.next[n]
			}
		default:
			w.marks.And(^uint32(1 << n)) // before it is told: what is marked from now on is news
			w.next[n] = now.Add(pace)
			told = append(told, kind)
		}
	}
	return told, until
}

// listens marks everything now and then while nothing can be heard. It wakes nobody for that: callers look every few seconds.
func (w *Watcher) listens(ctx context.Context, now time.Time) {
	if now.Before(w.lookAt) {
		return
	}
	w.lookAt = now.Add(deafPace)
	switch {
	case !w.hub.bus.Connected():
		w.marks.Or(all) // and all is told once more when the connection is back
	case !w.sure:
		w.flush(ctx)
		w.marks.Or(all)
	}
}

// flush makes sure that changes are heard from now on.
func (w *Watcher) flush(ctx context.Context) {
	err := w.hub.bus.Flush(ctx)
	if err != nil {
		w.hub.log.Debug().Err(err).Str("org_id", w.org).Msg("changes may not be heard yet; everything is told now and then")
	}
	w.sure = err == nil
	w.lookAt = time.Now().Add(deafPace)
}

// sleep waits for a mark or until that time.
func (w *Watcher) sleep(ctx context.Context, until time.Time) error {
	if w.timer == nil {
		w.timer = time.NewTimer(time.Until(until))
	} else {
		w.timer.Reset(time.Until(until))
	}
	select {
	case <-w.wake:
		return nil
	case <-w.timer.C:
		return nil
	case <-w.hub.drained:
		return ErrDrained
	case <-ctx.Done():
		return ctx.Err()
	}
}
