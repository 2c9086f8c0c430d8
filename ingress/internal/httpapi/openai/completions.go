package openai

import (
	"context"
	"net/http"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/dispatch"
	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/httpapi/runbody"
	"parley/ingress/internal/openaiapi"
	"parley/shared/contract"
	"parley/shared/domain"
)

// createCompletion handles POST /v1/chat/completions: it returns an agent's answer to a
// conversation. Separate functions read the request, so that a goroutine that waits for the run
// does not keep their stack frames. The response is a chat completion, or a stream of chunks. The
// model in the request is an agent or a template.
func (h *Handler) createCompletion(c *gin.Context) {
	s, request, err := h.readCompletion(c)
	view := h.view(c, request.AppendSources)
	switch {
	case err != nil:
		h.refuse(c, err)
	case request.Streamed():
		usage := request.WantsUsage()
		h.streamAs(c, s, false, func(runID string) httpx.Encoder { return openaiapi.NewCompletionStream(runID, usage, view) })
	default:
		h.complete(c, s, view)
	}
}

// readCompletion reads the request. The submission is incomplete until s.Before has run, which
// happens while the submission is accepted. After an error, the request is not nil, so that its
// options can be read. Problems of all fields are in one error.
func (h *Handler) readCompletion(c *gin.Context) (*dispatch.Submission, *openaiapi.CompletionRequest, error) {
	attempt := hashBody(c)
	body, found, err := httpx.CollectOpen[openaiapi.CompletionRequest](c, httpx.MaxMessageBody)
	if err != nil {
		return nil, &body, err
	}

	// An unknown field is ignored, so that clients with newer options work.
	s := v1Submission(c, found, contract.EndpointCompletions, body.Model, body.Session(), body.Conversation(found.Add))
	s.Attempt, s.ToolField = attempt(), openaiapi.CompletionFunction
	s.Attachments = runbody.Attachments(body.Attachments(found.Add))
	s.Options.ClientTools = body.ClientTools(found.Add)
	runbody.CheckClientTools(found, s.Options.ClientTools, s.ToolField, "parameters")

	s.Before = func(ctx context.Context) error { return h.nameRounds(ctx, s) }
	settings, names := body.Settings(found.Add)
	s.Options.Settings, s.SettingNames = settings, settingNames(names)
	s.Options.Output = outputFor(found, body.Output)

	if s.SessionID != "" && len(s.History) > 0 {
		s.Previous = new("") // the run continues no run of the session, because the request contains its own history
	}
	return s, &body, found.Err()
}

// complete responds with the finished run as a chat completion. A run without an answer results in
// an error; see failRun. The request occupies its slots and its connection until the run has
// finished.
func (h *Handler) complete(c *gin.Context, s *dispatch.Submission, view openaiapi.View) {
	run, err := h.submitAndWait(c, s)
	switch {
	case err != nil:
		httpx.RefuseAnswer(c, err)
	case run.Status != domain.RunCompleted:
		failRun(c, run)
	default:
		httpx.WriteJSON(c, http.StatusOK, openaiapi.NewCompletion(run, view))
	}
}
