package searchserver

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"parley/shared/contain"
	"parley/shared/contract"
	"parley/shared/telemetry"
	"parley/shared/telemetry/tracing"
	"parley/workers/internal/signed"
)

const (
	defaultLimit = 10
	maxLimit     = 50
	maxAnswer    = 900 << 10 // maximum size of a reply in bytes, because a larger reply does not fit into a message
)

// Searcher searches an organization's documents.
type Searcher interface {
	Search(ctx context.Context, org string, request contract.SearchRequest) (contract.SearchReply, error)
}

// Config contains a search server's settings.
type Config struct {
	Concurrency int // maximum number of simultaneous searches
}

// Deps are a search server's dependencies.
type Deps struct {
	Bus      signed.Bus
	Searcher Searcher
	Verifier signed.Verifier
	Tracer   *tracing.Tracer // if nil, searches are not traced
	Metrics  prometheus.Registerer
	Log      zerolog.Logger
}

// Server executes searches. Create it with New and start it with Run.
type Server struct {
	cfg  Config
	deps Deps
	// Duration of searches by outcome.
	seconds *prometheus.HistogramVec
	log     zerolog.Logger
}

// New creates a search server and registers its metrics. It fails if they are registered already.
func New(cfg Config, deps Deps) (*Server, error) {
	s := &Server{cfg: cfg, deps: deps, log: deps.Log, seconds: telemetry.HistogramVec(
		"parley_search_seconds", "Duration of document searches, by outcome.",
		[]float64{.002, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5}, "outcome")}
	if err := telemetry.Register(deps.Metrics, s.seconds); err != nil {
		return nil, err
	}

	// Create the time series, so that it begins at 0.
	s.seconds.WithLabelValues("completed")
	return s, nil
}

// Run executes searches until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	return (&signed.Server[contract.SearchClaims, contract.SearchRequest]{
		Kind: contract.KindSearch, Slots: s.cfg.Concurrency, Queue: max(s.cfg.Concurrency, 8), Bus: s.deps.Bus, Verifier: s.deps.Verifier,
		Tracer: s.deps.Tracer, Span: "knowledge.search", Grace: contract.ClockLeeway, Log: s.log, Read: read, Handle: s.handle,
		Refused: func() { s.seconds.WithLabelValues("refused").Observe(0) },
	}).Run(ctx)
}

// read parses a search and sets its limit: the default if it has none, and at most maxLimit.
func read(_ contract.SearchClaims, body []byte) (r contract.SearchRequest, err error) {
	if err := json.Unmarshal(body, &r); err != nil { // unknown fields are ignored, because a later release may send more fields
		return r, fmt.Errorf("reading search: %w", err)
	}
	if r.Limit < 1 {
		r.Limit = defaultLimit
	}
	r.Limit = min(r.Limit, maxLimit)
	return r, nil
}

// handle executes a search and returns the encoded reply. The error of a failed search is only
// logged.
func (s *Server) handle(ctx context.Context, claims contract.SearchClaims, request contract.SearchRequest) []byte {
	began, outcome := time.Now(), "completed"
	reply, err := s.search(ctx, claims.OrganizationID, request)
	if err != nil {
		outcome, reply = "failed", contract.SearchReply{Unavailable: true}
		tracing.Current(ctx).Fail(outcome)
		s.log.Warn().Err(err).Str("org_id", claims.OrganizationID).Msg("search failed")
	}
	s.seconds.WithLabelValues(outcome).Observe(time.Since(began).Seconds())
	return encode(reply)
}

// search calls the Searcher and converts a panic to an error.
func (s *Server) search(ctx context.Context, org string, request contract.SearchRequest) (reply contract.SearchReply, err error) {
	defer contain.Panic(&err, &s.log, "search panicked")
	return s.deps.Searcher.Search(ctx, org, request)
}

// encode encodes a reply. If the reply is too large for a message, it omits passages at the end.
func encode(reply contract.SearchReply) []byte {
	for {
		raw, err := json.Marshal(reply)
		switch {
		case err != nil:
			return []byte(`{"unavailable":true}`)
		case len(raw) <= maxAnswer || len(reply.Found) == 0:
			return raw
		}

		// The best passages come first, so the least relevant ones are omitted.
		reply.Found = reply.Found[:len(reply.Found)/2]
	}
}
