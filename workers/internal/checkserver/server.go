package checkserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"parley/shared/bus"
	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/telemetry/tracing"
)

const (
	slots     = 4               // simultaneous checks of a process
	queue     = 8               // checks that wait for a slot
	drainTime = 5 * time.Second // time to finish running checks at shutdown, before they are cancelled
)

var (
	errExpired  = errors.New("the claims have expired")
	errKind     = errors.New("the claims are for another kind of call")
	errNotBound = errors.New("the claims have no organization, agent or version")
)

// Bus delivers requests for checks.
type Bus interface {
	ServeTool(
		kind string, cfg bus.ToolServing, handle func(context.Context, bus.ToolMessage) ([]byte, bool),
	) (stop func(context.Context), err error)
}

// Records reads the agents' configurations.
type Records interface {
	Config(ctx context.Context, org, agentID string, version int) (domain.Config, error)
}

// Verifier checks that claims were signed for a body, and returns the claims.
type Verifier interface {
	Verify(token string, body []byte) (claims []byte, err error)
}

// Deps are a check server's dependencies.
type Deps struct {
	Bus      Bus
	Records  Records
	Verifier Verifier
	Tracer   *tracing.Tracer // nil: checks are not traced
	Log      zerolog.Logger
}

// Agent is an agent whose connections are checked, in one version.
type Agent struct {
	OrganizationID string
	ID             string
	KeyID          string // the API key of the request; empty: none
	Config         domain.Config
}

// Server executes checks. Create it with NewTools or NewModels and start it with Run.
type Server struct {
	// kind of the requests on the bus
	kind  string
	check func(context.Context, Agent) (contract.CheckReply, error) // an error is internal
	deps  Deps
	log   zerolog.Logger
}

// Run executes checks until ctx ends. It then waits up to drainTime for running checks and cancels
// the remaining ones.
func (s *Server) Run(ctx context.Context) error {
	serving := bus.ToolServing{Slots: slots, Queue: queue, Owner: s.owner}
	stop, err := s.deps.Bus.ServeTool(s.kind, serving, s.handle)
	if err != nil {
		return fmt.Errorf("serving checks: %w", err)
	}
	<-ctx.Done()

	// Running checks may finish, but only briefly: a person can repeat a check.
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer cancel()
	stop(drain)
	return nil
}

// owner returns the organization of a request. It returns false if the request has no valid claims.
func (s *Server) owner(m bus.ToolMessage) (string, bool) {
	claims, err := s.verify(m)
	if err != nil {
		s.log.Warn().Err(err).Msg("check rejected: check that all processes have the same SECRETS_KEY and synchronized clocks")
	}
	return claims.OrganizationID, err == nil
}

// verify returns the claims of a request if they permit it.
func (s *Server) verify(m bus.ToolMessage) (claims contract.CheckClaims, err error) {
	raw, err := s.deps.Verifier.Verify(m.Capability, m.Body)
	if err != nil {
		return claims, fmt.Errorf("verifying claims: %w", err)
	}
	if err := contract.ReadClaims(raw, &claims); err != nil {
		return claims, fmt.Errorf("reading claims: %w", err)
	}
	switch {
	case contract.Expired(claims.Expires):
		return claims, errExpired
	case claims.Kind != s.kind:
		return claims, errKind
	case claims.OrganizationID == "" || claims.AgentID == "" || claims.Version < 1:
		return claims, errNotBound
	}
	return claims, nil
}

// handle executes a check and returns the encoded reply. It returns false if the request has no
// valid claims.
func (s *Server) handle(ctx context.Context, m bus.ToolMessage) (answer []byte, ok bool) {
	claims, err := s.verify(m) // again, because the claims may have expired while the request waited
	if err != nil {
		return nil, false
	}
	ctx, cancel := context.WithDeadline(ctx, claims.Expires) // ctx may end earlier
	defer cancel()
	ctx, span := s.deps.Tracer.Root(ctx, tracing.Server, "agent.check", m.Traceparent)
	defer span.End()

	log := s.log.With().Str("org_id", claims.OrganizationID).Str("agent_id", claims.AgentID).Logger()
	var reply contract.CheckReply
	cfg, err := s.deps.Records.Config(ctx, claims.OrganizationID, claims.AgentID, claims.Version)
	if err == nil {
		reply, err = s.check(log.WithContext(ctx), Agent{claims.OrganizationID, claims.AgentID, claims.KeyID, cfg})
	}
	if err != nil {
		log.Warn().Err(err).Msg("cannot check the connections of an agent")
		reply = contract.CheckReply{Unavailable: true}
	}

	raw, err := json.Marshal(reply)
	if err != nil {
		return []byte(`{"unavailable":true}`), true
	}
	return raw, true
}
