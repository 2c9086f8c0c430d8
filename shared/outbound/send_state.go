package outbound

import (
	"context"
	"net"
	"net/http/httptrace"
	"sync"
)

// sendingKey is the context key for the hook that WithSending sets.
type sendingKey struct{}

// WithSending makes the client call hook when the connection for a request is ready, just
// before the first byte is sent. If hook fails, nothing is sent, and the request's error wraps
// the hook's. Use it with Options.Fresh and without redirects.
func WithSending(ctx context.Context, hook func(ctx context.Context) error) context.Context {
	return context.WithValue(ctx, sendingKey{}, hook)
}

// sendingHook returns the hook that WithSending has set, or nil.
func sendingHook(ctx context.Context) func(context.Context) error {
	hook, _ := ctx.Value(sendingKey{}).(func(context.Context) error)
	return hook
}

// sendState records whether the sending of a request has begun. After abandon, the sending never
// begins. Each request has its own sendState, and so has each redirect.
type sendState struct {
	ctx  context.Context //nolint:containedctx // context of the request, because a write has no context
	hook func(context.Context) error

	mu      sync.Mutex
	begun   bool  // a byte may have been sent
	refused error // why sending must not begin
	hookErr error // the error of the hook, because of which the sending never begins
}

// trace returns a trace that passes the sending state to the connection that the request will use.
func (w *sendState) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		if c, ok := info.Conn.(*conn); ok {
			c.sendState.Store(w)
			return
		}
		w.mu.Lock() // on a connection of another type, it is unknown whether a part of the request was sent
		defer w.mu.Unlock()
		w.begun = true
	}}
}

// begin is called before each write. It returns an error if the request must not be sent. It may
// wait for the hook.
func (w *sendState) begin() error {
	w.mu.Lock()
	defer w.mu.Unlock()

	// The hook is called once for each request, before its first write.
	if w.begun || w.refused != nil {
		return w.refused
	}

	// The hook runs under the lock, so that abandon waits until it is known whether sending begins.
	if w.hook != nil {
		if err := w.hook(w.ctx); err != nil {
			w.refused, w.hookErr = err, err
			return err
		}
	}

	w.begun = true
	return nil
}

// abandon ends a request without a response, and reports whether no part of it was or will be sent.
func (w *sendState) abandon() (notSent bool, hookErr error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.begun && w.refused == nil {
		w.refused = net.ErrClosed
	}
	return !w.begun, w.hookErr
}
