package openai

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/dispatch"
	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/openaiapi"
	"parley/shared/apierr"
	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/store/rundb"
	"parley/shared/store/sessiondb"
)

// createResponse runs an agent or template for a client of OpenAI's protocol, and answers with the run as a response: at its
// end, as it goes on, or at once. What reads the request has returned before the wait, as in [api.chat].
func (h *Handler) createResponse(c *gin.Context) {
	s, ask, err := h.responseSubmission(c)
	switch {
	case err != nil:
		h.refuse(c, err)
	case ask.Stream:
		h.streamAs(c, s, func(runID string) httpx.Encoder { return openaiapi.NewResponseStream(runID, ask.Echo) })
	case ask.Echo.Background:
		h.beginResponse(c, s, ask.Echo)
	default:
		h.awaitResponse(c, s, ask.Echo)
	}
}

func (h *Handler) responseSubmission(c *gin.Context) (*dispatch.Submission, *openaiapi.ResponseAsk, error) {
	body, found, err := httpx.CollectOpen[openaiapi.ResponseBody](c, httpx.MaxMessageBody)
	if err != nil {
		return nil, nil, err
	}
	ask := openaiapi.ParseResponse(&body, found.Add)
	s := v1Submission(c, found, contract.EndpointResponses, ask.Model, ask.SessionID, ask.Conversation)
	if ask.Previous != "" {
		s.Before = func(ctx context.Context) error { return h.goOnFrom(ctx, s, ask.Previous) }
	}
	return s, &ask, found.Err()
}

// goOnFrom makes a submission one of the session of an earlier run, which must be the same principal's with the same agent or
// template: sessions are theirs.
func (h *Handler) goOnFrom(ctx context.Context, s *dispatch.Submission, runID string) error {
	run, err := h.RunsDB.ShortRun(ctx, s.Caller.OrganizationID, s.Principal, runID)
	coded, isCoded := errors.AsType[*apierr.Error](err)
	missing := isCoded && coded.Code == apierr.NotFound
	if err != nil && !missing {
		return err
	}
	if missing || run.Erased || run.Run.Trigger.Type != domain.TriggerChat || run.Target() != s.Target() {
		return apierr.Invalid("previous_response_id", openaiapi.CodeNoPrevious, openaiapi.NoPrevious)
	}
	s.SessionID = run.Run.SessionID
	if strings.HasPrefix(s.SessionID, sessiondb.OwnSessionPrefix) {
		s.Retention = dispatch.UnnamedRetention
	}
	return nil
}

// awaitResponse answers at the run's end. A run that failed has a place in the protocol; one that waits for a person has none.
func (h *Handler) awaitResponse(c *gin.Context, s *dispatch.Submission, echo openaiapi.ResponseEcho) {
	run, err := h.submitAndWait(c, s)
	switch {
	case err != nil:
		httpx.RefuseAnswer(c, err)
	case run.Status == domain.RunRequiresAction:
		failRun(c, run)
	default:
		httpx.WriteJSON(c, http.StatusOK, openaiapi.NewResponse(run, echo))
	}
}

// beginResponse answers as soon as the run exists.
func (h *Handler) beginResponse(c *gin.Context, s *dispatch.Submission, echo openaiapi.ResponseEcho) {
	sub, err := h.begun(c, s)
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	h.Dispatch.Release(sub)
	if err := h.Runs.ReadBegun(c, &sub.Run); err != nil {
		httpx.RefuseAnswer(c, err)
		return
	}
	if sub.Run.Erased {
		httpx.Fail(c, dispatch.ErasedKey())
		return
	}
	h.writeResponse(c, &sub.Run, echo)
}

// getResponse gives a run as a response, as it stands.
func (h *Handler) getResponse(c *gin.Context) {
	found := &httpx.Problems{}
	if value, given := httpx.QueryValue(c, "stream", found); given && value != "false" {
		found.Add("stream", httpx.CodeInvalidValue, "is not supported here: GET /api/runs?id=&stream=1 streams the events of the run")
	}
	if err := found.Err(); err != nil {
		httpx.Fail(c, err)
		return
	}
	missing := apierr.New(apierr.NotFound, "no such resource")
	runID, ok := openaiapi.RunOfResponse(c.Param("id"))
	if !ok {
		httpx.Fail(c, missing)
		return
	}
	run, err := h.Runs.ReadRun(c, runID)
	switch {
	case err != nil:
		httpx.Fail(c, err)
		return
	case run.Run.Trigger.Type != domain.TriggerChat: // nothing of it is told, its id neither
		httpx.Fail(c, missing)
		return
	}
	httpx.About(c, run.Target(), runID, run.Run.SessionID)
	if err := h.Runs.ReadDeferred(c, &run); err != nil {
		httpx.Fail(c, err)
		return
	}
	if run.Erased {
		httpx.Fail(c, dispatch.ErasedRun())
		return
	}
	c.Header(HeaderRunID, runID)
	h.writeResponse(c, &run, openaiapi.ResponseEcho{})
}

// writeResponse answers with a run as a response, as it stands.
func (h *Handler) writeResponse(c *gin.Context, stored *rundb.StoredRun, echo openaiapi.ResponseEcho) {
	run := stored.Run
	result, err := stored.Result()
	if result != nil {
		run = domain.Run{}
		err = json.Unmarshal(result, &run)
	}
	if err != nil {
		httpx.Fail(c, fmt.Errorf("reading result: %w", err))
		return
	}
	httpx.WriteJSON(c, http.StatusOK, openaiapi.NewResponse(&run, echo))
}
