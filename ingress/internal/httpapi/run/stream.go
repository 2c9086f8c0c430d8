package run

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/dispatch"
	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/offload"
	"parley/ingress/internal/readers"
	"parley/ingress/internal/stream"
	"parley/ingress/internal/uistream"
	"parley/shared/domain"
	"parley/shared/store/rundb"
)

// submitStream accepts a submission and sends the events of its run. The stream begins after the
// event s.Last or, in the format of a library, after the event to.Last. Errors before the first
// event are HTTP responses.
func (h *Handler) submitStream(c *gin.Context, s *dispatch.Submission, to *uistream.Reader) {
	seats, err := h.takeStreams(c) // before the run is accepted, because without slots its events could not be sent
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	defer h.LeaveStreams(seats)

	var reader *stream.Reader
	var run *rundb.StoredRun
	offload.Do(func() { reader, run, err = h.OpenSubmitted(c, s) })
	if err != nil {
		httpx.Fail(c, err)
		return
	}

	if to.Format != "" {
		h.streamChat(c, s, run, reader, to)
		return
	}

	defer reader.Close()
	h.sendEvents(c, reader.RunID(), reader)
}

// streamChat sends the events of a new chat's run in the format of a library, and closes the
// reader.
// It is not inlined, so that its variables do not stay on the stack of submitStream.
//
//go:noinline
func (h *Handler) streamChat(c *gin.Context, s *dispatch.Submission, run *rundb.StoredRun, reader *stream.Reader, to *uistream.Reader) {
	h.streamFormatted(c, reader, h.Readers.Begin(run, formatRules(s, to.Format)), to)
}

// streamFormatted sends a run's events in the format of a library, and closes the reader. The
// argument reading watches whether the client still reads, and decides what happens to the run when
// the client disconnects.
func (h *Handler) streamFormatted(c *gin.Context, reader *stream.Reader, reading *readers.Reader, to *uistream.Reader) {
	defer reading.End(c.Request.Context()) // runs after the reader is closed
	defer reader.Close()
	h.sendFormatted(c, reader.RunID(), reading.Follow(reader), to)
}

// formatRules returns the rules for package readers for a client that uses a library. A client of
// AG-UI closes the connection to abort the run and never reconnects, so its run is cancelled
// without a grace period. A run with an idempotency key continues, because a retry with the key can
// read its answer.
func formatRules(s *dispatch.Submission, format uistream.Format) readers.Rules {
	rules := readers.Rules{Keep: s.Key != "", Shows: true, Grace: readers.Grace}
	if format == uistream.AGUI {
		rules.Grace = 0
	}
	return rules
}

// OpenSubmitted accepts a submission and returns its run and a reader of the run's events. The
// caller must close the reader. For an existing run, OpenSubmitted reserves memory and then reads
// the events from the run's log. After an error, the run may exist; the header Location names it.
func (h *Handler) OpenSubmitted(c *gin.Context, s *dispatch.Submission) (*stream.Reader, *rundb.StoredRun, error) {
	s.Traceparent = httpx.Traceparent(c)

	// After the run is stored, the request's body is no longer needed, even if the stream lasts
	// long.
	defer httpx.ReleaseBody(c)
	reader, run, err := h.Follow(c.Request.Context(), s, h.Charge(c), httpx.ReserveFunc(c))
	if run != nil {
		httpx.SetLogIDs(c, run.Target(), run.Run.ID, run.Run.SessionID)
	}

	// Set the header even after an error, so that the client can find the accepted run.
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

// streamRun responds with the events of a run that the caller may read. The stream begins after the
// last event that the client has received. The response is 204 if the client has received all
// events of a finished run. If the format is that of a library, the client of a chat is watched, so
// a client that reconnects keeps its run alive.
func (h *Handler) streamRun(c *gin.Context, runID string, asked *uistream.Reader) {
	seats, err := h.takeStreams(c)
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	defer h.LeaveStreams(seats)

	from := asked.Last
	if asked.Format != "" {
		from = domain.EventID{} // the encoder needs all events
	}

	var run *rundb.StoredRun
	var reader *stream.Reader
	offload.Do(func() { run, reader, err = h.openRun(c, runID, from) })
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	defer reader.Close()

	if reader.AtEnd(asked.Last) { // status 204 stops browsers from reconnecting
		c.Status(http.StatusNoContent)
		return
	}
	if asked.Format == "" {
		h.sendEvents(c, runID, reader)
		return
	}

	if run.Run.Trigger.Type == domain.TriggerChat {
		h.streamFormatted(c, reader, h.Readers.Resume(run), asked)
		return
	}
	h.sendFormatted(c, runID, reader, asked)
}

// openRun returns a run and a reader of its events after the event last. The caller must close the
// reader. The error is not_found for a run that the caller may not read, and that of
// dispatch.ErasedRun for an erased run.
func (h *Handler) openRun(c *gin.Context, runID string, last domain.EventID) (*rundb.StoredRun, *stream.Reader, error) {
	run, err := h.findRun(c, runID)
	if err != nil {
		return nil, nil, err
	}
	if run.Erased {
		return nil, nil, dispatch.ErasedRun()
	}
	reader, err := h.Streams.Open(c.Request.Context(), run.OrganizationID, runID, last, httpx.ReserveFunc(c))
	return &run, reader, err
}

// sendEvents writes the events of a run until the run has finished, restricted to the data that the
// caller may see. It returns when the run has finished, or the credential has become invalid.
func (h *Handler) sendEvents(c *gin.Context, runID string, events httpx.Source[domain.Event]) {
	httpx.SendStream(c, events, callerFrame(c, runID), h.permit(c))
}

// The goroutine of an open stream keeps the stack frames of its callers. The following functions
// have large variables, such as the request's caller. They are not inlined, so that these variables
// do not become part of the frames that are kept.

// permit returns the session check of the request. The result is a pointer, so that the check does
// not stay on the stack.
//
//go:noinline
func (h *Handler) permit(c *gin.Context) *httpx.SessionCheck {
	check := h.SessionCheck(c)
	return &check
}

// takeStreams takes the request's slots of streams.
// The caller must pass them to LeaveStreams.
//
//go:noinline
func (h *Handler) takeStreams(c *gin.Context) ([]stream.Limit, error) {
	return h.TakeStreams(httpx.Caller(c))
}

// callerFrame returns the function that frameFor returns for the request's caller.
//
//go:noinline
func callerFrame(c *gin.Context, runID string) func([]byte, domain.Event) []byte {
	return frameFor(httpx.Caller(c), runID)
}
