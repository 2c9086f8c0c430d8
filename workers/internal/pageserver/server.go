package pageserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"parley/shared/apierr"
	"parley/shared/bus"
	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/telemetry/tracing"
	"parley/workers/internal/document"
)

const (
	slots      = 2               // simultaneous readers of a process
	queue      = 8               // requests that wait for a slot
	drainTime  = 5 * time.Second // time to finish running requests at shutdown, before they are cancelled
	maxAnswer  = 900 << 10       // bytes; a larger reply does not fit into a message
	maxContent = 20 << 20        // bytes of a document
)

var (
	errExpired  = errors.New("the claims have expired")
	errKind     = errors.New("the claims are not for a picture of a page")
	errNotBound = errors.New("the claims have no organization, document or page")
)

// Failures of pages, as sentences for people.
const (
	failedReplaced = "The document was replaced or deleted. Load it again."
	failedFormat   = "Only the pages of PDFs have pictures."
)

// Bus delivers requests.
type Bus interface {
	ServeTool(
		kind string, cfg bus.ToolServing, handle func(context.Context, bus.ToolMessage) ([]byte, bool),
	) (stop func(context.Context), err error)
}

// Documents reads the documents of organizations.
type Documents interface {
	OpenDocument(ctx context.Context, org, id string) (domain.Document, io.ReadSeekCloser, error)
}

// Renderer renders a page of a PDF. Its error is a *document.Failure or the error of ctx.
type Renderer interface {
	Picture(ctx context.Context, content []byte, page int) (domain.PagePicture, error)
}

// Verifier checks that claims were signed for a body, and returns the claims.
type Verifier interface {
	Verify(token string, body []byte) (claims []byte, err error)
}

// Deps are a page server's dependencies.
type Deps struct {
	Bus       Bus
	Documents Documents
	Renderer  Renderer
	Verifier  Verifier
	Tracer    *tracing.Tracer // nil: requests are not traced
	Metrics   prometheus.Registerer
	Log       zerolog.Logger
}

// Server renders pages. Create it with New and start it with Run.
type Server struct {
	deps    Deps
	seconds *prometheus.HistogramVec
	log     zerolog.Logger
}

// New creates a page server.
func New(deps Deps) (*Server, error) {
	s := &Server{deps: deps, log: deps.Log, seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "parley_page_picture_seconds", Help: "Time that pictures of documents' pages took, by outcome.",
		Buckets: []float64{.05, .1, .25, .5, 1, 2.5, 5, 10},
	}, []string{"outcome"})}
	if err := deps.Metrics.Register(s.seconds); err != nil {
		return nil, fmt.Errorf("registering metrics: %w", err)
	}
	s.seconds.WithLabelValues("completed")
	return s, nil
}

// Run renders pages until ctx ends. It then waits up to drainTime for running requests and cancels
// the remaining ones.
func (s *Server) Run(ctx context.Context) error {
	stop, err := s.deps.Bus.ServeTool(contract.KindPages, bus.ToolServing{Slots: slots, Queue: queue, Owner: s.owner}, s.handle)
	if err != nil {
		return fmt.Errorf("serving pictures of pages: %w", err)
	}
	<-ctx.Done()
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer cancel()
	stop(drain)
	return nil
}

// owner returns the organization of a request. It returns false if the request has no valid claims.
func (s *Server) owner(m bus.ToolMessage) (string, bool) {
	claims, err := s.verify(m)
	if err != nil {
		s.log.Warn().Err(err).Msg("request for a page rejected: check that all processes have the same SECRETS_KEY and synchronized clocks")
	}
	return claims.OrganizationID, err == nil
}

// verify returns the claims of a request if they permit it.
func (s *Server) verify(m bus.ToolMessage) (claims contract.PageClaims, err error) {
	raw, err := s.deps.Verifier.Verify(m.Capability, m.Body)
	if err != nil {
		return claims, fmt.Errorf("verifying claims: %w", err)
	}
	if err := contract.ReadClaims(raw, &claims); err != nil {
		return claims, fmt.Errorf("reading claims: %w", err)
	}
	switch {
	case claims.Kind != contract.KindPages:
		return claims, errKind
	case contract.Expired(claims.Expires):
		return claims, errExpired
	case claims.OrganizationID == "" || claims.DocumentID == "" || claims.SHA256 == "" || claims.Page < 1:
		return claims, errNotBound
	}
	return claims, nil
}

// handle renders a page and returns the encoded reply. It returns false if the request has no valid
// claims.
func (s *Server) handle(ctx context.Context, m bus.ToolMessage) (answer []byte, ok bool) {
	claims, err := s.verify(m) // again, because the claims may have expired while the request waited
	if err != nil {
		return nil, false
	}
	ctx, cancel := context.WithDeadline(ctx, claims.Expires) // ctx may end earlier
	defer cancel()
	ctx, span := s.deps.Tracer.Root(ctx, tracing.Server, "knowledge.page", m.Traceparent)
	defer span.End()

	began, outcome := time.Now(), "completed"
	reply, err := s.render(ctx, claims)
	switch {
	case err != nil:
		outcome, reply = "failed", contract.PageReply{Unavailable: true}
		span.Fail(outcome)
		s.log.Warn().Err(err).Str("org_id", claims.OrganizationID).Str("document_id", claims.DocumentID).Msg("cannot render a page")
	case reply.Picture == nil:
		outcome = "rejected"
	}
	s.seconds.WithLabelValues(outcome).Observe(time.Since(began).Seconds())
	return encode(reply), true
}

// render reads the document and renders the page. An error may be cured by another attempt.
func (s *Server) render(ctx context.Context, claims contract.PageClaims) (reply contract.PageReply, err error) {
	doc, content, err := s.deps.Documents.OpenDocument(ctx, claims.OrganizationID, claims.DocumentID)
	switch {
	case apierr.CodeFor(err) == apierr.NotFound:
		return contract.PageReply{Failure: failedReplaced}, nil
	case err != nil:
		return reply, fmt.Errorf("opening document: %w", err)
	}
	defer func() { _ = content.Close() }() // read only: nothing can be lost
	switch {
	case doc.SHA256 == nil || *doc.SHA256 != claims.SHA256:
		return contract.PageReply{Failure: failedReplaced}, nil
	case doc.MIMEType != domain.MIMETypePDF:
		return contract.PageReply{Failure: failedFormat}, nil
	}

	raw, err := io.ReadAll(io.LimitReader(content, maxContent))
	if err != nil {
		return reply, fmt.Errorf("reading document: %w", err)
	}
	picture, err := s.deps.Renderer.Picture(ctx, raw, claims.Page)
	if failure, is := errors.AsType[*document.Failure](err); is && !failure.Retry {
		return contract.PageReply{Failure: failure.Message}, nil
	}
	if err != nil {
		return reply, fmt.Errorf("rendering page %d: %w", claims.Page, err)
	}
	return contract.PageReply{Picture: &picture}, nil
}

// encode encodes a reply. If the reply is too large for a message, it drops the words.
func encode(reply contract.PageReply) []byte {
	raw, err := json.Marshal(reply)
	if err == nil && len(raw) > maxAnswer && reply.Picture != nil {
		reply.Picture.Words = []domain.PageWord{}
		raw, err = json.Marshal(reply)
	}
	if err != nil {
		return []byte(`{"unavailable":true}`)
	}
	return raw
}
