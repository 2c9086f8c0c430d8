package remote

import (
	"context"
	"errors"
	"net/http/httptrace"
	"sync/atomic"
	"time"
)

// Limits contains the time limits of a call. A zero field has its default value.
type Limits struct {
	Connect    time.Duration // until a connection is established, including TLS; default 5 s
	FirstToken time.Duration // from the start of the call to the first chunk; default 30 s
	IdleChunk  time.Duration // between two chunks; default 30 s
	Total      time.Duration // from the start to the end of the call; default 120 s
}

// afterFinish is the time limit for reading the rest of the stream after the answer is complete.
const afterFinish = 2 * time.Second

// withDefaults returns the limits, with zero fields replaced by their defaults.
func (l Limits) withDefaults() Limits {
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

// These are the causes with which a request is cancelled after it has exceeded a limit.
var (
	errConnect    = errors.New("no connection within the time limit")
	errFirstToken = errors.New("no first chunk within the time limit")
	errIdle       = errors.New("no further chunk within the time limit")
	errTotal      = errors.New("the response was not complete within the time limit")
	errLong       = errors.New("the answer was still being written at the time limit")
)

// Watch cancels a request that exceeds one of its time limits. It uses timers and no goroutine.
type Watch struct {
	cancel  context.CancelCauseFunc
	limits  Limits
	connect *time.Timer
	total   *time.Timer
	// chunk is the timer for the next chunk. It is replaced after the first chunk. Only the
	// goroutine that reads the stream uses it.
	chunk   *time.Timer
	begun   atomic.Bool // at least one chunk has arrived
	reached atomic.Bool // a connection was established
}

// StartWatch starts the timers of a call and returns the context for the request.
func StartWatch(parent context.Context, limits Limits) (context.Context, *Watch) {
	w := &Watch{limits: limits}
	ctx, cancel := context.WithCancelCause(parent)
	w.cancel = cancel
	after := func(d time.Duration, cause error) *time.Timer {
		return time.AfterFunc(d, func() { cancel(cause) })
	}

	// Start these timers now, because these limits count from the start of the call.
	w.connect = after(limits.Connect, errConnect)
	w.total = time.AfterFunc(limits.Total, func() { cancel(w.overdue()) })
	w.chunk = after(limits.FirstToken, errFirstToken)

	// Dial is not called if a connection is reused. In that case, only the trace reports that the
	// connection is ready.
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) {
			w.reached.Store(true)
			w.connect.Stop()
		},
	}), w
}

// Unsent reports whether the request was certainly not sent, because no connection was established.
func (w *Watch) Unsent() bool { return !w.reached.Load() }

// Pause stops the timer for chunks after a chunk has arrived. Resume starts the timer again, with
// the limit IdleChunk.
func (w *Watch) Pause() {
	w.chunk.Stop()
	if w.begun.CompareAndSwap(false, true) {
		w.chunk = time.AfterFunc(w.limits.IdleChunk, func() { w.cancel(errIdle) })
		w.chunk.Stop()
	}
}

// Resume starts the timer for the next chunk. Before the first chunk, it does nothing, because the
// timer is already running.
func (w *Watch) Resume() {
	if w.begun.Load() {
		w.chunk.Reset(w.limits.IdleChunk)
	}
}

// overdue returns the cause with which a request is cancelled when it exceeds the total limit. The
// cause shows whether chunks of the answer have arrived. If they have, the provider is not at
// fault: the prompt may demand a long answer, or the caller may read slowly.
func (w *Watch) overdue() error {
	if w.begun.Load() {
		return errLong
	}
	return errTotal
}

// Finishing reduces the time limit for the rest of the stream to afterFinish. It must be called
// when the answer is complete.
func (w *Watch) Finishing() { w.limits.IdleChunk = min(w.limits.IdleChunk, afterFinish) }

// limitFor returns the error of the exceeded limit that has cancelled ctx, or nil if no limit has
// cancelled ctx.
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
