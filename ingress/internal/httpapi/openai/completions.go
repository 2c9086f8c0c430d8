package openai

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/dispatch"
	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/openaiapi"
	"parley/shared/contract"
	"parley/shared/domain"
)

// createCompletion handles POST /v1/chat/completions: an agent's answer to a conversation. The
// functions that read the request return before the wait; see run.Handler.
func (h *Handler) createCompletion(c *gin.Context) {
	s, streamed, usage, err := readCompletion(c)
	switch {
	case err != nil:
		h.refuse(c, err)
	case streamed:
		h.streamAs(c, s, false, func(runID string) httpx.Encoder { return openaiapi.NewCompletionStream(runID, usage) })
	default:
		h.complete(c, s)
	}
}

// readCompletion reads the request, whether the answer is streamed, and whether the stream ends
// with the usage.
func readCompletion(c *gin.Context) (s *dispatch.Submission, streamed, usage bool, err error) {
	attempt := hashBody(c)
	body, found, err := httpx.CollectOpen[openaiapi.CompletionRequest](c, httpx.MaxMessageBody)
	if err != nil {
		return nil, false, false, err
	}
	s = v1Submission(c, found, contract.EndpointCompletions, body.Model, body.Session(), body.Conversation(found.Add))
	s.Attempt = attempt()
	if s.SessionID != "" && len(s.History) > 0 {
		s.Previous = new("") // the request's history replaces that of the session
	}
	return s, body.Streamed(), body.WantsUsage(), found.Err()
}

// complete responds with the finished run as a chat completion.
func (h *Handler) complete(c *gin.Context, s *dispatch.Submission) {
	run, err := h.submitAndWait(c, s)
	switch {
	case err != nil:
		httpx.RefuseAnswer(c, err)
	case run.Status != domain.RunCompleted:
		failRun(c, run)
	default:
		httpx.WriteJSON(c, http.StatusOK, openaiapi.NewCompletion(run))
	}
}
