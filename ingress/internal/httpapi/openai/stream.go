package openai

import (
	"github.com/gin-gonic/gin"

	"parley/ingress/internal/dispatch"
	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/openaiapi"
)

// streamAs accepts a submission and responds with the run's events, which an encoder translates.
// The encoder gets all events from the first on. If keep is true, the run continues even if the
// client disconnects. Errors before the first event are HTTP responses. When the credential becomes
// invalid, the stream ends with the encoder's message for an interruption. If keep is false and the
// submission has no key, the run is cancelled when no client reads it.
func (h *Handler) streamAs(c *gin.Context, s *dispatch.Submission, keep bool, newEncoder func(runID string) httpx.Encoder) {
	seats, err := h.TakeStreams(s.Caller)
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	defer h.LeaveStreams(seats)

	reader, run, err := h.Runs.OpenSubmitted(c, s)
	if err != nil {
		httpx.Fail(c, openaiapi.AsModelError(err))
		return
	}

	rules := rules(s)
	rules.Shows, rules.Keep = true, rules.Keep || keep
	reading := h.Readers.Begin(run, rules)
	defer reading.End(c.Request.Context()) // runs after the reader is closed
	defer reader.Close()

	c.Header(HeaderRunID, reader.RunID())
	httpx.SendEncoded(c, reading.Follow(reader), newEncoder(reader.RunID()), h.SessionCheck(c), h.Log)
}
