package remote

import (
	"context"
	"errors"
	"net/http/httptrace"
	"sync/atomic"
	"time"
)

// Limits bound the parts of a call; a zero field means its default.
type Limits struct {
	Connect    time.Duration // to a connection, TLS included: 5 s
	FirstToken time.Duration // from the start to the first chunk: 30 s
	IdleChunk  time.Duration // between chunks: 30 s
	Total      time.Duration // from the start to the end: 120 s
}

// afterFinish is how long what follows a complete answer may still be waited for.
const afterFinish = 2 * time.Second

// WithDefaults fills in what is not set.
func (l Limits) WithDefaults() Limits {
	set := func(d *time.Duration, value time.Duration) {
		if *d <= 0 {
			*d = value
		}
	}
	set(&l.Connect, 5*time.Second)
	set(&l.FirstToken, 30*time.Second)
	set(&l.IdleChunk, 30*time.Second)
	set(&l.Total, 120*time.Second)
	return l
}

// The limits, as causes of a cancelled request.
var (
	errConnect    = errors.New("no connection within the limit")
	errFirstToken = errors.New("no first chunk within the limit")
	errIdle       = errors.New("no further chunk within the limit")
	errTotal      = errors.New("not complete within the limit")
	errLong       = errors.New("still being written at the limit")
)

// Watch cancels one request when one of its limits runs out. Its timers are the
// runtime's own: no goroutine waits, however many requests are open.
type Watch struct {
	cancel  context.CancelCauseFunc
	limits  Limits
	connect *time.Timer
	total   *time.Timer
	chunk   *time.Timer
	begun   atomic.Bool // a chunk has arrived
	reached atomic.Bool // there was a connection
}

// StartWatch starts the clocks and gives the context to make the request with.
func StartWatch(parent context.Context, limits Limits) (context.Context, *Watch) {
	w := &Watch{limits: limits}
	ctx, cancel := context.WithCancelCause(parent)
	w.cancel = cancel
	after := func(d time.Duration, cause error) *time.Timer {
		return time.AfterFunc(d, func() { cancel(cause) })
	}
	w.connect = after(limits.Connect, errConnect)
	w.total = time.AfterFunc(limits.Total, func() { cancel(w.overdue()) })
	w.chunk = after(limits.FirstToken, errFirstToken)
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) {
			w.reached.Store(true)
			w.connect.Stop()
		},
	}), w
}

// Unsent reports whether there was no connection to send the request on.
func (w *Watch) Unsent() bool { return !w.reached.Load() }

// Pause stops the clock on chunks when one has arrived; the first one is then past.
func (w *Watch) Pause() {
	w.chunk.Stop()
	if w.begun.CompareAndSwap(false, true) {
		w.chunk = time.AfterFunc(w.limits.IdleChunk, func() { w.cancel(errIdle) })
		w.chunk.Stop()
	}
}

// Resume starts the clock on the next chunk; before the first one it is already running.
func (w *Watch) Resume() {
	if w.begun.Load() {
		w.chunk.Reset(w.limits.IdleChunk)
	}
}

// overdue tells an answer that takes too long from none: how long one is to become is the prompt's wish, and how fast it
// is read the caller's doing.
func (w *Watch) overdue() error {
	if w.begun.Load() {
		return errLong
	}
	return errTotal
}

// Finishing shortens the wait for what follows a complete answer.
func (w *Watch) Finishing() { w.limits.IdleChunk = min(w.limits.IdleChunk, afterFinish) }

// limitFor gives the limit that ended the request of a context, nil if none did.
func limitFor(ctx context.Context) error {
	for _, limit := range []error{errConnect, errFirstToken, errIdle, errTotal, errLong} {
		if errors.Is(context.Cause(ctx), limit) {
			return limit
		}
	}
	return nil
}

// Stop ends the watch and the request.
func (w *Watch) Stop() {
	w.connect.Stop()
	w.total.Stop()
	w.chunk.Stop()
	w.cancel(nil)
}
