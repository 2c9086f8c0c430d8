package knowledge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/httpapi/transfer"
	"parley/shared/apierr"
	"parley/shared/bus"
	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/telemetry/tracing"
)

const (
	// Pictures from the cache do not count.
	picturesPerMinute = 60 // maximum number of pages rendered per organization at this ingress process
	// Maximum time in which a worker must render a page.
	pictureTime        = 20 * time.Second
	pictureUnavailable = "pictures of pages are unavailable; try again shortly"
)

// pageWithPicture is the response with a page of a document as a picture. It is as large as the
// picture in base64.
type pageWithPicture struct {
	DocumentID string `json:"documentId"`
	Name       string `json:"name"`
	Page       int    `json:"page"`
	// Number of pages; nil while it is unknown.
	Pages   *int               `json:"pages"`
	Picture domain.PagePicture `json:"picture"`
}

// showPicture responds with a page of a PDF as a picture. A picture is large, so it takes a
// download slot. The error is not_found if the document is not ready, is no PDF or has no such
// page. The error has the code unavailable if no worker can render the page.
func (h *Handler) showPicture(c *gin.Context, documentID string, page int) error {
	slot, err := h.Downloads.Enter(transfer.OwnerFor(c), http.NewResponseController(c.Writer))
	if err != nil {
		return err
	}
	defer h.Downloads.Leave(slot)

	doc, err := h.documentWithPage(c, documentID, page)
	if err == nil && (doc.MIMEType != domain.MIMETypePDF || doc.SHA256 == nil) {
		err = apierr.New(apierr.NotFound, "the document is not a PDF: only the pages of PDFs have pictures")
	}
	shown := pageWithPicture{DocumentID: doc.ID, Name: doc.Name, Page: page, Pages: doc.Pages}
	if err == nil {
		shown.Picture, err = h.picture(c.Request.Context(), httpx.Caller(c).OrganizationID, doc, page)
	}
	if err == nil {
		err = slot.Extend(int64(2 * len(shown.Picture.Data))) // the response contains the picture in base64, and the words on the page
	}
	if err != nil {
		return err
	}
	return httpx.JSON(c, http.StatusOK, shown)
}

// picture returns a picture of a page from the cache. If the cache does not have it, a worker
// renders it. Errors: rate_limited after picturesPerMinute renderings in a minute, not_found if the
// page cannot be rendered, and unavailable if no worker responds within pictureTime.
func (h *Handler) picture(ctx context.Context, org string, doc domain.Document, page int) (domain.PagePicture, error) {
	key := pictureKey{doc.ID, *doc.SHA256, page}
	if kept, found := h.pictures.get(org, key); found {
		return kept, nil
	}

	// A failed rendering counts toward the rate limit, too, because it costs a worker as much as a
	// successful one.
	if wait := h.renders.Begin(org); wait > 0 {
		return domain.PagePicture{}, httpx.RateLimited(wait,
			fmt.Sprintf("rate limit of %d new page pictures per minute exceeded", picturesPerMinute))
	}

	deadline := time.Now().Add(pictureTime)
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	reply, err := h.callRenderer(ctx, contract.PageClaims{
		OrganizationID: org, DocumentID: doc.ID, SHA256: *doc.SHA256, Page: page, Kind: contract.KindPages, Expires: deadline.UTC(),
	})
	switch {
	case err != nil:
		return domain.PagePicture{}, rendererError(err)

	// The page itself is the problem, so repeating the request would not help.
	case reply.Failure != "":
		return domain.PagePicture{}, apierr.New(apierr.NotFound, "page %d has no picture: %s", page, reply.Failure)
	case reply.Picture == nil:
		return domain.PagePicture{}, rendererError(errors.New("the worker failed to render the page"))
	}
	h.pictures.add(org, key, *reply.Picture)
	return *reply.Picture, nil
}

// callRenderer lets a worker render a page. The call ends at the deadline in the claims. The worker
// reads the document from the database; the request contains no content.
func (h *Handler) callRenderer(ctx context.Context, claims contract.PageClaims) (reply contract.PageReply, err error) {
	raw, err := json.Marshal(claims)
	if err != nil {
		return reply, fmt.Errorf("writing claims: %w", err)
	}

	// The trace context lets the worker's spans appear below those of the request.
	ctx = contract.WithTraceparent(ctx, tracing.Traceparent(ctx))
	answer, err := h.Searches.Call(ctx, contract.KindPages, h.Signer.Sign(raw, nil), nil, claims.Expires)
	if err != nil {
		return reply, err //nolint:wrapcheck // rendererError wraps it
	}
	if err := json.Unmarshal(answer, &reply); err != nil {
		return reply, fmt.Errorf("reading picture: %w", err)
	}
	return reply, nil
}

// rendererError returns the error unavailable for a picture that cannot be rendered now. The cause
// appears only in the log. Retry-After is searchRetry.
func rendererError(cause error) error {
	what := pictureUnavailable
	if errors.Is(cause, bus.ErrNoToolWorker) {
		what = "pictures of pages are unavailable, because no worker has the role tool and a sandbox; try again shortly"
	}
	e := apierr.Wrap(apierr.Unavailable, cause, "%s", what)
	e.RetryAfter = searchRetry
	return e
}
