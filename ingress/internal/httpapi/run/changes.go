package run

import (
	"context"
	"time"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/changes"
	"parley/ingress/internal/httpapi/httpx"
	"parley/shared/domain"
)

// streamChanges handles GET /api/events: it streams events about changes in the organization. The
// events contain no ids, because a member may not see every resource. Clients read the changed data
// again after an event. The stream ends when the credential becomes invalid.
func (h *Handler) streamChanges(c *gin.Context) {
	seats, err := h.TakeStreams(httpx.Caller(c))
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	defer h.LeaveStreams(seats)

	// Watch before the first event, so that no change after the event is lost.
	watcher := h.Changes.Watch(c.Request.Context(), httpx.Caller(c).OrganizationID)
	defer watcher.Close()
	httpx.SendStream(c, &changeEvents{Watcher: watcher}, appendChange, h.permit(c))
}

// changeReady is the first event of the stream. It means that the stream reports all changes from
// now on. Data that the client read before may be outdated, so the client should read it again.
const changeReady domain.ChangeKind = "ready"

// changeEvents is a Source of changes in an organization. It begins with changeReady. It is used by
// one goroutine.
type changeEvents struct {
	*changes.Watcher
	begun bool
}

// Next returns changeReady at the first call, then changes. until limits the wait; at that time,
// the result may be empty.
func (e *changeEvents) Next(ctx context.Context, until time.Time) ([]domain.ChangeKind, error) {
	if !e.begun {
		e.begun = true
		return []domain.ChangeKind{changeReady}, nil
	}
	return e.Watcher.Next(ctx, until)
}

// appendChange appends a change as a server-sent event. The event has no id, because a client that
// reconnects cannot resume the stream but must read its data again. The data is an empty object, so
// that clients can parse it as JSON.
func appendChange(b []byte, kind domain.ChangeKind) []byte {
	b = append(b, "event: "...)
	b = append(b, kind...)
	return append(b, "\ndata: {}\n\n"...)
}
