package run

import (
	"context"
	"time"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/changes"
	"parley/ingress/internal/httpapi/httpx"
	"parley/shared/domain"
)

// streamChanges is GET /api/events: that something of the organization has changed, as it happens. What it is, is not told:
// members may not see all of it.
func (h *Handler) streamChanges(c *gin.Context) {
	seats, err := h.TakeSeats(httpx.Caller(c))
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	defer h.LeaveSeats(seats)
	watcher := h.Changes.Watch(c.Request.Context(), httpx.Caller(c).OrganizationID)
	defer watcher.Close()
	httpx.SendStream(c, &changeEvents{Watcher: watcher}, appendChange, h.Permit(c))
}

// changeReady is the event that changes are told of from here on: what was read before may be old.
const changeReady domain.ChangeKind = "ready"

// changeEvents are a watcher's changes, behind the event that says that they are heard.
type changeEvents struct {
	*changes.Watcher
	begun bool
}

// Next gives that event first.
func (e *changeEvents) Next(ctx context.Context, until time.Time) ([]domain.ChangeKind, error) {
	if !e.begun {
		e.begun = true
		return []domain.ChangeKind{changeReady}, nil
	}
	return e.Watcher.Next(ctx, until)
}

// appendChange writes a change as a server-sent event. It has no id: nothing is resumed, everything is read again.
func appendChange(b []byte, kind domain.ChangeKind) []byte {
	b = append(b, "event: "...)
	b = append(b, kind...)
	return append(b, "\ndata: {}\n\n"...)
}
