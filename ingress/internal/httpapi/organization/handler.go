// Package organization handles the requests for organizations: their names, members, invitations
// and API keys.
package organization

import (
	"slices"

	"parley/ingress/internal/auth"
	"parley/ingress/internal/httpapi/httpx"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/store/accountdb"
)

// Deps contains the dependencies and settings of the Handler.
type Deps struct {
	Organizations *accountdb.Organizations
	Auth          *auth.Resolver // caches keys and memberships, and must forget them when they change
	PublicURL     string         // URL at which browsers reach the service; invitation and reset links begin with it
}

// Handler handles the requests for organizations.
type Handler struct{ Deps }

// New returns a Handler.
func New(deps Deps) *Handler { return &Handler{Deps: deps} }

// Routes returns the routes of the handler.
func (h *Handler) Routes() []httpx.Route {
	return slices.Concat(h.organizationRoutes(), h.keyRoutes())
}

// organizationRoutes returns the routes of organizations and their members.
func (h *Handler) organizationRoutes() []httpx.Route {
	const member, admin, owner = domain.RoleMember, domain.RoleAdmin, domain.RoleOwner
	anyMember := httpx.ByID(httpx.OnlyError(h.readMember), id.User, id.Invitation)
	return []httpx.Route{
		{
			Method: "GET", Path: "/api/organizations", Need: auth.NeedUser, Role: member,
			Find: httpx.ByID(h.findOrganization, id.Organization), List: httpx.Paged,
			Handle: httpx.Handle(h.getOrganizations),
		},
		{Method: "POST", Path: "/api/organizations", Need: auth.NeedUser, Role: member, Person: true, Handle: httpx.Handle(h.createOrganization)},
		{
			Method: "PUT", Path: "/api/organizations", Need: auth.NeedUser, Role: member,
			Find:   httpx.ByID(h.mayRename, id.Organization),
			Handle: httpx.Handle(h.renameOrganization),
		},
		{
			Method: "GET", Path: "/api/organizations/members", Need: auth.NeedUser, Role: member,
			Find: anyMember, List: httpx.Paged, One: httpx.ReadOne(h.readMember, id.User, id.Invitation),
			Handle: httpx.Handle(h.listMembers),
		},
		{Method: "POST", Path: "/api/organizations/members", Need: auth.NeedUser, Role: owner, Handle: httpx.Handle(h.addMember)},
		{
			Method: "POST", Path: "/api/organizations/members", Action: "reset", Need: auth.NeedUser, Role: admin,
			Find: httpx.ByID(h.mayReset, id.User), NoBody: true,
			Handle: httpx.Handle(h.resetMember),
		},
		{
			Method: "DELETE", Path: "/api/organizations/members", Need: auth.NeedUser, Role: member,
			Find:   httpx.ByID(h.mayRemove, id.User, id.Invitation),
			Handle: httpx.Handle(h.removeMember),
		},
	}
}

// keyRoutes returns the routes of API keys.
func (h *Handler) keyRoutes() []httpx.Route {
	const member = domain.RoleMember
	key := httpx.ByID(httpx.OnlyError(h.readKey), id.Key)
	changed := httpx.ByID(h.mayChangeKey, id.Key)
	return []httpx.Route{
		{
			Method: "GET", Path: "/api/keys", Need: auth.NeedUser, Role: member,
			Find: key, List: httpx.Paged, One: httpx.ReadOne(h.readKey, id.Key),
			Handle: httpx.Handle(h.listKeys),
		},
		{Method: "POST", Path: "/api/keys", Need: auth.NeedUser, Role: member, Handle: httpx.Handle(h.createKey)},
		{
			Method: "POST", Path: "/api/keys", Action: "rotate", Need: auth.NeedUser, Role: member, Find: changed,
			Handle: httpx.Handle(h.rotateKey),
		},
		{Method: "DELETE", Path: "/api/keys", Need: auth.NeedUser, Role: member, Find: changed, Handle: httpx.Handle(h.revokeKey)},
	}
}
