package notification

import (
	"parley/ingress/internal/auth"
	"parley/ingress/internal/httpapi/httpx"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/secrets"
	"parley/shared/store/notificationdb"
)

// ChangeNotifier notifies clients that watch an organization of a change. Changed does not block,
// and a lost notice does no harm, because clients read all data again after a reconnect.
type ChangeNotifier interface {
	Changed(kind domain.ChangeKind, organizationID string)
}

// Deps contains the dependencies and settings of the Handler. They are set once and never change.
type Deps struct {
	*httpx.References
	// Endpoints and notifications.
	NotificationsDB *notificationdb.Store
	// Encrypts the signing secrets.
	Secrets *secrets.Box
	// Informs clients of the dashboard about changes.
	Changes      ChangeNotifier
	Outbound     AddressChecker // checks the addresses of endpoints
	MaxEndpoints int            // maximum per organization
}

// Handler handles the requests to /api/notifications. There is one per process. It is safe for
// concurrent use.
type Handler struct{ Deps }

// New returns a Handler.
func New(deps Deps) *Handler { return &Handler{deps} }

// Routes returns the routes of the handler. All routes require an admin of the organization,
// because notifications contain data of its runs.
func (h *Handler) Routes() []httpx.Route {
	const admin = domain.RoleAdmin
	endpoint := httpx.InOrganization(h.NotificationsDB.Endpoint, id.Endpoint)
	message := httpx.InOrganization(h.NotificationsDB.Notification, id.Notification)
	return []httpx.Route{
		{
			Method: "GET", Path: "/api/notifications", Need: auth.NeedUser, Role: admin,
			Find: endpoint, List: httpx.Paged,
			Handle: httpx.Handle(h.getNotifications),
		},
		{Method: "POST", Path: "/api/notifications", Need: auth.NeedUser, Role: admin, Handle: httpx.Handle(h.createEndpoint)},
		{
			Method: "POST", Path: "/api/notifications", Action: "rotate", Need: auth.NeedUser, Role: admin,
			Find: endpoint, NoBody: true,
			Handle: httpx.Handle(h.rotateEndpoint),
		},
		{
			Method: "POST", Path: "/api/notifications", Action: "test", Need: auth.NeedUser, Role: admin,
			Find: endpoint, NoBody: true,
			Handle: httpx.Handle(h.testEndpoint),
		},
		{Method: "PUT", Path: "/api/notifications", Need: auth.NeedUser, Role: admin, Find: endpoint, Handle: httpx.Handle(h.updateEndpoint)},
		{Method: "DELETE", Path: "/api/notifications", Need: auth.NeedUser, Role: admin, Find: endpoint, Handle: httpx.Handle(h.deleteEndpoint)},
		{
			Method: "GET", Path: "/api/notifications/messages", Need: auth.NeedUser, Role: admin,
			Find: message, List: httpx.Params{"endpointId", "status", "limit", "cursor"},
			Handle: httpx.Handle(h.getMessages),
		},
		{
			Method: "POST", Path: "/api/notifications/messages", Action: "*", Need: auth.NeedUser, Role: admin,
			Find: message, NoBody: true,
			Handle: httpx.Handle(h.postMessages),
		},
	}
}
