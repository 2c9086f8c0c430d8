package model

import (
	"net/http"
	"net/http/httptest"
	"sync"
)

// server is an HTTP server on a loopback port in the bench's process.
type server struct{ http *httptest.Server }

// serve starts a server on a free port.
func serve(handler http.Handler) server { return server{httptest.NewServer(handler)} }

// Address returns the server's address as host:port.
func (s server) Address() string { return s.http.Listener.Addr().String() }

// Stop stops the server.
func (s server) Stop() { s.http.Close() }

// Settings returns the settings for a worker that calls this provider.
func (s server) Settings() map[string]string {
	return map[string]string{"OPENAI_BASE_URL": s.http.URL + "/v1", "OPENAI_API_KEY": "bench"}
}

// provider is a server whose answers can be held.
type provider struct {
	server
	*gate
}

// Stop releases the held answers and stops the provider.
func (p provider) Stop() {
	p.Release()
	p.server.Stop()
}

// gate lets answers pass while it is open and holds them while it is closed. newGate creates an
// open gate.
type gate struct {
	mu   sync.Mutex
	open chan struct{} // while the gate is open, this channel is closed, so receives from it do not block
}

// newGate returns an open gate.
func newGate() *gate {
	g := &gate{open: make(chan struct{})}
	close(g.open)
	return g
}

// opened returns a channel that is closed when the gate is opened.
func (g *gate) opened() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.open
}

// Hold closes the gate: later answers wait until Release.
func (g *gate) Hold() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = make(chan struct{})
}

// Release opens the gate. It may be called more than once.
func (g *gate) Release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.open:
	default:
		close(g.open)
	}
}
