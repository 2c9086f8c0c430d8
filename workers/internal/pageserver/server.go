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
	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/telemetry"
	"parley/shared/telemetry/tracing"
	"parley/workers/internal/document"
	"parley/workers/internal/signed"
)

const (
	slots      = 2         // maximum number of simultaneous readers in a process
	queue      = 8         // maximum number of requests that wait for a slot
	maxAnswer  = 900 << 10 // maximum size of a reply in bytes; a larger reply would not fit into a message
	maxContent = 20 << 20  // maximum size of a document in bytes
)

var errUnbound = errors.New("the signed request names no document or no page")

// Failures, as sentences for users.
const (
	failedReplaced = "The document was replaced or deleted. Load it again."
	failedFormat   = "Only pages of PDF documents can be shown as pictures."
)

// Documents reads the documents of organizations.
type Documents interface {
	OpenDocument(ctx context.Context, org, id string) (domain.Document, io.ReadSeekCloser, error)
}

// Renderer renders a page of a PDF. Its error is a *document.Failure or ctx's error.
type Renderer interface {
	Picture(ctx context.Context, content []byte, page int) (domain.PagePicture, error)
}

// Deps are a page server's dependencies.
type Deps struct {
	Bus       signed.Bus
	Documents Documents
	Renderer  Renderer
	Verifier  signed.Verifier
	Tracer    *tracing.Tracer // if nil, requests are not traced
	Metrics   prometheus.Registerer
	Log       zerolog.Logger
}

// Server renders pages. Each page is rendered by a separate process in a sandbox, because the
// content of a document is not trusted. Create it with New and start it with Run.
type Server struct {
	deps    Deps
	seconds *prometheus.HistogramVec
	log     zerolog.Logger
}

// New creates a page server and registers its metrics. It fails if the metrics are registered
// already.
func New(deps Deps) (*Server, error) {
	s := &Server{deps: deps, log: deps.Log, seconds: telemetry.HistogramVec(
		"parley_page_picture_seconds", "Time to render pictures of document pages, by outcome.",
		[]float64{.05, .1, .25, .5, 1, 2.5, 5, 10}, "outcome")}
	if err := telemetry.Register(deps.Metrics, s.seconds); err != nil {
		return nil, err
	}
	s.seconds.WithLabelValues("completed")
	return s, nil
}

// Run renders pages until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	return (&signed.Server[contract.PageClaims, struct{}]{
		Kind: contract.KindPages, Slots: slots, Queue: queue, Bus: s.deps.Bus, Verifier: s.deps.Verifier, Tracer: s.deps.Tracer,
		Span: "knowledge.page", Log: s.log, Read: read, Handle: s.handle,
	}).Run(ctx)
}

// read checks that the claims name a document, its content and a page, and returns an error if they
// do not. It ignores the body of the request, which is empty.
func read(claims contract.PageClaims, _ []byte) (none struct{}, err error) {
	if claims.DocumentID == "" || claims.SHA256 == "" || claims.Page < 1 {
		err = errUnbound
	}
	return none, err
}

// handle renders a page and returns the encoded reply. The metric distinguishes pages that cannot
// be shown ("rejected") from failed attempts ("failed").
func (s *Server) handle(ctx context.Context, claims contract.PageClaims, _ struct{}) []byte {
	began, outcome := time.Now(), "completed"
	reply, err := s.render(ctx, claims)
	switch {
	case err != nil:
		outcome, reply = "failed", contract.PageReply{Unavailable: true}
		tracing.Current(ctx).Fail(outcome)
		s.log.Warn().Err(err).Str("org_id", claims.OrganizationID).Str("document_id", claims.DocumentID).Msg("cannot render a page")
	case reply.Picture == nil:
		outcome = "rejected"
	}
	s.seconds.WithLabelValues(outcome).Observe(time.Since(began).Seconds())
	return encode(reply)
}

// render reads the document and renders the page. If it returns an error, another attempt may
// succeed. A final failure, for example a document that was replaced in the meantime, is part of
// the reply.
func (s *Server) render(ctx context.Context, claims contract.PageClaims) (reply contract.PageReply, err error) {
	doc, content, err := s.deps.Documents.OpenDocument(ctx, claims.OrganizationID, claims.DocumentID)
	switch {
	case apierr.CodeFor(err) == apierr.NotFound:
		return contract.PageReply{Failure: failedReplaced}, nil
	case err != nil:
		return reply, fmt.Errorf("opening document: %w", err)
	}
	defer func() { _ = content.Close() }() // ignore the error: the content was only read, so no data can be lost
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

// encode encodes a reply. If the reply is too large for a message, encode omits the words of the
// page.
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
