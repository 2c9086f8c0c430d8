package usage

import (
	"time"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/auth"
	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/ratelimit"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/store/budgetdb"
	"parley/shared/store/knowledgedb"
	"parley/shared/store/overviewdb"
	"parley/shared/store/rundb"
	"parley/shared/store/usagedb"
)

// Deps contains the dependencies and settings of the Handler. The limits are those that other parts
// of the ingress enforce; this package only shows them.
type Deps struct {
	*httpx.References
	BudgetsDB   *budgetdb.Store
	KnowledgeDB *knowledgedb.Store
	OverviewsDB *overviewdb.Store
	RunsDB      *rundb.Store
	UsageDB     *usagedb.Store
	// Request limits, as enforced by the admission of requests.
	Rates   *ratelimit.Limits
	Streams *httpx.StreamLimits
	// Maximum number of simultaneous voice sessions.
	VoicePerOrganization int
	// Quotas for documents; 0 means unlimited.
	Documents knowledgedb.DocumentLimits
	// Maximum time from the start of a run to its end.
	RunDeadline time.Duration
	Currency    string // of costs
}

// Handler handles the requests for usage, budgets, automations, limits and the overview. There is
// one per process. It is safe for concurrent use.
type Handler struct {
	Deps
	counts usageCache
}

// New returns a Handler.
func New(deps Deps) *Handler { return &Handler{Deps: deps} }

// Routes returns the routes of the handler. Members may read the limits and the overview; only
// admins may read and change the rest.
func (h *Handler) Routes() []httpx.Route {
	const member, admin = domain.RoleMember, domain.RoleAdmin
	budget := httpx.InOrganization(h.BudgetsDB.Budget, id.Budget)
	return []httpx.Route{
		{Method: "GET", Path: "/api/organizations/limits", Need: auth.NeedUser, Role: member, Handle: httpx.Handle(h.getLimits)},
		{Method: "GET", Path: "/api/home", Need: auth.NeedUser, Role: member, Handle: h.getHome},
		{
			Method: "GET", Path: "/api/automations", Need: auth.NeedUser, Role: admin,
			Find: httpx.ByID(httpx.OnlyError(h.readAutomation)), List: httpx.Paged, One: httpx.ReadOne(h.readAutomation),
			Handle: httpx.Handle(h.getAutomations),
		},
		{
			Method: "GET", Path: "/api/usage", Need: auth.NeedUser, Role: admin,
			List:   httpx.Params{"days", "agentId", "keyId", "automationId", "by"},
			Handle: httpx.Handle(h.getUsage),
		},
		{
			Method: "GET", Path: "/api/budgets", Need: auth.NeedUser, Role: admin, Find: budget, List: httpx.Paged,
			Handle: httpx.Handle(h.getBudgets),
		},
		{Method: "POST", Path: "/api/budgets", Need: auth.NeedUser, Role: admin, Handle: httpx.Handle(h.createBudget)},
		{Method: "PUT", Path: "/api/budgets", Need: auth.NeedUser, Role: admin, Find: budget, Handle: httpx.Handle(h.updateBudget)},
		{Method: "DELETE", Path: "/api/budgets", Need: auth.NeedUser, Role: admin, Find: budget, Handle: httpx.Handle(h.deleteBudget)},
	}
}

// readAutomation returns an automation of the caller's organization, or not_found. It is the
// route's Finder, which runs before the parameters are checked. It is also the route's handler for
// a single automation.
func (h *Handler) readAutomation(c *gin.Context, name string) (domain.Automation, error) {
	return h.RunsDB.Automation(c.Request.Context(), httpx.Caller(c).OrganizationID, name)
}
