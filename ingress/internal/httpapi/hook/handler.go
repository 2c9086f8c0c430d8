package hook

import (
	"context"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/rs/zerolog"

	"parley/ingress/internal/auth"
	"parley/ingress/internal/dispatch"
	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/httpapi/transfer"
	"parley/ingress/internal/ratelimit"
	"parley/ingress/internal/webhookin/intake"
	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/secrets"
	"parley/shared/store/agentdb"
	"parley/shared/store/hookdb"
)

// Deps contains the dependencies and settings of the Handler. They are set once and never change.
type Deps struct {
	*httpx.References
	*dispatch.Submitter
	// Agents that hooks start.
	AgentsDB *agentdb.Store
	// Hooks and the log of deliveries.
	HooksDB *hookdb.Store
	// Client addresses and API keys.
	Auth *auth.Resolver
	// Rate limits of deliveries.
	Limits *ratelimit.Limits
	// Starts the runs.
	Dispatch *dispatch.Dispatcher
	// Encrypts secrets of hooks.
	Secrets *secrets.Box
	Opener  auth.Opener // opens stored secrets
	// Informs clients of the dashboard about new log entries.
	Changes ChangeNotifier
	// URL at which sources reach the service; URLs of hooks begin with it.
	PublicURL string
	// Maximum duration of a run.
	RunDeadline time.Duration
	// Time for which runs of hooks are kept.
	RetentionDefault time.Duration
	MaxHooks         int // maximum per organization
	Log              zerolog.Logger
}

// ChangeNotifier notifies clients that watch an organization's data. Changed does not block.
type ChangeNotifier interface {
	Changed(kind domain.ChangeKind, org string)
}

// Handler handles requests to /api/hooks, including deliveries. There is one per process. It is
// safe for concurrent use. The fields of type Limiter and Failures bound the resources that senders
// without a valid signature can occupy.
type Handler struct {
	Deps
	// Cache of the hooks that accept deliveries.
	Hooks *intake.Hooks
	// Decides what becomes of a verified delivery.
	intake               intake.Intake
	Small, Medium, Large transfer.Limiter    // limiters of incoming deliveries by size
	Unsigned             *ratelimit.Failures // counts the deliveries without a valid signature, by hook and client address
	Rejections           *rejections         // limits the log entries of unsigned deliveries
	senders              verifiedSenders     // client addresses that have sent a signed delivery
}

// New returns a Handler. The policies of the limiters are those of this package.
func New(deps Deps) *Handler {
	h := &Handler{
		Deps: deps, Small: transfer.Limiter{Policy: SmallDeliveries}, Medium: transfer.Limiter{Policy: MediumDeliveries},
		Large:    transfer.Limiter{Policy: LargeDeliveries},
		Unsigned: ratelimit.NewFailures(maxUnsigned, unsignedWindow, time.Now), Rejections: newRejections(time.Now),
		intake: intake.Intake{
			Agents: deps.AgentsDB, Log: deps.HooksDB, Limits: deps.Limits, Budgets: deps.Submitter, Dispatch: deps.Dispatch,
			RunDeadline: deps.RunDeadline, Retention: deps.RetentionDefault,
		},
	}
	h.Hooks = intake.NewHooks(func(ctx context.Context, id string) (hookdb.ReceivingHook, error) {
		return h.HooksDB.ReceivingHook(ctx, id)
	}, deps.Opener)
	return h
}

// Routes returns the routes for hooks and for the log of their deliveries. All of them require an
// admin. ReceiveDelivery is not among them, because it needs no credential; the router adds its
// route.
func (h *Handler) Routes() []httpx.Route {
	const admin = domain.RoleAdmin
	hook := httpx.InOrganization(h.HooksDB.Hook, id.Hook)
	return []httpx.Route{
		{Method: "GET", Path: "/api/hooks", Need: auth.NeedUser, Role: admin, Find: hook, List: httpx.Paged, Handle: httpx.Handle(h.getHooks)},
		{Method: "POST", Path: "/api/hooks", Need: auth.NeedUser, Role: admin, Handle: httpx.Handle(h.createHook)},
		{Method: "POST", Path: "/api/hooks", Action: "rotate", Need: auth.NeedUser, Role: admin, Find: hook, Handle: httpx.Handle(h.rotateHook)},
		{Method: "POST", Path: "/api/hooks", Action: "test", Need: auth.NeedUser, Role: admin, Find: hook, Handle: httpx.Handle(h.testHook)},
		{Method: "PUT", Path: "/api/hooks", Need: auth.NeedUser, Role: admin, Find: hook, Handle: httpx.Handle(h.updateHook)},
		{Method: "DELETE", Path: "/api/hooks", Need: auth.NeedUser, Role: admin, Find: hook, Handle: httpx.Handle(h.deleteHook)},
		{
			Method: "GET", Path: "/api/hooks/deliveries", Need: auth.NeedUser, Role: admin,
			Find: h.findDelivery, List: httpx.Params{"hookId", "runId", "status", "limit", "cursor"}, Beside: httpx.Params{"hookId"},
			Handle: httpx.Handle(h.getDeliveries),
		},
		{
			Method: "POST", Path: "/api/hooks/deliveries", Action: "*", Need: auth.NeedUser, Role: admin,
			Find: h.findDelivery, Beside: httpx.Params{"hookId"}, NoBody: true,
			Handle: httpx.Handle(h.postDeliveries),
		},
	}
}

// findDelivery is the Finder for deliveries. It returns nil if the query does not identify a
// delivery: without an id, or without a hook if several hooks have deliveries with the id. The
// handler reports the missing parameter. For a delivery that does not exist in the organization, it
// returns not_found.
func (h *Handler) findDelivery(c *gin.Context) error {
	found := &httpx.Problems{}
	hookID, _ := httpx.QueryValue(c, "hookId", found)
	deliveryID, present := httpx.QueryValue(c, "id", found)
	if !present || found.Err() != nil {
		return nil //nolint:nilerr // the query names no delivery
	}

	hookID, err := h.hookFor(c, hookID, deliveryID)
	switch {
	case apierr.CodeFor(err) == apierr.InvalidRequest: // several hooks have a delivery with this id, so the query must name the hook
		return nil
	case err == nil && !httpx.IsText(deliveryID):
		return httpx.NotFound()
	case err == nil:
		_, err = h.HooksDB.Delivery(c.Request.Context(), httpx.Caller(c).OrganizationID, hookID, deliveryID)
	}

	return err
}
