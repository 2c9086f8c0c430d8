package outbound

import (
	"context"
	"net"
	"net/http/httptrace"
	"sync"
)

type sendingKey struct{}

// WithSending has hook called when the connection for a request stands, just before the request's first byte leaves;
// nothing leaves when it fails, and its error is in the request's. Use it with Options.Fresh and without redirects.
func WithSending(ctx context.Context, hook func(ctx context.Context) error) context.Context {
	return context.WithValue(ctx, sendingKey{}, hook)
}

func sending(ctx context.Context) func(context.Context) error {
	hook, _ := ctx.Value(sendingKey{}).(func(context.Context) error)
	return hook
}

// writing knows whether a request has begun to leave. Once given up before, it never will.
type writing struct {
	ctx  context.Context //nolint:containedctx // of the request, for a write happens where there is none
	hook func(context.Context) error

	mu      sync.Mutex
	begun   bool
	refused error // why it must not begin
	hookErr error
}

// trace tells the connection whose request is written to it next.
func (w *writing) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		if c, ok := info.Conn.(*conn); ok {
			c.writing.Store(w)
			return
		}
		w.mu.Lock() // a connection that would not ask: nothing can be said of it
		defer w.mu.Unlock()
		w.begun = true
	}}
}

// begin is asked before each write.
func (w *writing) begin() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.begun || w.refused != nil {
		return w.refused
	}
	if w.hook != nil {
		if err := w.hook(w.ctx); err != nil {
			w.refused, w.hookErr = err, err
			return err
		}
	}
	w.begun = true
	return nil
}

// abandon ends a request without an answer, and reports whether nothing of it has left or will.
func (w *writing) abandon() (notSent bool, hookErr error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.begun && w.refused == nil {
		w.refused = net.ErrClosed
	}
	return !w.begun, w.hookErr
}
