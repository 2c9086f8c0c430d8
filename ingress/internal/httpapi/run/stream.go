package run

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/dispatch"
	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/stream"
	"parley/ingress/internal/uistream"
	"parley/shared/domain"
)

// submitStream is submit for callers that want to see the run's events instead of waiting for its end.
func (h *Handler) submitStream(c *gin.Context, s *dispatch.Submission, to uistream.Reader) {
	seats, err := h.TakeSeats(s.Caller) // before anything is accepted that could not be shown
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	defer h.LeaveSeats(seats)
	reader, err := h.OpenSubmitted(c, s)
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	defer reader.Close()
	if to.Format != "" {
		h.sendFormatted(c, reader.RunID(), reader, to)
		return
	}
	sendEvents(c, reader.RunID(), reader, h.Permit(c))
}

// OpenSubmitted begins a submission's run and returns a reader of its events, which must be closed.
func (h *Handler) OpenSubmitted(c *gin.Context, s *dispatch.Submission) (*stream.Reader, error) {
	s.Traceparent = httpx.Traceparent(c)
	defer httpx.BodyDone(c)
	reader, run, err := h.Follow(c.Request.Context(), s, h.Charge(c), httpx.Reserving(c))
	if run != nil {
		httpx.About(c, run.Target(), run.Run.ID, run.Run.SessionID)
	}
	if run != nil && !run.Erased {
		c.Header("Location", "/api/runs?id="+run.Run.ID)
	}
	if err != nil {
		return nil, err
	}
	if run.Ended() {
		c.Header("Idempotency-Replayed", "true")
	}
	return reader, nil
}

// streamRun gives the events of a run that the caller may read, behind the last that the reader has.
func (h *Handler) streamRun(c *gin.Context, runID string, asked uistream.Reader) {
	seats, err := h.TakeSeats(httpx.Caller(c))
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	defer h.LeaveSeats(seats)
	from := asked.Last
	if asked.Format != "" {
		from = domain.EventID{} // an encoder must see the whole log
	}
	reader, err := h.openRun(c, runID, from)
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	defer reader.Close()
	if reader.AtEnd(asked.Last) { // browsers stop to reconnect
		c.Status(http.StatusNoContent)
		return
	}
	if asked.Format == "" {
		sendEvents(c, runID, reader, h.Permit(c))
		return
	}
	h.sendFormatted(c, runID, reader, asked)
}

func (h *Handler) openRun(c *gin.Context, runID string, last domain.EventID) (*stream.Reader, error) {
	run, err := h.findRun(c, runID)
	if err != nil {
		return nil, err
	}
	if run.Erased {
		return nil, dispatch.ErasedRun()
	}
	return h.Streams.Open(c.Request.Context(), run.OrganizationID, runID, last, httpx.Reserving(c))
}

// sendEvents writes a run's events until its end, as the caller may see them.
func sendEvents(c *gin.Context, runID string, events httpx.Source[domain.Event], may httpx.Permit) {
	httpx.SendStream(c, events, frameFor(httpx.Caller(c), runID), may)
}
