package httpapi

import (
	"github.com/gin-gonic/gin"

	"parley/ingress/internal/dispatch"
	"parley/ingress/internal/httpapi/httpx"
)

// streamAs is submitStream in another protocol's words. The encoder is given all of the run's events, from the first.
func (h *openaiHandler) streamAs(c *gin.Context, s *dispatch.Submission, encoderOf func(runID string) httpx.Encoder) {
	seats, err := h.TakeSeats(s.Caller)
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	defer h.LeaveSeats(seats)
	reader, err := h.Runs.openSubmitted(c, s)
	if err != nil {
		httpx.Fail(c, asModel(err))
		return
	}
	defer reader.Close()
	c.Header(headerRunID, reader.RunID())
	httpx.SendEncoded(c, reader, encoderOf(reader.RunID()), h.Permit(c), h.Log)
}
