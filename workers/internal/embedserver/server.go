package embedserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/rs/zerolog"

	"parley/shared/bus"
	"parley/shared/contract"
	"parley/shared/telemetry/tracing"
	"parley/workers/internal/charge"
	"parley/workers/internal/embed"
	"parley/workers/internal/llm"
)

const (
	slots     = 8               // simultaneous calls of a process
	queue     = 32              // calls that wait for a slot
	drainTime = 5 * time.Second // time to finish running calls at shutdown, before they are cancelled
	maxReply  = 900 << 10       // bytes; a larger reply does not fit into a message
)

var (
	errExpired  = errors.New("the claims have expired")
	errKind     = errors.New("the claims are not for embeddings")
	errNotBound = errors.New("the claims have no organization")
	errPanic    = errors.New("the embedding panicked")
)

// Bus delivers requests.
type Bus interface {
	ServeTool(
		kind string, cfg bus.ToolServing, handle func(context.Context, bus.ToolMessage) ([]byte, bool),
	) (stop func(context.Context), err error)
}

// Embedder computes vectors. Its errors are *llm.Error, or ctx's error.
type Embedder interface {
	Find(model string) (name string, err error)
	Compute(ctx context.Context, r embed.Request) (embed.Vectors, error)
}

// Verifier checks that claims were signed for a body, and returns the claims.
type Verifier interface {
	Verify(token string, body []byte) (claims []byte, err error)
}

// Deps are a server's dependencies.
type Deps struct {
	Bus      Bus
	Embedder Embedder
	Budgets  charge.Budgets
	Price    func(model string, used llm.Usage) int64 // in millionths of the currency
	Verifier Verifier
	Tracer   *tracing.Tracer // nil: calls are not traced
	Log      zerolog.Logger
}

// Server embeds texts. Create it with New and start it with Run.
type Server struct{ deps Deps }

// New creates a server.
func New(deps Deps) *Server { return &Server{deps} }

// Run executes calls until ctx ends. It then waits up to drainTime for running calls and cancels the
// remaining ones.
func (s *Server) Run(ctx context.Context) error {
	serving := bus.ToolServing{Slots: slots, Queue: queue, Owner: s.owner}
	stop, err := s.deps.Bus.ServeTool(contract.KindEmbed, serving, s.handle)
	if err != nil {
		return fmt.Errorf("serving embeddings: %w", err)
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
		s.deps.Log.Warn().Err(err).Msg("embedding rejected: check that all processes have the same SECRETS_KEY and synchronized clocks")
	}
	return claims.OrganizationID, err == nil
}

// verify decodes a request and its claims. It fails unless both were signed together by a process of
// this service and the claims allow the call.
func (s *Server) verify(m bus.ToolMessage) (c contract.EmbedClaims, r contract.EmbedRequest, err error) {
	raw, err := s.deps.Verifier.Verify(m.Capability, m.Body)
	if err != nil {
		return c, r, fmt.Errorf("verifying claims: %w", err)
	}
	if err := contract.ReadClaims(raw, &c); err != nil {
		return c, r, fmt.Errorf("reading claims: %w", err)
	}
	if err := json.Unmarshal(m.Body, &r); err != nil { // a later release may send more fields
		return c, r, fmt.Errorf("reading texts: %w", err)
	}
	switch {
	case c.Kind != contract.KindEmbed:
		return c, r, errKind
	case contract.Expired(c.Expires):
		return c, r, errExpired
	case c.OrganizationID == "":
		return c, r, errNotBound
	}
	return c, r, nil
}

// handle executes a call and returns the encoded reply. It returns false if the request has no valid
// claims.
func (s *Server) handle(ctx context.Context, m bus.ToolMessage) (answer []byte, ok bool) {
	claims, request, err := s.verify(m) // again, because the claims may have expired while the request waited
	if err != nil {
		return nil, false
	}
	ctx, cancel := context.WithDeadline(ctx, claims.Expires) // ctx may end earlier
	defer cancel()
	ctx, span := s.deps.Tracer.Root(ctx, tracing.Server, "embeddings", m.Traceparent)
	defer span.End()

	log := s.deps.Log.With().Str("org_id", claims.OrganizationID).Logger()
	reply, err := s.embed(log.WithContext(ctx), claims, request)
	if err != nil {
		span.Fail("failed")
		reply = contract.EmbedReply{Failure: failure(err)}
		var provider any
		if e, coded := errors.AsType[*llm.Error](err); coded && e.Provider != nil {
			provider = e.Provider
		}
		log.Warn().Err(errors.Join(err, errors.Unwrap(err))).Interface("provider", provider).Msg("cannot embed texts")
	}
	return encode(reply), true
}

// guarded converts a panic into an error, because the process also executes other work.
func (s *Server) guarded(ctx context.Context, r embed.Request) (found embed.Vectors, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			log := zerolog.Ctx(ctx).Error().Str("panic", fmt.Sprintf("%T", cause)) // the panic's text may quote an input
			log.Bytes("stack", debug.Stack()).Msg("embedding panicked")
			err = errPanic
		}
	}()
	return s.deps.Embedder.Compute(ctx, r)
}

// encode encodes a reply. If the reply is too large for a message, it drops vectors from the end.
func encode(reply contract.EmbedReply) []byte {
	if len(reply.Vectors) > 0 {
		one := (len(reply.Vectors[0])+2)/3*4 + len(`"",`) // in base64
		const around = 4 << 10
		reply.Vectors = reply.Vectors[:min(len(reply.Vectors), max((maxReply-around)/one, 1))]
	}
	raw, err := json.Marshal(reply)
	if err != nil {
		return []byte(`{"failure":{"code":"internal","message":""}}`) // unreachable: the reply has a JSON form
	}
	return raw
}
