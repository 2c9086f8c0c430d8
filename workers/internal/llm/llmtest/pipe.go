package llmtest

import (
	"context"
	"net"
	"net/http"
	"testing"
)

// Serve runs an HTTP server over net.Pipe and returns a function that connects to the server. It is
// meant for synctest bubbles, in which a goroutine that waits for a pipe is durably blocked. The
// test must close all clients before it ends.
func Serve(t *testing.T, handler http.Handler) func(ctx context.Context, network, address string) (net.Conn, error) {
	t.Helper()
	listener := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
	server := &http.Server{Handler: handler} //nolint:gosec // the only client is the test itself
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return listener.dial
}

// pipes is a listener whose connections are pipes.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

// Accept returns the server's end of the next connection, or an error after the listener was
// closed.
func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

// Close closes the listener.
func (p *pipes) Close() error { close(p.done); return nil }

// Addr returns an empty address.
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// dial connects a client. It waits until the server accepts the connection or ctx ends.
func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p.conns <- server:
		return client, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
