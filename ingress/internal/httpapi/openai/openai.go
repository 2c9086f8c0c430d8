package openai

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/rs/zerolog"

	"parley/ingress/internal/auth"
	"parley/ingress/internal/dispatch"
	"parley/ingress/internal/filelink"
	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/httpapi/run"
	"parley/ingress/internal/httpapi/runbody"
	"parley/ingress/internal/openaiapi"
	"parley/ingress/internal/readers"
	"parley/shared/apierr"
	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/store/agentdb"
	"parley/shared/store/rundb"
	"parley/shared/store/sessiondb"
)

const (
	// V1Prefix is the prefix of the paths of this API.
	V1Prefix = "/v1/"

	resultMargin = time.Minute // time after a run's deadline for which a request still waits for the result

	// HeaderRunID is the header with the id of the response's run.
	HeaderRunID       = "X-Parley-Run-Id"
	headerShouldRetry = "X-Should-Retry" // respected by OpenAI's own clients
)

// TemplateList lists the templates. The list may come from a cache and must not be changed.
type TemplateList interface {
	Get(ctx context.Context) ([]domain.Template, error)
}

// Deps contains the dependencies and settings of the Handler. They are set once and never change.
type Deps struct {
	*httpx.Limiter
	httpx.SessionChecks
	// Accepts, reads and cancels runs.
	Runs *run.Handler
	// Agents, as models.
	AgentsDB *agentdb.Store
	// Runs, as responses.
	RunsDB *rundb.Store
	// Answers of earlier runs.
	SessionsDB *sessiondb.Store
	// Waits for runs.
	Dispatch *dispatch.Dispatcher
	// Watches clients that wait for or read an answer.
	Readers   *readers.Watch
	Templates TemplateList
	Links     *filelink.Links // creates links to the files of runs
	// Calls workers for embeddings.
	Workers WorkerCaller
	// Signs the claims of calls.
	Signer    ClaimSigner
	PublicURL string // where browsers reach the service
	Log       zerolog.Logger
	// Maximum duration of a run.
	RunDeadline time.Duration
}

// Handler handles the requests of OpenAI's API, except those for voice. There is one per process.
// It is safe for concurrent use.
type Handler struct{ Deps }

// New returns a Handler.
func New(deps Deps) *Handler { return &Handler{deps} }

// Routes returns the routes of the handler. Unknown parameters are ignored (Open), because OpenAI
// defines the queries. Requests that create a run count against the rate limit only after the
// look-up of a replay.
func (h *Handler) Routes() []httpx.Route {
	const member = domain.RoleMember
	return []httpx.Route{
		{Method: "GET", Path: "/v1/models", Need: auth.NeedUser, Role: member, Open: true, Handle: h.listModels},
		{Method: "GET", Path: "/v1/models/:id", Need: auth.NeedUser, Role: member, Open: true, Handle: h.getModel},
		{Method: "POST", Path: "/v1/chat/completions", Need: auth.NeedUser, Role: member, Late: true, Open: true, Handle: h.createCompletion},
		{Method: "POST", Path: "/v1/responses", Need: auth.NeedUser, Role: member, Late: true, Open: true, Handle: h.createResponse},
		{Method: "POST", Path: "/v1/embeddings", Need: auth.NeedUser, Role: member, Open: true, Handle: h.createEmbeddings},
		{Method: "GET", Path: "/v1/responses/:id", Need: auth.NeedUser, Role: member, Open: true, Handle: h.getResponse},
		{
			// A file's id is unique without the id of its container, which is ignored.
			Method: "GET", Path: "/v1/containers/:container/files/:id/content", Need: auth.NeedUser, Role: member, Open: true,
			Handle: func(c *gin.Context) { h.Runs.Files().Send(c, c.Param("id")) },
		},
		{Method: "POST", Path: "/v1/responses/:id/cancel", Need: auth.NeedUser, Role: member, Open: true, Handle: h.cancelResponse},
	}
}

// view returns the options for showing sources and files in a response. appendSources is the option
// in the request; nil means the agent's setting. Links in the response are absolute, because
// clients show the text elsewhere.
func (h *Handler) view(c *gin.Context, appendSources *bool) openaiapi.View {
	return openaiapi.View{AppendSources: appendSources, Link: h.linker(c), BaseURL: h.PublicURL}
}

// linker returns a function that creates links to the files of the caller's organization. The links
// work without a credential; see package filelink.
func (h *Handler) linker(c *gin.Context) func(fileID string) string {
	org := httpx.Caller(c).OrganizationID
	return func(fileID string) string { return h.Links.URL(org, fileID) }
}

// v1Submission returns the submission for a request of OpenAI's protocol. model is the id of an
// agent or template. If sessionID is empty, the run gets a new session. Problems of the idempotency
// key are added to found. Runs without a session of the client's choice are kept for
// dispatch.UnnamedRetention only.
func v1Submission(
	c *gin.Context, found *httpx.Problems, endpoint contract.Endpoint, model, sessionID string, conversation openaiapi.Conversation,
) *dispatch.Submission {
	who := httpx.Caller(c)
	s := &dispatch.Submission{
		Endpoint: endpoint, Lane: domain.LaneChat, Caller: who, Principal: who.Principal(), TriggerType: domain.TriggerChat,
		SessionID: sessionID, Message: conversation.Message, History: conversation.History, Instructions: conversation.Instructions,
		Key: runbody.IdempotencyKey(found, c, httpx.Optional[string]{}),
	}

	if model = openaiapi.TruncateModel(model); strings.HasPrefix(model, openaiapi.TemplatePrefix) {
		s.TemplateID = model
	} else {
		s.AgentID = model
	}

	// The scope of the idempotency key contains the target and the principal, so that equal keys of
	// different targets or principals do not collide.
	s.KeyScope = s.Target() + "\x00" + s.Principal
	if sessionID == "" {
		s.Retention = dispatch.UnnamedRetention
	}
	return s
}

// settingNames returns the names of model settings in this protocol, for error messages. Problems
// of the settings have the code of an unsupported parameter.
func settingNames(names map[domain.Setting]string) *dispatch.SettingNames {
	return &dispatch.SettingNames{Fields: names, Unsupported: openaiapi.CodeUnsupported}
}

// accept accepts a submission and sets the response headers for its run. The caller must pass the
// result to Dispatcher.Release. The error is in this API's form. A run of an earlier request with
// the same key is returned too.
func (h *Handler) accept(c *gin.Context, s *dispatch.Submission) (*dispatch.Submitted, error) {
	sub, err := h.Runs.FindOrAccept(c, s, func(string) {})
	if err != nil {
		return nil, openaiapi.AsModelError(err)
	}

	httpx.SetLogIDs(c, sub.Run.Target(), sub.Run.Run.ID, sub.Run.Run.SessionID)
	c.Header(HeaderRunID, sub.Run.Run.ID)

	// Clients distinguish a repeated answer from a new one by this header.
	if sub.Existing && sub.Run.Ended() {
		c.Header("Idempotency-Replayed", "true")
	}
	return sub, nil
}

// refuse responds with an error to an invalid request. The request counts against the rate limit,
// because the service may have read a body of up to 2 MiB. Otherwise a client could make the
// service read large bodies without limit.
func (h *Handler) refuse(c *gin.Context, err error) {
	if limit := h.Spend(c); limit != nil {
		err = limit
	}
	httpx.Fail(c, err)
}

// submitAndWait accepts a submission and waits until its run has finished or waits for a person. It
// returns the run. The request takes the slots of a stream, because its connection may stay open
// for as long as a stream. If the caller's credential becomes invalid, submitAndWait returns
// unauthenticated and the run continues. A client that disconnects ends the wait; package readers
// decides whether the run continues.
func (h *Handler) submitAndWait(c *gin.Context, s *dispatch.Submission) (*domain.Run, error) {
	seats, err := h.TakeStreams(s.Caller)
	if err != nil {
		return nil, err
	}
	defer h.LeaveStreams(seats)

	sub, err := h.accept(c, s)
	if err != nil {
		return nil, err
	}

	reading := h.Readers.Begin(&sub.Run, rules(s))
	defer reading.End(c.Request.Context()) // runs after the wait is released
	defer h.Dispatch.Release(sub)

	// The server's write timeout is shorter than the wait. Setting the deadline fails only for the
	// response recorders of tests.
	_ = http.NewResponseController(c.Writer).SetWriteDeadline(time.Now().Add(h.RunDeadline + resultMargin + httpx.WriteTime))
	return h.awaitEnd(c, sub)
}

// awaitEnd waits until an accepted run has finished or waits for a person, and returns it. A run
// that waits for a person is returned in its short form. For a finished run, awaitEnd reserves
// memory and then reads the whole result. The error has the code unavailable if the service is
// stopping.
func (h *Handler) awaitEnd(c *gin.Context, sub *dispatch.Submitted) (*domain.Run, error) {
	ctx, ended := c.Request.Context(), sub.Run
	if sub.Run.Run.Status != domain.RunRequiresAction {
		result, err := h.awaitResult(c, sub)
		if err != nil {
			return nil, err
		}
		ended = result.Run
	}

	// The wait has ended without a result, so read the run's current state.
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

	if err := h.Runs.ReadAccepted(c, &ended); err != nil {
		return nil, err
	}
	body, err := ended.Result()
	if err != nil {
		return nil, err
	}

	run := &domain.Run{}
	if err := json.Unmarshal(body, run); err != nil {
		return nil, fmt.Errorf("reading result: %w", err)
	}
	return run, nil
}

// awaitResult waits until a run has finished or waits for a person. It returns an error as soon as
// the caller's credential is no longer valid. The wait ends at the latest resultMargin after the
// run's deadline. The wait is interrupted whenever the session must be checked.
func (h *Handler) awaitResult(c *gin.Context, sub *dispatch.Submitted) (*dispatch.Result, error) {
	permit, deadline := h.SessionCheck(c), time.Now().Add(h.RunDeadline+resultMargin)
	for {
		until := permit.Earlier(deadline)
		result, err := h.Dispatch.Await(c.Request.Context(), sub, time.Until(until))
		now := time.Now()
		switch {
		case err != nil:
			return nil, err
		case !permit.Holds(now):
			return nil, apierr.New(apierr.Unauthenticated, "the credential is no longer valid; the run %s continues", sub.Run.Run.ID)
		// An early return without a result means that the run waits for a person, or that the
		// service is stopping.
		case result.Ended || now.Before(until) || !now.Before(deadline):
			return result, nil
		}
	}
}

// waiting returns the argument run if the run waits for a person. Otherwise it returns the error
// unavailable: the run is still in progress, and the service stops waiting because it shuts down.
// The client can repeat the request with the same key, or read the run.
func waiting(run *domain.Run) (*domain.Run, error) {
	if run.Status == domain.RunRequiresAction {
		return run, nil
	}
	stopping := apierr.New(apierr.Unavailable,
		"the service is stopping; the run continues, and GET /api/runs?id=%s returns its answer", run.ID)
	stopping.RetryAfter = time.Second
	return nil, stopping
}

// OfV1 reports whether errors of a request have OpenAI's format. It also returns true for clients
// whose base URL lacks /v1 or has an additional prefix. These clients understand errors only in
// this format. OfV1 looks only at the path, so it can be called before the route is known.
func OfV1(c *gin.Context) bool {
	path := c.Request.URL.Path + "/"
	lacks := func(prefix string) bool { return strings.HasPrefix(path, prefix) }
	return strings.Contains(path, V1Prefix) || slices.ContainsFunc(withoutV1, lacks)
}

// withoutV1 lists the beginnings of paths that clients request if their base URL lacks /v1. Each
// has a slash at its end, like the path in OfV1.
var withoutV1 = []string{"/chat/completions/", "/responses/", "/models/", "/embeddings/"}

// NoSuchPath returns the error for a path that OpenAI's API does not have. The error lists the
// paths of the API. The list helps users whose base URL is wrong or whose client uses another API.
func NoSuchPath(routes []httpx.Route) *apierr.Error {
	var paths []string
	parameters := strings.NewReplacer(":id", "{id}", ":container", "{container_id}")
	for _, r := range routes {
		if strings.HasPrefix(r.Path, V1Prefix) {
			paths = append(paths, r.Method+" "+parameters.Replace(r.Path))
		}
	}
	return apierr.New(apierr.NotFound, "no such path; the base URL ends with /v1, and this API has %s", strings.Join(paths, ", "))
}

// FailV1 responds with an error in OpenAI's format. retryable is whether a repetition of the
// request may succeed. The id of the run, if there is one, is in a header.
func FailV1(c *gin.Context, status int, retryable bool, coded *apierr.Error) {
	// A client without an idempotency key must not retry after the run was created, because the
	// agent would run again.
	runID := httpx.StateFor(c).RunID
	retry := retryable && coded.Code != apierr.BudgetExceeded && (runID == "" || c.GetHeader("Idempotency-Key") != "")
	if runID != "" {
		c.Header(HeaderRunID, runID)
	}
	writeV1Error(c, status, retry, openaiapi.Refused(status, coded))
}

// failRun responds with the error for a run that has no answer. The status is 400, because clients
// automatically repeat requests after most other statuses, and the agent would run again. The body
// says why there is no answer.
func failRun(c *gin.Context, run *domain.Run) {
	writeV1Error(c, http.StatusBadRequest, false, openaiapi.Unanswered(run))
}

// writeV1Error responds with an error in OpenAI's format. If retry is true, OpenAI's clients repeat
// the request automatically. The headers must not have been sent.
func writeV1Error(c *gin.Context, status int, retry bool, e openaiapi.Error) {
	c.Header(headerShouldRetry, fmt.Sprint(retry))
	c.Data(status, httpx.ContentJSON, e.Body())
}
