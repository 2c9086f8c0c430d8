package run

import (
	"context"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/rs/zerolog"

	"parley/ingress/internal/attach"
	"parley/ingress/internal/auth"
	"parley/ingress/internal/changes"
	"parley/ingress/internal/dispatch"
	"parley/ingress/internal/filelink"
	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/httpapi/transfer"
	"parley/ingress/internal/readers"
	"parley/ingress/internal/stream"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/secrets"
	"parley/shared/store/agentdb"
	"parley/shared/store/blobdb"
	"parley/shared/store/rundb"
	"parley/shared/store/sessiondb"
)

// TemplateFinder finds templates. It returns not_found for an unknown id. It may use a cache.
type TemplateFinder interface {
	ByID(ctx context.Context, templateID string) (domain.Template, error)
}

// Deps contains the dependencies and settings of the Handler. They are set once and never change.
// Other handlers share some of the limiters.
type Deps struct {
	*httpx.Limiter
	*httpx.References
	*dispatch.Submitter
	httpx.SessionChecks
	// Agents that are called.
	AgentsDB *agentdb.Store
	// Files and sources.
	BlobsDB *blobdb.Store
	// Runs and their timelines.
	RunsDB *rundb.Store
	// Sessions and their messages.
	SessionsDB *sessiondb.Store
	// Cancels runs and takes decisions.
	Dispatch *dispatch.Dispatcher
	// Events of runs.
	Streams *stream.Hub
	// Watches the clients that read an answer.
	Readers *readers.Watch
	// Changes of an organization.
	Changes *changes.Hub
	// Encrypts the cursors of lists of sessions.
	Secrets   *secrets.Box
	Templates TemplateFinder
	// Limits downloads, exports and links together.
	Downloads *transfer.Limiter
	// Limits uploads of members.
	Uploads        *transfer.Limiter
	VisitorUploads *transfer.Limiter // separate from Uploads, so that visitors of widgets take no slots from members
	// Stores uploads and attachments.
	Files *attach.Files
	// Reads links to files.
	Links            *filelink.Links
	Auth             *auth.Resolver // determines the addresses of clients without a credential
	Log              zerolog.Logger
	WaitDefault      time.Duration // default and maximum time that a request waits for its run
	RetentionDefault time.Duration // default time for which an automation's result is kept
	Currency         string        // of costs
}

// Handler handles requests for chats, automations, runs and sessions. Through Files, it also
// handles requests for sources and files. There is one per process. It is safe for concurrent use.
type Handler struct{ Deps }

// New returns a Handler.
func New(deps Deps) *Handler { return &Handler{deps} }

// Routes returns the routes of the handler. Chats are open to demo visitors and visitors of
// widgets; automations require an API key. If the field Late of a route is true, the handler counts
// the request after the look-up of a replay.
func (h *Handler) Routes() []httpx.Route {
	const member = domain.RoleMember
	run := httpx.ByID(httpx.OnlyError(h.findRun), id.Run)
	source := httpx.InOrganization(h.BlobsDB.SourceByID)
	sessions, files := sessionHandler{h.Deps}, h.Files()
	return []httpx.Route{
		{
			Method: "POST", Path: "/api/agents", Action: "chat", Need: auth.NeedDemo, Role: member, Late: true, Waits: true,
			Find: h.findTarget, List: httpx.Params{"template", "format"}, Beside: httpx.Params{"template", "format"},
			Handle: h.chat,
		},
		{
			Method: "GET", Path: "/api/sessions", Need: auth.NeedUser, Role: member,
			Find: sessions.find, List: httpx.Params{"principal", "limit", "cursor"},
			Beside: httpx.Params{"agentId", "templateId", "principal", "limit", "cursor"},
			Handle: sessions.get,
		},
		{
			Method: "DELETE", Path: "/api/sessions", Need: auth.NeedUser, Role: member,
			Find: sessions.find, Beside: httpx.Params{"agentId", "templateId", "principal"},
			Handle: sessions.erase,
		},
		{
			Method: "POST", Path: "/api/internal/run-automation", Need: auth.NeedKey, Role: member, Late: true, Waits: true,
			Handle: h.runAutomation,
		},
		{
			Method: "GET", Path: "/api/runs", Need: auth.NeedUser, Role: member, Waits: true,
			Find: run,
			List: httpx.Params{
				"agentId", "sessionId", "automationId", "triggerType", "status", "waitsFor", "from", "to", "q", "export", "limit", "cursor",
			},
			Beside: httpx.Params{"wait", "stream", "format", "timeline"},
			Handle: h.getRuns,
		},
		{
			Method: "POST", Path: "/api/runs", Action: "*", Need: auth.NeedUser, Role: member,
			Find: run, Beside: httpx.Params{"toolCallId"}, NoBody: true,
			Handle: h.postRuns,
		},
		{
			Method: "POST", Path: "/api/runs", Action: actionCancel, Need: auth.NeedVisitor, Role: member,
			Find: run, Beside: httpx.Params{"toolCallId"}, NoBody: true,
			Handle: h.postRuns,
		},
		{
			Method: "POST", Path: "/api/runs", Action: "tool-results", Need: auth.NeedUser, Role: member,
			Find: run, Handle: h.takeResults,
		},
		{Method: "GET", Path: "/api/events", Need: auth.NeedUser, Role: member, Stream: true, Waits: true, Handle: h.streamChanges},

		{Method: "GET", Path: "/api/sources", Need: auth.NeedUser, Role: member, Find: source, Handle: files.getSource},
		{Method: "GET", Path: "/api/files", Need: auth.NeedUser, Role: member, Find: httpx.ByID(files.find, id.File), Handle: files.get},
		{
			Method: "POST", Path: "/api/files", Need: auth.NeedUpload, Role: member, Forms: true, Raw: true,
			List: httpx.Params{"name", "sessionId"}, Handle: files.upload,
		},
	}
}

// findTarget looks up the agent or template that the query of a chat request names. It is the
// Finder of chats. If the query does not name exactly one of them, it returns nil, and chatTarget
// reports the problem.
func (h *Handler) findTarget(c *gin.Context) error {
	agents, templates := httpx.Query(c)["id"], httpx.Query(c)["template"]

	switch {
	case len(agents) == 1 && len(templates) == 0 && agents[0] != "":
		if !id.Valid(id.Agent, agents[0]) {
			return httpx.NotFound()
		}
		_, err := h.AgentsDB.Agent(c.Request.Context(), httpx.Caller(c).OrganizationID, agents[0])
		return err
	case len(templates) == 1 && len(agents) == 0 && templates[0] != "":
		_, err := h.Templates.ByID(c.Request.Context(), templates[0])
		return err
	}

	return nil
}
