package agent

import (
	"context"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/rs/zerolog"

	"parley/ingress/internal/auth"
	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/ratelimit"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/secrets"
	"parley/shared/store/accountdb"
	"parley/shared/store/agentdb"
)

// Deps contains the dependencies and settings of the Handler. They are set once and never change.
type Deps struct {
	*httpx.References
	// Agents and templates.
	AgentsDB *agentdb.Store
	// Encrypts secrets.
	Secrets *secrets.Box
	// Cancels the queued runs of a deleted agent.
	Runs      RunCanceller
	Auth      *auth.Resolver // caches widgets; notified when a widget changes
	Templates *Templates
	Workers   WorkerCaller // makes workers check the agents' connections
	// Budgets that apply to the calls of a check.
	Budgets Budgets
	// Signs the claims of calls to workers.
	Signer ClaimSigner
	Log    zerolog.Logger
	// Organizations provides organization names for previews of system prompts.
	Organizations     *accountdb.Organizations
	domain.ModelRules // rules for model settings, and the default model
	// ChecksPerMinute is the maximum number of checks that an organization may start per minute at
	// this ingress process; 0: no limit. A check connects to other servers.
	ChecksPerMinute int
}

// RunCanceller cancels an agent's queued runs. Runs that a worker has started are not cancelled.
// CancelQueued can be called again after an error.
type RunCanceller interface {
	CancelQueued(ctx context.Context, organizationID, agentID string) error
}

// Handler handles the requests to /api/agents that do not concern chats. There is one per process.
// It is safe for concurrent use.
type Handler struct {
	Deps

	checks      *ratelimit.Failures // counts checks by organization
	conversions *conversions        // of OpenAPI documents
}

// New returns a Handler.
func New(deps Deps) *Handler {
	return &Handler{deps, ratelimit.NewFailures(deps.ChecksPerMinute, time.Minute, time.Now), newConversions()}
}

// Routes returns the routes of the handler. Templates are public. Members may read agents and
// preview prompts; only admins change agents. The route for chats of an agent is in package run.
func (h *Handler) Routes() []httpx.Route {
	const admin, member = domain.RoleAdmin, domain.RoleMember
	agent := httpx.InOrganization(h.AgentsDB.Agent, id.Agent)
	return []httpx.Route{
		{
			Method: "GET", Path: "/api/agents/templates", Need: auth.NeedPublic,
			Find: httpx.ByID(httpx.OnlyError(h.readTemplate), id.Template), List: httpx.Paged, One: httpx.ReadOne(h.readTemplate, id.Template),
			Handle: httpx.Handle(h.listTemplates),
		},
		{Method: "GET", Path: "/api/agents/models", Need: auth.NeedUser, Role: admin, Handle: httpx.Handle(h.listModels)},
		{
			Method: "GET", Path: "/api/agents", Need: auth.NeedUser, Role: member,
			Find: agent, List: httpx.Params{"q", "limit", "cursor"},
			Handle: httpx.Handle(h.getAgents),
		},
		{Method: "POST", Path: "/api/agents", Need: auth.NeedUser, Role: admin, Handle: httpx.Handle(h.createAgent)},
		{
			Method: "POST", Path: "/api/agents", Action: "import-openapi", Need: auth.NeedUser, Role: admin,
			Find:   agent,
			Handle: httpx.Handle(h.importOpenAPI),
		},
		{
			Method: "POST", Path: "/api/agents", Action: "check", Need: auth.NeedUser, Role: admin, NoBody: true,
			Find:   agent,
			Handle: httpx.Handle(h.checkAgent),
		},
		{
			Method: "POST", Path: "/api/agents", Action: "preview", Need: auth.NeedUser, Role: member,
			Find:   agent,
			Handle: httpx.Handle(h.previewPrompt),
		},
		{Method: "PUT", Path: "/api/agents", Need: auth.NeedUser, Role: admin, Find: agent, Match: true, Handle: httpx.Handle(h.updateAgent)},
		{Method: "DELETE", Path: "/api/agents", Need: auth.NeedUser, Role: admin, Find: agent, Match: true, Handle: httpx.Handle(h.deleteAgent)},
	}
}

// readTemplate returns a template, or not_found. The template comes from the cache, so most
// requests cause no query.
func (h *Handler) readTemplate(c *gin.Context, templateID string) (domain.Template, error) {
	return h.Templates.ByID(c.Request.Context(), templateID)
}
