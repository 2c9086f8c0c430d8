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
	drainTime    = 5 * time.Second // time to finish running searches at shutdown, before they are cancelled
	defaultLimit = 10
	maxLimit     = 50
	maxAnswer    = 900 << 10 // bytes; a larger reply does not fit into a message
)

// errPanic replaces a panic of the Searcher.
var errPanic = errors.New("the search panicked")

// Bus delivers search requests.
type Bus interface {
	ServeTool(
		kind string, cfg bus.ToolServing, handle func(context.Context, bus.ToolMessage) ([]byte, bool),
	) (stop func(context.Context), err error)
}

// Searcher searches an organization's documents.
type Searcher interface {
	Search(ctx context.Context, org string, request contract.SearchRequest) (contract.SearchReply, error)
}

// Verifier checks that claims were signed for a body, and returns the claims.
type Verifier interface {
	Verify(token string, body []byte) (claims []byte, err error)
}

// Config contains a search server's settings.
type Config struct {
	Concurrency int // maximum number of simultaneous searches
}

// Deps are a search server's dependencies.
type Deps struct {
	Bus      Bus
	Searcher Searcher
	Verifier Verifier
	Tracer   *tracing.Tracer // nil: searches are not traced
	Metrics  prometheus.Registerer
	Log      zerolog.Logger
}

// Server executes searches. Create it with New and start it with Run.
type Server struct {
	cfg  Config
	deps Deps
	// duration of searches by outcome
	seconds *prometheus.HistogramVec
	log     zerolog.Logger
}

// New creates a search server.
func New(cfg Config, deps Deps) (*Server, error) {
	s := &Server{cfg: cfg, deps: deps, log: deps.Log, seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "parley_search_seconds", Help: "Time that searches of documents took, by outcome.",
		Buckets: []float64{.002, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5},
	}, []string{"outcome"})}
	if err := deps.Metrics.Register(s.seconds); err != nil {
		return nil, fmt.Errorf("registering metrics: %w", err)
	}

	// Create the series, so that it begins at 0.
	s.seconds.WithLabelValues("completed")
	return s, nil
}

// Run executes searches until ctx ends. It then waits up to drainTime for running searches and
// cancels the remaining ones.
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

// owner returns the organization of a request. It returns false if the request has no valid claims.
func (s *Server) owner(m bus.ToolMessage) (string, bool) {
	claims, _, err := s.verify(m)
	if err != nil {
		s.refuse(err)
	}
	return claims.OrganizationID, err == nil
}

// refuse counts and logs a request without valid claims.
func (s *Server) refuse(err error) {
	s.seconds.WithLabelValues("refused").Observe(0)
	s.log.Warn().Err(err).Msg("search rejected: check that all processes have the same SECRETS_KEY and synchronized clocks")
}

// handle executes a search and returns the encoded reply. It returns false if the request has no
// valid claims.
func (s *Server) handle(ctx context.Context, m bus.ToolMessage) (answer []byte, ok bool) {
	claims, request, err := s.verify(m) // again, because the claims may have expired while the request waited
	if err != nil {
		s.refuse(err)
		return nil, false
	}
	ctx, cancel := context.WithDeadline(ctx, claims.Expires.Add(contract.ClockLeeway)) // ctx may end earlier
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

// search calls the Searcher. It converts a panic to an error, because the process also executes the
// searches of other organizations.
func (s *Server) search(ctx context.Context, org string, request contract.SearchRequest) (reply contract.SearchReply, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			// The panic value may quote the query, so only its type is logged.
			s.log.Error().Str("panic", fmt.Sprintf("%T", cause)).Bytes("stack", debug.Stack()).Msg("search panicked")
			err = errPanic
		}
	}()
	return s.deps.Searcher.Search(ctx, org, request)
}

// encode encodes a reply. If the reply is too large for a message, it drops passages from the end.
func encode(reply contract.SearchReply) []byte {
	for {
		raw, err := json.Marshal(reply)
		switch {
		case err != nil:
			return []byte(`{"unavailable":true}`)
		case len(raw) <= maxAnswer || len(reply.Found) == 0:
			return raw
		}

		// The best passages come first, so the dropped ones matter least.
		reply.Found = reply.Found[:len(reply.Found)/2]
	}
}
