package searchserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"parley/shared/bus"
	"parley/shared/contract"
	"parley/shared/telemetry/tracing"
)

const (
	drainTime    = 5 * time.Second // for searches in hand to finish before they are cancelled
	defaultLimit = 10
	maxLimit     = 50
	maxAnswer    = 900 << 10 // bytes; more does not fit a message
)

var errPanic = errors.New("the search panicked")

// Bus is where searches come from.
type Bus interface {
	ServeTool(
		kind string, cfg bus.ToolServing, handle func(context.Context, bus.ToolMessage) ([]byte, bool),
	) (stop func(context.Context), err error)
}

// Searcher searches an organization's documents.
type Searcher interface {
	Search(ctx context.Context, org string, request contract.SearchRequest) (contract.SearchReply, error)
}

// Verifier tells whether claims hold for a body, and what they are.
type Verifier interface {
	Verify(token string, body []byte) (claims []byte, err error)
}

// Config are a search server's settings.
type Config struct {
	Concurrency int // searches made at a time
}

// Deps are what a search server works with.
type Deps struct {
	Bus      Bus
	Searcher Searcher
	Verifier Verifier
	Tracer   *tracing.Tracer // nil: searches are not traced
	Metrics  prometheus.Registerer
	Log      zerolog.Logger
}

// Server answers searches. Make it with New and start it with Run.
type Server struct {
	cfg     Config
	deps    Deps
	seconds *prometheus.HistogramVec
	log     zerolog.Logger
}

// New makes a search server.
func New(cfg Config, deps Deps) (*Server, error) {
	s := &Server{cfg: cfg, deps: deps, log: deps.Log, seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "parley_search_seconds", Help: "Time that searches of documents took, by outcome.",
		Buckets: []float64{.002, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5},
	}, []string{"outcome"})}
	if err := deps.Metrics.Register(s.seconds); err != nil {
		return nil, fmt.Errorf("registering metrics: %w", err)
	}
	s.seconds.WithLabelValues("completed")
	return s, nil
}

// Run answers searches until ctx ends; then it lets those in hand finish for a while and cancels the rest.
func (s *Server) Run(ctx context.Context) error {
	serving := bus.ToolServing{Slots: s.cfg.Concurrency, Queue: max(s.cfg.Concurrency, 8), Owner: s.owner}
	stop, err := s.deps.Bus.ServeTool(contract.KindSearch, serving, s.handle)
	if err != nil {
		return fmt.Errorf("serving searches: %w", err)
	}
	<-ctx.Done()
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer cancel()
	stop(drain)
	return nil
}

// owner gives searches to their organizations, and refuses those without claims.
func (s *Server) owner(m bus.ToolMessage) (string, bool) {
	claims, _, err := s.verify(m)
	if err != nil {
		s.refuse(err)
	}
	return claims.OrganizationID, err == nil
}

// refuse counts and logs a search that no claims allow.
func (s *Server) refuse(err error) {
	s.seconds.WithLabelValues("refused").Observe(0)
	s.log.Warn().Err(err).Msg("search rejected: check that all processes have the same SECRETS_KEY and synchronized clocks")
}

// handle makes a search and gives its answer; false refuses it.
func (s *Server) handle(ctx context.Context, m bus.ToolMessage) (answer []byte, ok bool) {
	claims, request, err := s.verify(m) // again: it may have waited until the claims were over
	if err != nil {
		s.refuse(err)
		return nil, false
	}
	ctx, cancel := context.WithDeadline(ctx, claims.Expires.Add(contract.ClockLeeway)) // m's own may come before, and is in ctx
	defer cancel()
	began := time.Now()
	ctx, span := s.deps.Tracer.Root(ctx, tracing.Server, "knowledge.search", m.Traceparent)
	defer span.End()
	reply, err := s.search(ctx, claims.OrganizationID, request)
	outcome := "completed"
	if err != nil {
		outcome, reply = "failed", contract.SearchReply{Unavailable: true}
		span.Fail(outcome)
		s.log.Warn().Err(err).Str("org_id", claims.OrganizationID).Msg("search failed")
	}
	s.seconds.WithLabelValues(outcome).Observe(time.Since(began).Seconds())
	return encode(reply), true
}

// search makes a panic an error: searches of others are in the same process.
func (s *Server) search(ctx context.Context, org string, request contract.SearchRequest) (reply contract.SearchReply, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			// The cause may quote what was searched for; the stack says where.
			s.log.Error().Str("panic", fmt.Sprintf("%T", cause)).Bytes("stack", debug.Stack()).Msg("search panicked")
			err = errPanic
		}
	}()
	return s.deps.Searcher.Search(ctx, org, request)
}

// encode gives the answer's bytes: as many of the passages as fit a message, the first ones.
func encode(reply contract.SearchReply) []byte {
	for {
		raw, err := json.Marshal(reply)
		switch {
		case err != nil:
			return []byte(`{"unavailable":true}`)
		case len(raw) <= maxAnswer || len(reply.Found) == 0:
			return raw
		}
		reply.Found = reply.Found[:len(reply.Found)/2]
	}
}
