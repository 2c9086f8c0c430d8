package model

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

const headerTimeout = 5 * time.Second

// server is an HTTP server on a loopback port in the bench's process.
type server struct {
	address string
	http    *http.Server
	ended   chan error
}

func serve(ctx context.Context, handler http.Handler) (*server, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening: %w", err)
	}
	s := &server{address: listener.Addr().String(), ended: make(chan error, 1)}
	s.http = &http.Server{Handler: handler, ReadHeaderTimeout: headerTimeout}
	go func() { s.ended <- s.http.Serve(listener) }()
	return s, nil
}

// Address returns the server's address as host:port.
func (s *server) Address() string { return s.address }

// Settings returns the settings for a worker that calls this provider.
func (s *server) Settings() map[string]string {
	return map[string]string{"OPENAI_BASE_URL": "http://" + s.address + "/v1", "OPENAI_API_KEY": "bench"}
}

func (s *server) stop() error {
	err := s.http.Close()
	if ended := <-s.ended; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, fmt.Errorf("serving %s: %w", s.address, ended))
	}
	return err
}

// gate lets answers pass while it is open and holds them while it is closed. newGate creates one.
type gate struct {
	mu   sync.Mutex
	open chan struct{} // while the gate is open, this channel is closed, so receives from it do not block
}

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
