package changes

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"parley/shared/domain"
)

const (
	noticePace = 500 * time.Millisecond // minimum time between two notices of the same kind
	retryPace  = 5 * time.Second        // pause between checks of a subscription that is not confirmed
)

// ErrDrained is the error of a watcher whose hub is draining. The client can watch through another
// process.
var ErrDrained = errors.New("the service is stopping")

// Watcher receives notices of an organization's changes. Only one goroutine may use it. A Watcher
// is created by Hub.Watch.
type Watcher struct {
	hub *Hub
	org string
	// A signal in this channel wakes a waiting Next. The channel has room for one signal.
	wake  chan struct{}
	marks atomic.Uint32    // marks of the kinds for which a notice is due; any goroutine may set them
	next  [kinds]time.Time // earliest time of the next notice of each kind
	sure  bool             // whether the bus has confirmed the subscription
	// When the subscription is checked next.
	lookAt time.Time
	// Timer that the method sleep reuses.
	timer *time.Timer
}

// Close ends the watcher. It may be called more than once. Next must not be called afterwards.
func (w *Watcher) Close() {
	w.hub.leave(w)
	if w.timer != nil {
		w.timer.Stop()
	}
}

// mark sets marks and wakes the watcher. It never blocks. The hub calls mark while the lock of the
// hub is held.
func (w *Watcher) mark(marks uint32) {
	w.marks.Or(marks)
	select {
	case w.wake <- struct{}{}:
	default: // the watcher has a pending wake-up already
	}
}

// Next returns the kinds that have changed since the last call. If none has changed, it waits for a
// change until the given time. If none has changed by then, it returns nil. The error is
// ErrDrained, or that of ctx. Each kind is returned at most once in noticePace.
func (w *Watcher) Next(ctx context.Context, until time.Time) ([]domain.ChangeKind, error) {
	for {
		now := time.Now()
		w.listens(ctx, now)
		due, wait := w.take(now, until)
		if len(due) > 0 {
			return due, nil
		}
		if !now.Before(until) {
			return nil, nil
		}
		if err := w.sleep(ctx, wait); err != nil {
			return nil, err
		}
	}
}

// take returns the marked kinds that may be delivered now, and clears their marks. If there are
// none, the result wait is the time at which to call take again. It is not later than the argument
// until.
func (w *Watcher) take(now, until time.Time) (due []domain.ChangeKind, wait time.Time) {
	// A kind whose last notice is too recent stays marked until noticePace has passed.
	marks := w.marks.Load()
	for n, kind := range domain.ChangeKinds {
		switch {
		case marks&(1<<n) == 0:
		case now.Before(w.next[n]):
			if w.next[n].Before(until) {
				until = w.next[n]
			}
		default:
			w.marks.And(^uint32(1 << n)) // cleared before the delivery, so that a change during the delivery sets it again
			w.next[n] = now.Add(noticePace)
			due = append(due, kind)
		}
	}
	return due, until
}

// listens checks the subscription. While it is not confirmed, or the connection is lost, listens
// marks all kinds every retryPace, because changes may have been missed. listens does not wake the
// watcher, because callers call Next every few seconds anyway. now is the current time.
func (w *Watcher) listens(ctx context.Context, now time.Time) {
	if now.Before(w.lookAt) {
		return
	}
	w.lookAt = now.Add(retryPace)
	switch {
	case !w.hub.bus.Connected():
		w.marks.Or(all)
	case !w.sure:
		w.flush(ctx)
		w.marks.Or(all)
	}
}

// flush waits until the bus has confirmed the subscription. The result is in w.sure. An error is
// not returned, because the watcher then reports all kinds periodically.
func (w *Watcher) flush(ctx context.Context) {
	err := w.hub.bus.Flush(ctx)
	if err != nil {
		w.hub.log.Debug().Err(err).Str("org_id", w.org).Msg("change notifications may be lost; notifying all clients periodically instead")
	}
	w.sure = err == nil
	w.lookAt = time.Now().Add(retryPace)
}

// sleep waits until a mark is set, until the given time, or until ctx or the hub ends. It returns
// nil in the first two cases.
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
