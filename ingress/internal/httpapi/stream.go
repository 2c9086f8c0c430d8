package httpapi

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
func (a *api) submitStream(c *gin.Context, s *dispatch.Submission, to uistream.Reader) {
	seats, err := a.TakeSeats(s.Caller) // before anything is accepted that could not be shown
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	defer a.LeaveSeats(seats)
	reader, err := a.openSubmitted(c, s)
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	defer reader.Close()
	if to.Format != "" {
		a.sendFormatted(c, reader.RunID(), reader, to)
		return
	}
	sendEvents(c, reader.RunID(), reader, a.Permit(c))
}

func (a *api) openSubmitted(c *gin.Context, s *dispatch.Submission) (*stream.Reader, error) {
	s.Traceparent = httpx.Traceparent(c)
	reader, run, err := a.Follow(c.Request.Context(), s, counting{a, c})
	if run != nil {
		httpx.About(c, run.Target(), run.Run.ID, run.Run.SessionID)
	}
	if err != nil {
		return nil, err
	}
	if run.Result != nil {
		c.Header("Idempotency-Replayed", "true")
	}
	c.Header("Location", "/api/runs?id="+run.Run.ID)
	return reader, nil
}

// streamRun gives the events of a run that the caller may read, behind the last that the reader has.
func (a *api) streamRun(c *gin.Context, runID string, asked uistream.Reader) {
	seats, err := a.TakeSeats(httpx.Caller(c))
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	defer a.LeaveSeats(seats)
	reader, err := a.openRun(c, runID, asked.Last)
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	defer reader.Close()
	if reader.AtEnd() { // browsers stop to reconnect
		c.Status(http.StatusNoContent)
		return
	}
	if asked.Format == "" {
		sendEvents(c, runID, reader, a.Permit(c))
		return
	}
	if asked.Last != (domain.EventID{}) { // an encoder must see the whole log
		if reader, err = a.openRun(c, runID, domain.EventID{}); err != nil {
			httpx.Fail(c, err)
			return
		}
		defer reader.Close()
	}
	a.sendFormatted(c, runID, reader, asked)
}

func (a *api) openRun(c *gin.Context, runID string, last domain.EventID) (*stream.Reader, error) {
	run, err := a.findRun(c, runID)
	if err != nil {
		return nil, err
	}
	if run.Erased {
		return nil, erasedRun()
	}
	return a.Streams.Open(c.Request.Context(), run.OrganizationID, runID, last)
}

// sendEvents writes a run's events until its end, as the caller may see them.
func sendEvents(c *gin.Context, runID string, events httpx.Source[domain.Event], may httpx.Permit) {
	httpx.SendStream(c, events, frameFor(httpx.Caller(c), runID), may)
}
