// Package organization handles the requests for organizations: their names, members, invitations
// and API keys. The data is in the tables of accountdb.
//
// An organization is the tenant to which agents, runs and documents belong. A user can be a member
// of several organizations, with a role in each. A request acts in one of them, but the requests to
// /api/organizations may name any organization of the caller.
//
// In some requests, the permission depends on the resource. The Finder of the route checks it to
// return the right error, and the store checks it again in the transaction of the change.
//
// Secrets, such as keys and the tokens of links, are stored as hashes. Only the response that
// creates a secret contains it. After a change, the caches of package auth are emptied for the user
// or key, so that this process applies the change immediately.
package organization

import (
	"slices"

	"parley/ingress/internal/auth"
	"parley/ingress/internal/httpapi/httpx"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/store/accountdb"
)

// Deps contains the dependencies and settings of the Handler. They are set once and never change.
type Deps struct {
	// Store of organizations, members, invitations and keys.
	Organizations *accountdb.Organizations
	Auth          *auth.Resolver // caches keys and memberships, and must forget them when they change
	PublicURL     string         // URL at which browsers reach the service; invitation and reset links begin with it
}

// Handler handles the requests for organizations. There is one per process. It is safe for
// concurrent use.
type Handler struct{ Deps }

// New returns a Handler.
func New(deps Deps) *Handler { return &Handler{Deps: deps} }

// Routes returns the routes of the handler. All routes require a user or a key.
func (h *Handler) Routes() []httpx.Route {
	return slices.Concat(h.organizationRoutes(), h.keyRoutes())
}

// organizationRoutes returns the routes of organizations and their members. A key of an
// organization cannot create another organization, because the new organization needs a user as its
// owner.
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

// keyRoutes returns the routes of API keys. Members may create and change their own keys. The store
// requires an admin for keys of the organization.
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
