package account

import (
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/auth"
	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/openid"
	"parley/ingress/internal/ratelimit"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/secrets"
	"parley/shared/store/accountdb"
)

// Deps contains the dependencies and settings of the Handler. They are set once and never change.
type Deps struct {
	// Accounts, login sessions and links.
	AccountsDB *accountdb.Store
	// Invitations and memberships.
	OrganizationsDB *accountdb.Organizations
	// Authenticates callers, and caches login sessions and keys.
	Auth *auth.Resolver
	// Encrypts the cookie of a login in progress.
	Secrets *secrets.Box
	// Hashes passwords.
	Passwords *auth.Passwords
	// Origins whose pages may send forms.
	Origins           *http.CrossOriginProtection
	OpenID            openid.Settings           // the OpenID provider, without a redirect URL; the zero value disables OpenID
	PublicURL         string                    // where browsers reach the service
	Owner             string                    // email address of the account that this process has created; empty: none
	Reset             string                    // command that prints a link to set a new password; the user must add the account to it
	Secure            func(c *gin.Context) bool // reports whether response cookies get the attribute Secure, which restricts them to HTTPS
	OnThisMachine     func(*http.Request) bool  // reports whether the client runs on this machine
	SignupsPerAddress int                       // maximum number of sign-ups per hour and client address at this ingress process; 0: no limit
}

// Handler handles requests for accounts: sign-up, logins, login sessions, links, and invitations to
// the caller. There is one per process. It is safe for concurrent use.
type Handler struct {
	Deps
	// Limits of wrong passwords.
	Logins   loginLimits
	signups  *ratelimit.Failures // counts sign-ups by client address; nil: no limit
	provider *openid.Provider    // nil if OpenID is disabled
}

// New returns a Handler.
func New(deps Deps) *Handler {
	h := &Handler{Deps: deps, Logins: newLoginLimits(time.Now), provider: newProvider(deps.OpenID, deps.PublicURL)}
	if deps.SignupsPerAddress > 0 {
		h.signups = ratelimit.NewFailures(deps.SignupsPerAddress, time.Hour, time.Now)
	}
	return h
}

// Routes returns the routes of the handler. Requests that create a session need no credential.
// Requests about login sessions and invitations must have a login session as credential.
func (h *Handler) Routes() []httpx.Route {
	const member = domain.RoleMember
	login := httpx.ByID(httpx.OnlyError(h.readLogin), id.Login)
	invitation := httpx.ByID(httpx.OnlyError(h.readInvitation), id.Invitation)
	return []httpx.Route{
		{Method: "POST", Path: "/api/auth/signup", Need: auth.NeedNobody, Handle: httpx.Handle(h.signup)},
		{Method: "POST", Path: "/api/auth/login", Need: auth.NeedNobody, Handle: httpx.Handle(h.login)},
		{
			Method: "POST", Path: "/api/auth/logout", Need: auth.NeedUser, Role: member, Login: true,
			List: httpx.Params{"everywhere"}, NoBody: true,
			Handle: httpx.Handle(h.logout),
		},
		{Method: "GET", Path: "/api/auth/session", Need: auth.NeedUser, Role: member, Handle: httpx.Handle(h.session)},
		{
			Method: "GET", Path: "/api/auth/sessions", Need: auth.NeedUser, Role: member, Login: true,
			Find: login, List: httpx.Paged, One: httpx.ReadOne(h.readLogin, id.Login),
			Handle: httpx.Handle(h.listLogins),
		},
		{
			Method: "DELETE", Path: "/api/auth/sessions", Need: auth.NeedUser, Role: member, Login: true,
			Find:   login,
			Handle: httpx.Handle(h.endLogin),
		},
		{Method: "POST", Path: "/api/auth/accept", Need: auth.NeedNobody, Handle: httpx.Handle(h.accept)},
		{
			Method: "GET", Path: "/api/auth/invitations", Need: auth.NeedUser, Role: member, Login: true,
			Find: invitation, List: httpx.Paged, One: httpx.ReadOne(h.readInvitation, id.Invitation),
			Handle: httpx.Handle(h.listInvitations),
		},
		{
			Method: "POST", Path: "/api/auth/invitations", Action: "*", Need: auth.NeedUser, Role: member, Login: true,
			Find: invitation, NoBody: true,
			Handle: httpx.Handle(h.answerInvitation),
		},
		{Method: "POST", Path: "/api/auth/reset", Need: auth.NeedNobody, Handle: httpx.Handle(h.reset)},
		{Method: "GET", Path: "/api/auth/oidc", Need: auth.NeedNobody, List: httpx.Params{"next", "takeover"}, Handle: h.beginOIDC},
		{Method: "GET", Path: "/api/auth/oidc/callback", Need: auth.NeedNobody, Open: true, Handle: h.finishOIDC},
	}
}

// readLogin reads one of the caller's login sessions. The error is not_found for a session of
// another user.
func (h *Handler) readLogin(c *gin.Context, loginID string) (domain.LoginSession, error) {
	ident := httpx.Identity(c)
	return h.AccountsDB.Login(c.Request.Context(), ident.Caller.UserID, secrets.Hash(ident.Token), loginID)
}
