package account

import (
	"cmp"
	"errors"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/auth"
	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/httpapi/pages"
	"parley/ingress/web"
	"parley/shared/secrets"
	"parley/shared/store/accountdb"
)

// Pages handles the HTML pages of accounts: login, sign-up, invitations and password resets. The
// pages call the same methods as the requests of the API, so both follow the same rules.
type Pages struct{ *Handler }

// Routes returns the routes of the pages.
func (h *Pages) Routes() []httpx.Route {
	return []httpx.Route{
		{Method: "GET", Path: "/login", Handle: h.LoginPage},
		{Method: "POST", Path: "/login", Handle: h.LoginForm},
		{Method: "GET", Path: httpx.AcceptPath, Handle: pages.StrictQuery(h.AcceptPage, pages.Fail, "token")},
		{Method: "POST", Path: httpx.AcceptPath, Handle: h.AcceptForm},
		{Method: "GET", Path: httpx.ResetPath, Handle: pages.StrictQuery(h.ResetPage, pages.Fail, "token")},
		{Method: "POST", Path: httpx.ResetPath, Handle: h.ResetForm},
		{Method: "GET", Path: "/signup", Handle: h.SignupPage},
		{Method: "POST", Path: "/signup", Handle: h.SignupForm},
	}
}

// LoginPage handles GET /login. If the query has the token of a one-time link, it logs in the user
// of the link. Otherwise it shows the login page. The link is used up at once, so reloading the
// page does not log in the user again. Each outcome is a page or a redirect.
func (h *Pages) LoginPage(c *gin.Context) {
	tokens, present := c.Request.URL.Query()["token"]
	shown := web.Login{Next: pages.ReturnTo(c.Request.URL.Query()["next"])}
	if !present {
		if !h.redirectLoggedIn(c, shown.Next) {
			h.showLogin(c, http.StatusOK, shown)
		}
		return
	}

	// refuse shows the login page with a problem.
	refuse := func(status int, problem string) {
		shown.Problem = problem
		h.showLogin(c, status, shown)
	}

	if len(tokens) != 1 || !secrets.IsLinkToken(tokens[0]) {
		refuse(http.StatusBadRequest, "This login link is incomplete. Copy the whole link.")
		return
	}

	if c.Request.Method == http.MethodHead || strings.Contains(c.GetHeader("Sec-Purpose"), "prefetch") {
		c.Status(http.StatusNoContent) // link previews and the browser's prefetch must not use up the link
		return
	}

	token, login := h.newLogin(c)
	_, err := h.AccountsDB.UseLoginLink(c.Request.Context(), secrets.Hash(tokens[0]), login)
	switch {
	case errors.Is(err, accountdb.ErrLinkSpent):
		if h.redirectLoggedIn(c, shown.Next) { // the person is already logged in, perhaps by a first click on this link
			return
		}
		refuse(http.StatusGone, "This login link was already used or has expired. Sign in with a password, or get a new link as described below.")
	case errors.Is(err, accountdb.ErrLinkUnknown):
		refuse(http.StatusBadRequest, "This login link is not valid here. Get a new link.")
	case err != nil:
		httpx.Fail(c, err)
	default:
		h.setCookie(c, token, login)
		c.Redirect(http.StatusSeeOther, cmp.Or(shown.Next, pages.Dashboard))
	}
}

// showLogin shows the login page. It adds the settings of the service to shown.
func (h *Handler) showLogin(c *gin.Context, status int, shown web.Login) {
	shown.OpenID, shown.Reset, shown.Links = h.provider != nil, h.Reset, h.Owner != ""
	if h.OnThisMachine(c.Request) { // clients on other machines do not learn the address of the account
		shown.Owner = h.Owner
	}
	page, err := web.RenderLogin(shown)
	pages.ShowRendered(c, status, page, err)
}

// redirectLoggedIn redirects a person who is already logged in to next, or to the dashboard if next
// is empty. It returns false if the person is not logged in. Only the cookie counts, because a
// browser sends no other credential by itself.
func (h *Pages) redirectLoggedIn(c *gin.Context, next string) bool {
	ident, err := h.Auth.Person(c.Request)
	if err != nil || ident.Via != auth.ViaCookie {
		return false
	}
	httpx.StateFor(c).Ident = ident
	c.Redirect(http.StatusSeeOther, cmp.Or(next, pages.Dashboard))
	return true
}

// SignupPage handles GET /signup. It shows the page even if the limit on sign-ups is reached.
// SignupForm then reports the error.
func (h *Pages) SignupPage(c *gin.Context) {
	if next := pages.ReturnTo(c.Request.URL.Query()["next"]); !h.redirectLoggedIn(c, next) {
		showSignup(c, http.StatusOK, web.Signup{Next: next})
	}
}

// showSignup shows the sign-up page. The status is not 200 if shown has a problem.
func showSignup(c *gin.Context, status int, shown web.Signup) {
	page, err := web.RenderSignup(shown)
	pages.ShowRendered(c, status, page, err)
}
