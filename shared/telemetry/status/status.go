// Package status reports the state of a process. It creates the registry with the metrics that every
// process has, and provides the HTTP server of processes that have no other HTTP server. The server
// serves liveness checks, readiness checks and metrics. An ingress serves the same paths itself.
package status

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/rs/zerolog"
)

const (
	// time limit for all checks of one request, or of one scrape of the metrics
	checkTime = 2 * time.Second
	// time limit for reading a request, and for writing its response
	requestTime = 30 * time.Second
	// time after which a shutdown interrupts requests
	shutdownTime = 2 * time.Second
)

// Config is the configuration of the server.
type Config struct {
	Address string // host:port
	// Ready contains the checks of the process's dependencies, by name. The process is not ready
	// while a check fails, or while the process stops.
	Ready   Checks
	Metrics *prometheus.Registry
	Log     zerolog.Logger
}

// Server serves /healthz, /readyz and /metrics, without authentication. Create it with Listen and
// start it with Run.
type Server struct {
	cfg      Config
	listener net.Listener

	mu       sync.Mutex
	stopping bool
}

// Listen opens the address. Requests wait until Run is called.
func Listen(ctx context.Context, cfg Config) (*Server, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", cfg.Address)
	if err != nil {
		return nil, fmt.Errorf("listening on METRICS_ADDR: %w", err)
	}
	return &Server{cfg: cfg, listener: listener}, nil
}

// Address is the address that the server listens on.
func (s *Server) Address() net.Addr { return s.listener.Addr() }

// Stopping makes /readyz report from now on that the process is not ready.
func (s *Server) Stopping() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopping = true
}

// Run serves requests until ctx ends. It then waits at most shutdownTime for open requests. It
// returns an error only if serving or the shutdown failed.
func (s *Server) Run(ctx context.Context) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, readiness{Status: "ok"}) })
	mux.HandleFunc("GET /readyz", s.readyz)
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.cfg.Metrics, promhttp.HandlerOpts{}))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: requestTime, ReadTimeout: requestTime, WriteTimeout: requestTime}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(s.listener) }()
	s.cfg.Log.Info().Str("address", s.listener.Addr().String()).Msg("metrics ready")
	select {
	case err := <-failed:
		return fmt.Errorf("serving metrics: %w", err)
	case <-ctx.Done():
	}

	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTime)
	defer cancel()
	if err := server.Shutdown(end); err != nil {
		return errors.Join(fmt.Errorf("ending metrics: %w", err), server.Close())
	}

	return nil
}

// readiness is the body of a response to /readyz. An ingress uses the same format.
type readiness struct {
	Status string            `json:"status"`
	Checks map[string]string `json:"checks,omitempty"`
}

// readyz responds with 200 if all checks succeed and the process is not stopping, and otherwise
// with 503.
func (s *Server) readyz(w http.ResponseWriter, req *http.Request) {
	r := readiness{Status: "ready", Checks: s.check(req.Context())}
	status := http.StatusOK
	for _, result := range r.Checks {
		if result != "ok" {
			r.Status, status = "not ready", http.StatusServiceUnavailable
		}
	}

	// A process that is stopping is not ready even if all checks succeed, because a load balancer
	// must stop sending it requests.
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		r.Status, status = "draining", http.StatusServiceUnavailable
	}

	answer(w, status, r)
}

// check runs the checks concurrently and returns the result of each: "ok" or "failing". The checks
// together take at most checkTime. check logs the errors of failing checks.
func (s *Server) check(ctx context.Context) map[string]string {
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	results := map[string]string{}
	var mu sync.Mutex
	var checking sync.WaitGroup
	for name, probe := range s.cfg.Ready {
		checking.Go(func() {
			// The response is public, so it does not contain the error.
			result := "ok"
			if err := probe(ctx); err != nil {
				result = "failing"
				s.cfg.Log.Warn().Err(err).Str("check", name).Msg("readiness check failed")
			}
			mu.Lock()
			defer mu.Unlock()
			results[name] = result
		})
	}

	checking.Wait()
	return results
}

// answer writes a JSON response.
func answer(w http.ResponseWriter, status int, body readiness) {
	raw, err := json.Marshal(body)
	if err != nil {
		status = http.StatusInternalServerError // unreachable: strings can be encoded
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(raw) // the client may have gone
}
