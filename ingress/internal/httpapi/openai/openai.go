package openai

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/rs/zerolog"

	"parley/ingress/internal/auth"
	"parley/ingress/internal/dispatch"
	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/httpapi/run"
	"parley/ingress/internal/openaiapi"
	"parley/shared/apierr"
	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/store/agentdb"
	"parley/shared/store/rundb"
)

const (
	// V1Prefix begins the paths of OpenAI's API.
	V1Prefix = "/v1/"

	endMargin = time.Minute // behind a run's deadline, for its end to be told

	// HeaderRunID names the run of an answer.
	HeaderRunID       = "X-Parley-Run-Id"
	headerShouldRetry = "X-Should-Retry" // OpenAI's own clients obey it
)

// TemplateList lists the templates.
type TemplateList interface {
	Get(ctx context.Context) ([]domain.Template, error)
}

// Deps is what the handler of OpenAI's API needs.
type Deps struct {
	*httpx.Limiter
	httpx.SessionChecks
	Runs        *run.Handler
	AgentsDB    *agentdb.Store
	RunsDB      *rundb.Store
	Dispatch    *dispatch.Dispatcher
	Templates   TemplateList
	Log         zerolog.Logger
	RunDeadline time.Duration
}

// Handler answers OpenAI's API, but for voice.
type Handler struct{ Deps }

// New makes the handler of OpenAI's API.
func New(deps Deps) *Handler { return &Handler{deps} }

// Routes are models, completions and responses.
func (h *Handler) Routes() []httpx.Route {
	const member = domain.RoleMember
	return []httpx.Route{
		{Method: "GET", Path: "/v1/models", Need: auth.NeedUser, Role: member, Open: true, Handle: h.listModels},
		{Method: "GET", Path: "/v1/models/:id", Need: auth.NeedUser, Role: member, Open: true, Handle: h.getModel},
		{Method: "POST", Path: "/v1/chat/completions", Need: auth.NeedUser, Role: member, Late: true, Open: true, Handle: h.createCompletion},
		{Method: "POST", Path: "/v1/responses", Need: auth.NeedUser, Role: member, Late: true, Open: true, Handle: h.createResponse},
		{Method: "GET", Path: "/v1/responses/:id", Need: auth.NeedUser, Role: member, Open: true, Handle: h.getResponse},
	}
}

// v1Submission is a request of OpenAI's protocol to run what it calls a model: an agent or a template, by its id. Its
// session is one of its own when it names none.
func v1Submission(
	c *gin.Context, found *httpx.Problems, endpoint contract.Endpoint, model, sessionID string, said openaiapi.Conversation,
) *dispatch.Submission {
	who := httpx.Caller(c)
	s := &dispatch.Submission{
		Endpoint: endpoint, Lane: domain.LaneChat, Caller: who, Principal: who.Principal(), TriggerType: domain.TriggerChat,
		SessionID: sessionID, Message: said.Message, History: said.History, Instructions: said.Instructions,
		Key: httpx.IdempotencyKey(found, c, httpx.Optional[string]{}),
	}
	if model = openaiapi.ClipModel(model); strings.HasPrefix(model, openaiapi.TemplatePrefix) {
		s.TemplateID = model
	} else {
		s.AgentID = model
	}
	s.KeyScope = s.Target() + "\x00" + s.Principal
	if sessionID == "" {
		s.Retention = dispatch.UnnamedRetention
	}
	return s
}

// begun gives the run of a submission, of which the response tells from then on. It must be released.
func (h *Handler) begun(c *gin.Context, s *dispatch.Submission) (*dispatch.Submitted, error) {
	sub, err := h.Runs.FindOrAccept(c, s, func(string) {})
	if err != nil {
		return nil, openaiapi.AsModelError(err)
	}
	httpx.About(c, sub.Run.Target(), sub.Run.Run.ID, sub.Run.Run.SessionID)
	c.Header(HeaderRunID, sub.Run.Run.ID)
	if sub.Existing && sub.Run.Ended() {
		c.Header("Idempotency-Replayed", "true")
	}
	return sub, nil
}

// refuse answers a request that cannot be taken. It is counted like others: to find that out, up to 2 MiB were read.
func (h *Handler) refuse(c *gin.Context, err error) {
	if limit := h.Spend(c); limit != nil {
		err = limit
	}
	httpx.Fail(c, err)
}

// submitAndWait begins a submission's run and gives it as it stands once it has ended, or waits for a person. Whoever
// waits takes seats, as streams do: it holds a connection for as long.
func (h *Handler) submitAndWait(c *gin.Context, s *dispatch.Submission) (*domain.Run, error) {
	seats, err := h.TakeSeats(s.Caller)
	if err != nil {
		return nil, err
	}
	defer h.LeaveSeats(seats)
	sub, err := h.begun(c, s)
	if err != nil {
		return nil, err
	}
	defer h.Dispatch.Release(sub)
	// The server's own limit is for answers that come at once; tests' recorders have none.
	_ = http.NewResponseController(c.Writer).SetWriteDeadline(time.Now().Add(h.RunDeadline + endMargin + httpx.WriteTime))
	return h.awaitEnd(c, sub)
}

// awaitEnd gives a run that was begun as it stands once it has ended, however long that takes, or waits for a person. What a run that waits
// has done is not read.
func (h *Handler) awaitEnd(c *gin.Context, sub *dispatch.Submitted) (*domain.Run, error) {
	ctx, ended := c.Request.Context(), sub.Run
	if sub.Run.Run.Status != domain.RunRequiresAction {
		result, err := h.awaitResult(c, sub)
		if err != nil {
			return nil, err
		}
		ended = result.Run
	}
	if !ended.Ended() {
		now, err := h.RunsDB.ShortRun(ctx, sub.Run.OrganizationID, "", sub.Run.Run.ID)
		if err != nil {
			return nil, err
		}
		if !now.Ended() {
			return waiting(&now.Run)
		}
		ended = now
	}
	body, err := h.Runs.ReadResult(ctx, &ended, httpx.Reserving(c))
	if err != nil {
		return nil, err
	}
	run := &domain.Run{}
	if err := json.Unmarshal(body, run); err != nil {
		return nil, fmt.Errorf("reading result: %w", err)
	}
	return run, nil
}

// awaitResult waits for a run's end, or until it waits for a person, for as long as the caller's credential is good.
func (h *Handler) awaitResult(c *gin.Context, sub *dispatch.Submitted) (dispatch.Result, error) {
	may, over := h.Permit(c), time.Now().Add(h.RunDeadline+endMargin)
	for {
		until := may.Earlier(over)
		result, err := h.Dispatch.Await(c.Request.Context(), sub, time.Until(until))
		now := time.Now()
		switch {
		case err != nil:
			return dispatch.Result{}, err
		case !may.Holds(now):
			return dispatch.Result{}, apierr.New(apierr.Unauthenticated, "the credential is no longer valid; the run %s continues", sub.Run.Run.ID)
		case result.Ended || now.Before(until) || !now.Before(over): // before its time a wait ends without a result for a reason
			return result, nil
		}
	}
}

// waiting gives a run that waits for a person. One that goes on is not waited for any longer.
func waiting(run *domain.Run) (*domain.Run, error) {
	if run.Status == domain.RunRequiresAction {
		return run, nil
	}
	stopping := apierr.New(apierr.Unavailable,
		"the service is stopping; the run continues, and GET /api/runs?id=%s returns its answer", run.ID)
	stopping.RetryAfter = time.Second
	return nil, stopping
}

// OfV1 reports whether a request is of OpenAI's protocol, and is to be answered in its shapes.
func OfV1(c *gin.Context) bool { return strings.HasPrefix(c.Request.URL.Path, V1Prefix) }

// FailV1 answers with an error in OpenAI's shape.
func FailV1(c *gin.Context, status int, retryable bool, coded *apierr.Error) {
	// Asked again without a key, an agent would run again.
	runID := httpx.StateFor(c).RunID
	again := retryable && coded.Code != apierr.BudgetExceeded && (runID == "" || c.GetHeader("Idempotency-Key") != "")
	if runID != "" {
		c.Header(HeaderRunID, runID)
	}
	writeV1Error(c, status, again, openaiapi.Refused(status, coded))
}

// failRun answers that a run gave no answer. It is nothing that trying again would mend: clients do so by themselves on
// other statuses, and would run the agent again.
func failRun(c *gin.Context, run *domain.Run) {
	writeV1Error(c, http.StatusBadRequest, false, openaiapi.Unanswered(run))
}

func writeV1Error(c *gin.Context, status int, again bool, e openaiapi.Error) {
	c.Header(headerShouldRetry, fmt.Sprint(again))
	c.Data(status, httpx.ContentJSON, e.Body())
}
