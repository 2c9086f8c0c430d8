package account

import (
	"net/http"
	"slices"
	"time"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/auth"
	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/openid"
	"parley/ingress/internal/ratelimit"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/secrets"
	"parley/shared/store"
)

// Deps is what the handler of accounts needs.
type Deps struct {
	Store             *store.Store
	Auth              *auth.Resolver
	Secrets           *secrets.Box
	Passwords         *auth.Passwords
	Origins           *http.CrossOriginProtection
	OpenID            openid.Settings           // without a redirect address; the zero value is none
	PublicURL         string                    // where browsers reach the service
	Secure            func(c *gin.Context) bool // whether cookies of a request's browser may be sent over TLS only
	SignupsPerAddress int                       // an hour at this ingress; 0: no limit
}

// Handler answers what people and their organizations are: logins, invitations, members and keys.
type Handler struct {
	Deps
	Logins   loginLimits
	signups  *ratelimit.Failures // accounts that were made, by client address; nil: no limit
	provider *openid.Provider    // nil when none is set
}

// New makes the handler of accounts.
func New(deps Deps) *Handler {
	h := &Handler{Deps: deps, Logins: newLoginLimits(time.Now), provider: newProvider(deps.OpenID, deps.PublicURL)}
	if deps.SignupsPerAddress > 0 {
		h.signups = ratelimit.NewFailures(deps.SignupsPerAddress, time.Hour, time.Now)
	}
	return h
}

// Routes are logins, organizations, members and keys.
func (h *Handler) Routes() []httpx.Route {
	return slices.Concat(h.loginRoutes(), h.organizationRoutes(), h.keyRoutes())
}

// loginRoutes are what people have before they have an organization.
func (h *Handler) loginRoutes() []httpx.Route {
	const member = domain.RoleMember
	login := httpx.ByID(httpx.OnlyError(h.readLogin), id.Login)
	invitation := httpx.ByID(httpx.OnlyError(h.readInvitation), id.Invitation)
	return []httpx.Route{
		{Method: "POST", Path: "/api/auth/signup", Need: auth.NeedNobody, Handle: h.signup},
		{Method: "POST", Path: "/api/auth/login", Need: auth.NeedNobody, Handle: h.login},
		{
			Method: "POST", Path: "/api/auth/logout", Need: auth.NeedUser, Role: member, Login: true,
			List: httpx.Params{"everywhere"}, NoBody: true,
			Handle: h.logout,
		},
		{Method: "GET", Path: "/api/auth/session", Need: auth.NeedUser, Role: member, Handle: h.session},
		{
			Method: "GET", Path: "/api/auth/sessions", Need: auth.NeedUser, Role: member, Login: true,
			Find: login, List: httpx.Paged, One: httpx.ReadOne(h.readLogin, id.Login),
			Handle: h.listLogins,
		},
		{
			Method: "DELETE", Path: "/api/auth/sessions", Need: auth.NeedUser, Role: member, Login: true,
			Find:   login,
			Handle: h.endLogin,
		},
		{Method: "POST", Path: "/api/auth/accept", Need: auth.NeedNobody, Handle: h.accept},
		{
			Method: "GET", Path: "/api/auth/invitations", Need: auth.NeedUser, Role: member, Login: true,
			Find: invitation, List: httpx.Paged, One: httpx.ReadOne(h.readInvitation, id.Invitation),
			Handle: h.listInvitations,
		},
		{
			Method: "POST", Path: "/api/auth/invitations", Action: "*", Need: auth.NeedUser, Role: member, Login: true,
			Find: invitation, NoBody: true,
			Handle: h.answerInvitation,
		},
		{Method: "POST", Path: "/api/auth/reset", Need: auth.NeedNobody, Handle: h.reset},
		{Method: "GET", Path: "/api/auth/oidc", Need: auth.NeedNobody, List: httpx.Params{"next", "takeover"}, Handle: h.beginOIDC},
		{Method: "GET", Path: "/api/auth/oidc/callback", Need: auth.NeedNobody, Open: true, Handle: h.finishOIDC},
	}
}

// organizationRoutes are organizations and their members.
func (h *Handler) organizationRoutes() []httpx.Route {
	const member, admin, owner = domain.RoleMember, domain.RoleAdmin, domain.RoleOwner
	anyMember := httpx.ByID(httpx.OnlyError(h.readMember), id.User, id.Invitation)
	return []httpx.Route{
		{
			Method: "GET", Path: "/api/organizations", Need: auth.NeedUser, Role: member,
			Find: httpx.ByID(h.findOrganization, id.Organization), List: httpx.Paged,
			Handle: h.getOrganizations,
		},
		{Method: "POST", Path: "/api/organizations", Need: auth.NeedUser, Role: member, Person: true, Handle: h.createOrganization},
		{
			Method: "PUT", Path: "/api/organizations", Need: auth.NeedUser, Role: member,
			Find:   httpx.ByID(h.mayRename, id.Organization),
			Handle: h.renameOrganization,
		},
		{
			Method: "GET", Path: "/api/organizations/members", Need: auth.NeedUser, Role: member,
			Find: anyMember, List: httpx.Paged, One: httpx.ReadOne(h.readMember, id.User, id.Invitation),
			Handle: h.listMembers,
		},
		{Method: "POST", Path: "/api/organizations/members", Need: auth.NeedUser, Role: owner, Handle: h.addMember},
		{
			Method: "POST", Path: "/api/organizations/members", Action: "reset", Need: auth.NeedUser, Role: admin,
			Find: httpx.ByID(h.mayReset, id.User), NoBody: true,
			Handle: h.resetMember,
		},
		{
			Method: "DELETE", Path: "/api/organizations/members", Need: auth.NeedUser, Role: member,
			Find:   httpx.ByID(h.mayRemove, id.User, id.Invitation),
			Handle: h.removeMember,
		},
	}
}

// keyRoutes are API keys.
func (h *Handler) keyRoutes() []httpx.Route {
	const member = domain.RoleMember
	key := httpx.ByID(httpx.OnlyError(h.readKey), id.Key)
	changed := httpx.ByID(h.mayChangeKey, id.Key)
	return []httpx.Route{
		{
			Method: "GET", Path: "/api/keys", Need: auth.NeedUser, Role: member,
			Find: key, List: httpx.Paged, One: httpx.ReadOne(h.readKey, id.Key),
			Handle: h.listKeys,
		},
		{Method: "POST", Path: "/api/keys", Need: auth.NeedUser, Role: member, Handle: h.createKey},
		{Method: "POST", Path: "/api/keys", Action: "rotate", Need: auth.NeedUser, Role: member, Find: changed, Handle: h.rotateKey},
		{Method: "DELETE", Path: "/api/keys", Need: auth.NeedUser, Role: member, Find: changed, Handle: h.revokeKey},
	}
}
