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
	"parley/ingress/internal/httpapi/runbody"
	"parley/ingress/internal/openaiapi"
	"parley/shared/apierr"
	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/store/rundb"
	"parley/shared/store/sessiondb"
)

// createResponse handles POST /v1/responses. If the request asks for a stream, it streams the run's
// events. It responds to a background request immediately, with the current state of the run, and
// to any other request when the run has finished. Separate functions read the request, so that a
// goroutine that waits for the run does not keep their stack frames.
func (h *Handler) createResponse(c *gin.Context) {
	s, request, err := h.responseSubmission(c)
	switch {
	case err != nil:
		h.refuse(c, err)
	case request.Stream:
		h.streamAs(c, s, request.Echo.Background, func(runID string) httpx.Encoder {
			return openaiapi.NewResponseStream(runID, request.Echo)
		})
	case request.Echo.Background:
		h.beginResponse(c, s, request.Echo)
	default:
		h.awaitResponse(c, s, request.Echo)
	}
}

// responseSubmission reads a request for a response. It does not look up references to earlier
// runs, because the request must be counted first. Problems of all fields are in one error.
// s.Before completes the submission when it is accepted.
func (h *Handler) responseSubmission(c *gin.Context) (*dispatch.Submission, *openaiapi.ResponseAsk, error) {
	attempt := hashBody(c)
	body, found, err := httpx.CollectOpen[openaiapi.ResponseBody](c, httpx.MaxMessageBody)
	if err != nil {
		return nil, nil, err
	}

	request := openaiapi.ParseResponse(&body, found.Add)
	request.Echo.View.Link = h.linker(c)

	// The submission contains the conversation of the request. s.Before resolves items that are
	// only references.
	s := v1Submission(c, found, contract.EndpointResponses, request.Model, request.SessionID, request.Conversation)
	s.Attempt, s.Unstored = attempt(), request.Echo.Unstored
	s.Attachments = runbody.Attachments(body.Attachments(found.Add))
	s.Options.Settings, s.SettingNames = request.Settings, settingNames(request.Names)
	s.Options.ClientTools = request.Echo.ClientTools
	runbody.CheckClientTools(found, s.Options.ClientTools, "", "parameters")
	s.Options.Output = outputFor(found, request.Output)
	if err := found.Err(); err != nil {
		return nil, nil, err
	}

	// Sent and Echo contain what the client sent, before references are replaced.
	s.Before = func(ctx context.Context) error { return h.completeSubmission(ctx, s, &request) }
	s.Sent = append(sentReferences(&request), sentResults(request.Results)...)
	s.Echo, err = request.Echo.Stored()
	return s, &request, err
}

// sentReferences returns the references in a request as the client sent them, for the request's
// fingerprint. The fingerprint must not depend on the text of a reference, because that text may be
// erased.
func sentReferences(request *openaiapi.ResponseAsk) (sent []string) {
	for _, r := range request.References {
		sent = append(sent, r.Field, r.RunID)
	}
	if request.Previous != "" || request.WholeHistory && len(request.Conversation.History) > 0 {
		sent = append(sent, "previous", request.Previous)
	}
	return sent
}

// completeSubmission looks up what the request refers to by id: the run that it continues, and
// earlier answers and calls. It adds them to the submission. It runs as s.Before, after the request
// was counted. The order matters: the session of the previous run is needed to find the calls of
// the results.
func (h *Handler) completeSubmission(ctx context.Context, s *dispatch.Submission, request *openaiapi.ResponseAsk) error {
	if request.Previous != "" {
		if err := h.continueFrom(ctx, s, request.Previous, len(request.Results) > 0); err != nil {
			return err
		}
	}
	if len(request.References) > 0 {
		if err := h.resolveReferences(ctx, s, request); err != nil {
			return err
		}
	}
	if len(request.Results) > 0 {
		if err := h.takeResults(ctx, s, request.Results); err != nil {
			return err
		}
	}

	if err := h.nameRounds(ctx, s); err != nil {
		return err
	}

	// The request contains the whole history, so the run continues no run of its session.
	if request.WholeHistory && s.Previous == nil && len(s.History) > 0 {
		s.Previous = new("")
	}
	return nil
}

// continueFrom makes a submission continue an earlier run in the session of that run. It sets the
// session of s. A session belongs to a principal and to an agent or template. The submission must
// therefore have the same principal and the same agent or template as the earlier run. If the
// earlier run ended with calls of tools of the client, the request must contain their results.
// answers is whether the request contains results. The error has the code that OpenAI's API uses
// for an unknown response.
func (h *Handler) continueFrom(ctx context.Context, s *dispatch.Submission, runID string, answers bool) error {
	run, err := h.RunsDB.ShortRun(ctx, s.Caller.OrganizationID, s.Principal, runID)
	coded, isCoded := errors.AsType[*apierr.Error](err)
	missing := isCoded && coded.Code == apierr.NotFound
	if err == nil {
		missing, err = h.RunsDB.Unstored(ctx, s.Caller.OrganizationID, runID)
	}
	if err != nil && !missing {
		return err
	}

	// The error is the same for missing and for unsuitable runs, so that it reveals nothing about
	// the runs of other callers.
	if missing || run.Erased || run.Run.Trigger.Type != domain.TriggerChat || run.Target() != s.Target() {
		return apierr.Invalid("previous_response_id", openaiapi.CodeNoPrevious, openaiapi.NoPrevious)
	}
	if !answers {
		if err := unansweredCall(&run); err != nil {
			return err
		}
	}

	s.SessionID, s.Previous = run.Run.SessionID, &run.Run.ID

	// The client has not named the session, so the run is kept only as long as the first run of the
	// session.
	if strings.HasPrefix(s.SessionID, sessiondb.OwnSessionPrefix) {
		s.Retention = dispatch.UnnamedRetention
	}
	return nil
}

// awaitResponse responds when the run has finished. If the run has no answer, the response is an
// error and not a response object with the status failed: OpenAI's Agents SDK ignores that status
// and repeats a request without output up to ten times. s must be a submission from
// responseSubmission.
func (h *Handler) awaitResponse(c *gin.Context, s *dispatch.Submission, echo openaiapi.ResponseEcho) {
	run, err := h.submitAndWait(c, s)
	switch {
	case err != nil:
		httpx.RefuseAnswer(c, err)
	case run.Status != domain.RunCompleted:
		failRun(c, run)
	default:
		httpx.WriteJSON(c, http.StatusOK, openaiapi.NewResponse(run, echo))
	}
}

// beginResponse responds with the run as soon as it exists. The client reads the result later, with
// getResponse. A run that has already finished, because the key was used before, is returned with
// its answer.
func (h *Handler) beginResponse(c *gin.Context, s *dispatch.Submission, echo openaiapi.ResponseEcho) {
	sub, err := h.accept(c, s)
	if err != nil {
		httpx.Fail(c, err)
		return
	}

	// Release the wait, because the client polls the run.
	h.Dispatch.Release(sub)
	if err := h.Runs.ReadAccepted(c, &sub.Run); err != nil {
		httpx.RefuseAnswer(c, err)
		return
	}

	h.writeResponse(c, &sub.Run, echo)
}

// getResponse handles GET /v1/responses/<id>: it returns the current state of a run as a response
// object. The object has the same form as in the response to its creation. Runs that were created
// with store=false are not found.
func (h *Handler) getResponse(c *gin.Context) {
	found := &httpx.Problems{}
	if value, present := httpx.QueryValue(c, "stream", found); present && value != "false" {
		found.Add("stream", httpx.CodeInvalidValue, "is not supported here: GET /api/runs?id=&stream=1 streams the events of the run")
	}
	if err := found.Err(); err != nil {
		httpx.Fail(c, err)
		return
	}

	run, err := h.findResponse(c)
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	h.showResponse(c, &run)
}

// cancelResponse handles POST /v1/responses/<id>/cancel. It does not change a finished run. The
// response is the state after the cancellation.
func (h *Handler) cancelResponse(c *gin.Context) {
	run, err := h.findResponse(c)
	if err == nil {
		run, err = h.Runs.CancelRun(c, run.Run.ID)
	}
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	h.showResponse(c, &run)
}

// findResponse returns the run of the response named by the path. The run can be any chat of the
// caller, even if the chat was started over another protocol. The error is not_found.
func (h *Handler) findResponse(c *gin.Context) (rundb.StoredRun, error) {
	missing := apierr.Missing()
	runID, ok := openaiapi.RunOfResponse(c.Param("id"))
	if !ok {
		return rundb.StoredRun{}, missing
	}

	run, err := h.Runs.ReadRun(c, runID)
	switch {
	case err != nil:
		return rundb.StoredRun{}, err
	case run.Run.Trigger.Type != domain.TriggerChat: // only chats are responses; the error does not reveal that another run has this id
		return rundb.StoredRun{}, missing
	}

	unstored, err := h.RunsDB.Unstored(c.Request.Context(), run.OrganizationID, runID)
	switch {
	case err != nil:
		return rundb.StoredRun{}, err
	case unstored:
		return rundb.StoredRun{}, missing
	}

	httpx.SetLogIDs(c, run.Target(), runID, run.Run.SessionID)
	return run, nil
}

// showResponse responds with a run as a response object. If parts of a large run are missing, it
// reads them first. For an erased run, it responds with the error of dispatch.ErasedRun.
func (h *Handler) showResponse(c *gin.Context, run *rundb.StoredRun) {
	if err := h.Runs.ReadDeferred(c, run); err != nil {
		httpx.Fail(c, err)
		return
	}
	if run.Erased {
		httpx.Fail(c, dispatch.ErasedRun())
		return
	}

	echo, err := h.storedEcho(c.Request.Context(), run)
	if err != nil {
		httpx.Fail(c, err)
		return
	}

	c.Header(HeaderRunID, run.Run.ID)
	echo.View = h.view(c, echo.AppendSources())
	h.writeResponse(c, run, echo)
}

// storedEcho returns the fields of the request that are stored with its run. The result is the zero
// value for runs that another API has created.
func (h *Handler) storedEcho(ctx context.Context, run *rundb.StoredRun) (echo openaiapi.ResponseEcho, err error) {
	stored, err := h.RunsDB.Echo(ctx, run.OrganizationID, run.Run.ID)
	if err != nil || stored == nil {
		return echo, err
	}
	if err := json.Unmarshal(stored, &echo); err != nil {
		return echo, fmt.Errorf("reading fields of a response: %w", err)
	}
	return echo, nil
}

// writeResponse responds with the current state of a run as a response object. stored must have the
// result, if the run has finished.
func (h *Handler) writeResponse(c *gin.Context, stored *rundb.StoredRun, echo openaiapi.ResponseEcho) {
	// The result of a finished run replaces the columns of the row, which lack the answer.
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
