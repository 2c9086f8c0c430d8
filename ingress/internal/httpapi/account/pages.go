package account

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/auth"
	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/web"
	"parley/shared/secrets"
	"parley/shared/store/accountdb"
)

const (
	// DashboardPath is the path of the dashboard.
	DashboardPath = "/dashboard"
	// MaxNextPage is the maximum length in bytes of the dashboard URL to which a person returns
	// after the login.
	MaxNextPage = 1024

	// NoMicrophone is the Permissions-Policy of all pages except the dashboard, where people talk
	// with agents.
	NoMicrophone = "camera=(), geolocation=(), microphone=()"
	// OwnMicrophone is the Permissions-Policy of the dashboard.
	OwnMicrophone = "camera=(), geolocation=(), microphone=(self)"
)

// Pages handles the HTML pages of accounts: login, sign-up, invitations and password resets. The
// pages call the same methods as the requests of the API, so both follow the same rules.
type Pages struct{ *Handler }

// LoginPage handles GET /login. If the query has the token of a one-time link, it logs in the user
// of the link. Otherwise it shows the login page. The link is used up at once, so reloading the
// page does not log in the user again. Each outcome is a page or a redirect.
func (h *Pages) LoginPage(c *gin.Context) {
	tokens, present := c.Request.URL.Query()["token"]
	shown := web.Login{Next: ReturnTo(c.Request.URL.Query()["next"])}
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
		c.Redirect(http.StatusSeeOther, cmp.Or(shown.Next, DashboardPath))
	}
}

// showLogin shows the login page. It adds the settings of the service to shown.
func (h *Handler) showLogin(c *gin.Context, status int, shown web.Login) {
	shown.OpenID, shown.Reset, shown.Links = h.provider != nil, h.Reset, h.Owner != ""
	if h.OnThisMachine(c.Request) { // clients on other machines do not learn the address of the account
		shown.Owner = h.Owner
	}
	page, err := web.RenderLogin(shown)
	showRendered(c, status, page, err)
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
	c.Redirect(http.StatusSeeOther, cmp.Or(next, DashboardPath))
	return true
}

// SignupPage handles GET /signup. It shows the page even if the limit on sign-ups is reached.
// SignupForm then reports the error.
func (h *Pages) SignupPage(c *gin.Context) {
	if next := ReturnTo(c.Request.URL.Query()["next"]); !h.redirectLoggedIn(c, next) {
		showSignup(c, http.StatusOK, web.Signup{Next: next})
	}
}

// showSignup shows the sign-up page. The status is not 200 if shown has a problem.
func showSignup(c *gin.Context, status int, shown web.Signup) {
	page, err := web.RenderSignup(shown)
	showRendered(c, status, page, err)
}

// ReturnTo returns the dashboard URL at which a person continues after the login. values are the
// values of the query parameter next. ReturnTo returns "" unless there is exactly one value and it
// is the URL of a dashboard page. Without this check, a link to the login page could redirect to
// another site. The result is the path with its query, without a fragment.
func ReturnTo(values []string) string {
	if len(values) != 1 || len(values[0]) > MaxNextPage || !strings.HasPrefix(values[0], DashboardPath) { // the raw text is checked, too
		return ""
	}
	next, err := url.Parse(values[0])
	if err != nil || next.Scheme != "" || next.Host != "" || next.User != nil || strings.ContainsAny(values[0], "\\\t\r\n") ||
		next.Path != DashboardPath && !strings.HasPrefix(next.Path, DashboardPath+"/") || path.Clean(next.Path) != next.Path {
		return ""
	}
	return next.RequestURI()
}

// ShowPage responds with an HTML page and a Content-Security-Policy. The page must not be cached.
// policy restricts the sources of scripts and styles.
func ShowPage(c *gin.Context, status int, page []byte, policy string) {
	header := c.Writer.Header()
	header.Set("Content-Security-Policy", policy)
	header.Set("Cache-Control", "no-store") // the page contains the person's name, and names of bundles that the next release may lack
	// The URL may contain a token, which must not be sent to other sites. The policy no-referrer
	// would be too strict, because browsers would then send forms with the origin "null".
	header.Set("Referrer-Policy", "same-origin")
	header.Set("Permissions-Policy", NoMicrophone)
	if strings.HasPrefix(c.Request.URL.Path, DashboardPath) {
		header.Set("Permissions-Policy", OwnMicrophone)
	}

	c.Data(status, "text/html; charset=utf-8", page)
}
