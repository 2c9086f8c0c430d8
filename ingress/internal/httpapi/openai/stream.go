package openai

import (
	"github.com/gin-gonic/gin"

	"parley/ingress/internal/dispatch"
	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/openaiapi"
)

// streamAs is submitStream in another protocol's words. The encoder is given all of the run's events, from the first.
func (h *Handler) streamAs(c *gin.Context, s *dispatch.Submission, encoderOf func(runID string) httpx.Encoder) {
	seats, err := h.TakeSeats(s.Caller)
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	defer h.LeaveSeats(seats)
	reader, err := h.Runs.OpenSubmitted(c, s)
	if err != nil {
		httpx.Fail(c, openaiapi.AsModelError(err))
		return
	}
	defer reader.Close()
	c.Header(HeaderRunID, reader.RunID())
	httpx.SendEncoded(c, reader, encoderOf(reader.RunID()), h.Permit(c), h.Log)
}
