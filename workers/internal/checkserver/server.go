package checkserver

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/rs/zerolog"

	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/telemetry/tracing"
	"parley/workers/internal/signed"
)

const (
	slots = 4 // maximum number of simultaneous checks in a process
	queue = 8 // maximum number of checks that wait for a slot
)

var errUnbound = errors.New("the signed request names no agent or no version")

// Records reads the agents' configurations.
type Records interface {
	Config(ctx context.Context, org, agentID string, version int) (domain.Config, error)
}

// Deps are a check server's dependencies.
type Deps struct {
	Bus      signed.Bus
	Records  Records
	Verifier signed.Verifier
	Tracer   *tracing.Tracer // if nil, checks are not traced
	Log      zerolog.Logger
}

// Agent identifies the version of an agent whose connections are checked.
type Agent struct {
	OrganizationID string
	ID             string
	KeyID          string // API key of the request, or empty if there is none
	Config         domain.Config
}

// Server executes checks. Create it with NewTools or NewModels and start it with Run.
type Server struct {
	// Kind of the requests on the bus that the server handles.
	kind  string
	check func(context.Context, Agent) (contract.CheckReply, error) // executes a check; its errors are internal
	deps  Deps
	log   zerolog.Logger
}

// Run executes checks until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	return (&signed.Server[contract.CheckClaims, struct{}]{
		Kind: s.kind, Slots: slots, Queue: queue, Bus: s.deps.Bus, Verifier: s.deps.Verifier, Tracer: s.deps.Tracer,
		Span: "agent.check", Log: s.log, Read: read, Handle: s.handle,
	}).Run(ctx)
}

// read checks that the claims name an agent and a version, and returns an error if they do not. It
// ignores the body of the request, which is empty.
func read(claims contract.CheckClaims, _ []byte) (none struct{}, err error) {
	if claims.AgentID == "" || claims.Version < 1 {
		err = errUnbound
	}
	return none, err
}

// handle executes a check and returns the encoded reply. If the configuration cannot be read or the
// check fails, the reply says that the check is unavailable.
func (s *Server) handle(ctx context.Context, claims contract.CheckClaims, _ struct{}) []byte {
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
		return []byte(`{"unavailable":true}`)
	}
	return raw
}
