package model

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"parley/shared/testkit/openaistub"
)

// Where a process is told what to do, and asked what it has done.
const (
	readyPath   = "/ready"
	holdPath    = "/hold"
	releasePath = "/release"
	activePath  = "/active"
	countPath   = "/count"

	headerTimeout = 5 * time.Second
)

// Serve serves on address until ctx ends: answers come after delay, and not while they are held.
func Serve(ctx context.Context, address string, delay time.Duration) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	s := newServer(delay)
	server := &http.Server{Handler: s.routes(), ReadHeaderTimeout: headerTimeout}
	stop := context.AfterFunc(ctx, func() {
		s.release()
		_ = server.Close() // nothing here is worth a drain
	})
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving HTTP: %w", err)
	}
	return nil
}

type server struct {
	stub  *openaistub.Server
	delay time.Duration

	mu   sync.Mutex
	held chan struct{} // closed when answers may go out
}

func newServer(delay time.Duration) *server {
	s := &server{stub: openaistub.New(), delay: delay, held: make(chan struct{})}
	close(s.held)
	s.stub.Respond(s.respond)
	return s
}

func (s *server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/v1/", s.stub)
	mux.HandleFunc("GET "+readyPath, func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("POST "+holdPath, func(http.ResponseWriter, *http.Request) { s.hold() })
	mux.HandleFunc("POST "+releasePath, func(http.ResponseWriter, *http.Request) { s.release() })
	mux.HandleFunc("POST "+activePath, func(w http.ResponseWriter, _ *http.Request) { answer(w, s.stub.Active()) })
	mux.HandleFunc("POST "+countPath, s.count)
	return mux
}

// respond keeps the answer back for as long as is asked for; the text is the stub's own.
func (s *server) respond(r openaistub.Request) (openaistub.Reply, bool) {
	s.mu.Lock()
	held := s.held
	s.mu.Unlock()
	<-held
	return openaistub.Reply{Text: "echo: " + r.Prompt(), Delay: s.delay}, s.delay > 0
}

// hold keeps back the answers to calls from now on.
func (s *server) hold() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = make(chan struct{})
}

// release lets all answers go.
func (s *server) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.held:
	default:
		close(s.held)
	}
}

// count tells how often each of the messages was asked.
func (s *server) count(w http.ResponseWriter, r *http.Request) {
	var messages []string
	if err := json.NewDecoder(r.Body).Decode(&messages); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	counts := make([]int, len(messages))
	for i, message := range messages {
		counts[i] = s.stub.Count(message)
	}
	answer(w, counts)
}

func answer(w http.ResponseWriter, v any) {
	raw, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_, _ = w.Write(raw) // whoever asked sees it cut
}
