package signed

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"parley/shared/bus"
	"parley/shared/contract"
	"parley/shared/telemetry/tracing"
)

// drainTime is the time in which running requests may finish at shutdown. Afterwards they are
// cancelled.
const drainTime = 5 * time.Second

// Reasons why a request is refused. They appear only in logs.
var (
	errExpired = errors.New("the signed request has expired")
	errKind    = errors.New("the signature is for another kind of request")
	errUnbound = errors.New("the signed request names no organization")
)

// Bus delivers requests.
type Bus interface {
	ServeTool(
		kind string, cfg bus.ToolOptions, handle func(context.Context, bus.ToolMessage) ([]byte, bool),
	) (stop func(context.Context), err error)
}

// Verifier verifies that claims were signed together with a body, and returns the claims.
type Verifier interface {
	Verify(token string, body []byte) (claims []byte, err error)
}

// Claims contain the organization and the kind of request for which they were signed, and when they
// expire.
type Claims interface {
	Bounds() (org, kind string, expires time.Time)
}

// Server serves requests of one kind. C is the type of their claims. R is the type of the decoded
// requests, which Read returns.
type Server[C Claims, R any] struct {
	Kind     string
	Slots    int // maximum number of simultaneous requests in a process
	Queue    int // maximum number of requests that wait for a slot
	Bus      Bus
	Verifier Verifier
	Tracer   *tracing.Tracer // if nil, requests are not traced
	Span     string          // name of a request's span
	Grace    time.Duration   // time for which a request may run after its claims have expired
	Log      zerolog.Logger

	// Read decodes a request. It returns an error if the claims do not permit the request. Read is
	// called before the request waits for a slot, and again before Handle.
	Read func(claims C, body []byte) (R, error)
	// Handle returns the encoded reply. Its context contains the span. The context ends when the
	// claims have been expired for the duration Grace.
	Handle func(ctx context.Context, claims C, request R) []byte
	// Refused, if not nil, is called for each refused request.
	Refused func()
}

// Run serves requests until ctx ends. It then waits up to drainTime for running requests and
// cancels those that remain, because their callers can repeat them.
func (s *Server[C, R]) Run(ctx context.Context) error {
	stop, err := s.Bus.ServeTool(s.Kind, bus.ToolOptions{Slots: s.Slots, Queue: s.Queue, Owner: s.owner}, s.handle)
	if err != nil {
		return fmt.Errorf("serving requests of kind %s: %w", s.Kind, err)
	}
	<-ctx.Done()

	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer cancel()
	stop(drain)
	return nil
}

// owner returns the organization of a request, or false if the request is refused.
func (s *Server[C, R]) owner(m bus.ToolMessage) (string, bool) {
	claims, _, err := s.verify(m)
	if err != nil {
		s.refuse(err)
		return "", false
	}
	org, _, _ := claims.Bounds()
	return org, true
}

// handle returns the encoded reply to a request, or false if the request is refused.
func (s *Server[C, R]) handle(ctx context.Context, m bus.ToolMessage) (reply []byte, ok bool) {
	claims, request, err := s.verify(m) // verify again, because the claims may have expired while the request waited
	if err != nil {
		s.refuse(err)
		return nil, false
	}

	_, _, expires := claims.Bounds()
	ctx, cancel := context.WithDeadline(ctx, expires.Add(s.Grace)) // ctx may end earlier
	defer cancel()
	ctx, span := s.Tracer.Root(ctx, tracing.Server, s.Span, m.Traceparent)
	defer span.End()
	return s.Handle(ctx, claims, request), true
}

// verify decodes a request and its claims. It returns an error unless a process of this service has
// signed both together and the claims permit the request.
func (s *Server[C, R]) verify(m bus.ToolMessage) (claims C, request R, err error) {
	raw, err := s.Verifier.Verify(m.Capability, m.Body)
	if err != nil {
		return claims, request, fmt.Errorf("verifying claims: %w", err)
	}
	if err := contract.ReadClaims(raw, &claims); err != nil {
		return claims, request, fmt.Errorf("reading claims: %w", err)
	}

	switch org, kind, expires := claims.Bounds(); {
	case kind != s.Kind:
		return claims, request, errKind
	case contract.Expired(expires):
		return claims, request, errExpired
	case org == "":
		return claims, request, errUnbound
	}
	request, err = s.Read(claims, m.Body)
	return claims, request, err
}

// refuse logs a refused request and calls Refused.
func (s *Server[C, R]) refuse(err error) {
	if s.Refused != nil {
		s.Refused()
	}
	s.Log.Warn().Err(err).Str("kind", s.Kind).
		Msg("request rejected: check that all processes have the same SECRETS_KEY and synchronized clocks")
}
