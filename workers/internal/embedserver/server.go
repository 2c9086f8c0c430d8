package embedserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/rs/zerolog"

	"parley/shared/contain"
	"parley/shared/contract"
	"parley/shared/telemetry/tracing"
	"parley/workers/internal/charge"
	"parley/workers/internal/embed"
	"parley/workers/internal/llm"
	"parley/workers/internal/signed"
)

const (
	slots    = 8         // maximum number of simultaneous calls in a process
	queue    = 32        // maximum number of calls that wait for a slot
	maxReply = 900 << 10 // maximum size of a reply in bytes, because a larger one does not fit into a message
)

// Embedder computes vectors. Its errors are of type *llm.Error, or ctx's error. It is safe for
// concurrent use.
type Embedder interface {
	// Find returns the full name of a model. It fails if the model is unknown or not configured.
	// Compute returns a vector for each text, in order.
	Find(model string) (name string, err error)
	Compute(ctx context.Context, r embed.Request) (embed.Vectors, error)
}

// Deps are a server's dependencies. All fields except Tracer are required.
type Deps struct {
	Bus      signed.Bus
	Embedder Embedder
	Budgets  charge.Budgets
	Price    func(model string, used llm.Usage) int64 // returns the cost in millionths of the currency unit
	Verifier signed.Verifier
	Tracer   *tracing.Tracer // if nil, calls are not traced
	Log      zerolog.Logger
}

// Server embeds texts. Create it with New and start it with Run. A process has at most one.
type Server struct{ deps Deps }

// New creates a server.
func New(deps Deps) *Server { return &Server{deps} }

// Run executes calls until ctx ends. Calls in progress then have a short time to finish. Run fails
// if it cannot subscribe to the bus.
func (s *Server) Run(ctx context.Context) error {
	return (&signed.Server[contract.EmbedClaims, contract.EmbedRequest]{
		Kind: contract.KindEmbed, Slots: slots, Queue: queue, Bus: s.deps.Bus, Verifier: s.deps.Verifier, Tracer: s.deps.Tracer,
		Span: "embeddings", Log: s.deps.Log, Read: read, Handle: s.handle,
	}).Run(ctx)
}

// read decodes the body of a request.
func read(_ contract.EmbedClaims, body []byte) (r contract.EmbedRequest, err error) {
	if err := json.Unmarshal(body, &r); err != nil { // unknown fields are ignored, because a later release may send more fields
		return r, fmt.Errorf("reading texts: %w", err)
	}
	return r, nil
}

// handle executes a call and returns the encoded reply. It logs a failure once, without texts of
// the request.
func (s *Server) handle(ctx context.Context, claims contract.EmbedClaims, request contract.EmbedRequest) []byte {
	log := s.deps.Log.With().Str("org_id", claims.OrganizationID).Logger()
	reply, err := s.embed(log.WithContext(ctx), claims, request)
	if err != nil {
		tracing.Current(ctx).Fail("failed")
		reply = contract.EmbedReply{Failure: failure(err)}
		var provider any
		if e, coded := errors.AsType[*llm.Error](err); coded && e.Provider != nil {
			provider = e.Provider
		}
		log.Warn().Err(errors.Join(err, errors.Unwrap(err))).Interface("provider", provider).Msg("cannot embed texts")
	}
	return encode(reply)
}

// guarded computes vectors and converts a panic to an error.
func (s *Server) guarded(ctx context.Context, r embed.Request) (found embed.Vectors, err error) {
	defer contain.Panic(&err, zerolog.Ctx(ctx), "embedding panicked")
	return s.deps.Embedder.Compute(ctx, r)
}

// encode encodes a reply. If the reply is too large for a message, encode omits vectors at the end,
// but never the first one. The ingress requests the missing vectors with another call.
func encode(reply contract.EmbedReply) []byte {
	if len(reply.Vectors) > 0 {
		one := (len(reply.Vectors[0])+2)/3*4 + len(`"",`) // size of a vector in base64
		const around = 4 << 10
		reply.Vectors = reply.Vectors[:min(len(reply.Vectors), max((maxReply-around)/one, 1))]
	}
	raw, err := json.Marshal(reply)
	if err != nil {
		return []byte(`{"failure":{"code":"internal","message":""}}`) // cannot happen: every reply can be encoded
	}
	return raw
}
