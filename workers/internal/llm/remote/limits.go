package remote

import (
	"context"
	"errors"
	"net/http/httptrace"
	"sync/atomic"
	"time"
)

// Limits are the time limits of a call. A zero field means its default.
type Limits struct {
	Connect    time.Duration // until the connection is established, including TLS; default 5 s
	FirstToken time.Duration // from the start of the call to the first chunk; default 30 s
	IdleChunk  time.Duration // between two chunks; default 30 s
	Total      time.Duration // from the start to the end of the call; default 120 s
}

// afterFinish is the time limit for the rest of the stream after a complete answer.
const afterFinish = 2 * time.Second

// WithDefaults returns the limits with defaults for zero fields.
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

// Causes with which a request is canceled when it exceeds a limit.
var (
	errConnect    = errors.New("no connection within the limit")
	errFirstToken = errors.New("no first chunk within the limit")
	errIdle       = errors.New("no further chunk within the limit")
	errTotal      = errors.New("not complete within the limit")
	errLong       = errors.New("still being written at the limit")
)

// Watch cancels a request when one of its limits is exceeded. It uses timers and no goroutine.
type Watch struct {
	cancel  context.CancelCauseFunc
	limits  Limits
	connect *time.Timer
	total   *time.Timer
	// chunk is replaced at the first chunk; only the goroutine that reads the stream uses it.
	chunk   *time.Timer
	begun   atomic.Bool // at least one chunk has arrived
	reached atomic.Bool // a connection was established
}

// StartWatch starts the timers of a call and returns the context for its request.
func StartWatch(parent context.Context, limits Limits) (context.Context, *Watch) {
	w := &Watch{limits: limits}
	ctx, cancel := context.WithCancelCause(parent)
	w.cancel = cancel
	after := func(d time.Duration, cause error) *time.Timer {
		return time.AfterFunc(d, func() { cancel(cause) })
	}

	// The timers start together: each limit counts from the start of the call.
	w.connect = after(limits.Connect, errConnect)
	w.total = time.AfterFunc(limits.Total, func() { cancel(w.overdue()) })
	w.chunk = after(limits.FirstToken, errFirstToken)

	// A pooled connection needs no dial, so only the trace reports that a connection is ready.
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) {
			w.reached.Store(true)
			w.connect.Stop()
		},
	}), w
}

// Unsent reports whether no connection was established, so that the request was not sent.
func (w *Watch) Unsent() bool { return !w.reached.Load() }

// Pause stops the chunk timer after a chunk has arrived. After the first chunk, the timer uses
// IdleChunk.
func (w *Watch) Pause() {
	w.chunk.Stop()
	if w.begun.CompareAndSwap(false, true) {
		w.chunk = time.AfterFunc(w.limits.IdleChunk, func() { w.cancel(errIdle) })
		w.chunk.Stop()
	}
}

// Resume starts the timer for the next chunk. Before the first chunk it is already running.
func (w *Watch) Resume() {
	if w.begun.Load() {
		w.chunk.Reset(w.limits.IdleChunk)
	}
}

// overdue returns the cause for exceeding the total limit. It distinguishes an answer that is still
// arriving from no answer at all. An answer may be long because of the prompt or slow because of
// the caller, so it is not the provider's fault.
func (w *Watch) overdue() error {
	if w.begun.Load() {
		return errLong
	}
	return errTotal
}

// Finishing shortens the limit for the rest of the stream, after the answer is complete.
func (w *Watch) Finishing() { w.limits.IdleChunk = min(w.limits.IdleChunk, afterFinish) }

// limitFor returns the limit because of which ctx was canceled, or nil.
func limitFor(ctx context.Context) error {
	for _, limit := range []error{errConnect, errFirstToken, errIdle, errTotal, errLong} {
		if errors.Is(context.Cause(ctx), limit) {
			return limit
		}
	}
	return nil
}

// Stop stops the timers and cancels the request.
func (w *Watch) Stop() {
	w.connect.Stop()
	w.total.Stop()
	w.chunk.Stop()
	w.cancel(nil)
}
