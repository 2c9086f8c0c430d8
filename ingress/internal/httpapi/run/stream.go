package run

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/dispatch"
	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/readers"
	"parley/ingress/internal/stream"
	"parley/ingress/internal/uistream"
	"parley/shared/domain"
	"parley/shared/store/rundb"
)

// submitStream is submit for callers that request the run's events instead of its result.
func (h *Handler) submitStream(c *gin.Context, s *dispatch.Submission, to uistream.Reader) {
	seats, err := h.TakeStreams(s.Caller) // before the run is accepted, because its events could not be sent without a slot
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	defer h.LeaveStreams(seats)

	reader, run, err := h.OpenSubmitted(c, s)
	if err != nil {
		httpx.Fail(c, err)
		return
	}

	if to.Format != "" {
		reading := h.Readers.Begin(run, formatRules(s, to.Format))
		defer reading.End(c.Request.Context()) // after the reader is closed
		defer reader.Close()
		h.sendFormatted(c, reader.RunID(), reading.Follow(reader), to)
		return
	}

	defer reader.Close()
	sendEvents(c, reader.RunID(), reader, h.SessionCheck(c))
}

// formatRules returns what happens to a run when the client of another protocol leaves. A client
// of AG-UI closes the connection to abort the run, and never reconnects.
func formatRules(s *dispatch.Submission, format uistream.Format) readers.Rules {
	rules := readers.Rules{Keep: s.Key != "", Shows: true, Grace: readers.Grace}
	if format == uistream.AGUI {
		rules.Grace = 0
	}
	return rules
}

// OpenSubmitted accepts a submission and returns its run and a reader of the run's events. The
// caller must close the reader.
func (h *Handler) OpenSubmitted(c *gin.Context, s *dispatch.Submission) (*stream.Reader, *rundb.StoredRun, error) {
	s.Traceparent = httpx.Traceparent(c)

	// The body is not needed once the run is stored, however long its events are followed.
	defer httpx.ReleaseBody(c)
	reader, run, err := h.Follow(c.Request.Context(), s, h.Charge(c), httpx.ReserveFunc(c))
	if run != nil {
		httpx.SetLogIDs(c, run.Target(), run.Run.ID, run.Run.SessionID)
	}

	// The header is set even with an error, so that a caller can find the run that was accepted.
	if run != nil && !run.Erased {
		c.Header("Location", "/api/runs?id="+run.Run.ID)
	}
	if err != nil {
		return nil, nil, err
	}
	if run.Ended() {
		c.Header("Idempotency-Replayed", "true")
	}
	return reader, run, nil
}

// streamRun responds with the events of a run that the caller may read, after the last event that
// the client already has.
func (h *Handler) streamRun(c *gin.Context, runID string, asked uistream.Reader) {
	seats, err := h.TakeStreams(httpx.Caller(c))
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	defer h.LeaveStreams(seats)

	from := asked.Last
	if asked.Format != "" {
		from = domain.EventID{} // the encoder needs the whole log
	}

	reader, err := h.openRun(c, runID, from)
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	defer reader.Close()

	if reader.AtEnd(asked.Last) { // 204 stops browsers from reconnecting
		c.Status(http.StatusNoContent)
		return
	}
	if asked.Format == "" {
		sendEvents(c, runID, reader, h.SessionCheck(c))
		return
	}

	h.sendFormatted(c, runID, reader, asked)
}

// openRun returns a reader of the events after last. The caller must close it.
func (h *Handler) openRun(c *gin.Context, runID string, last domain.EventID) (*stream.Reader, error) {
	run, err := h.findRun(c, runID)
	if err != nil {
		return nil, err
	}
	if run.Erased {
		return nil, dispatch.ErasedRun()
	}
	return h.Streams.Open(c.Request.Context(), run.OrganizationID, runID, last, httpx.ReserveFunc(c))
}

// sendEvents writes a run's events until its end, restricted to the data that the caller may see.
func sendEvents(c *gin.Context, runID string, events httpx.Source[domain.Event], permit httpx.SessionCheck) {
	httpx.SendStream(c, events, frameFor(httpx.Caller(c), runID), permit)
}
