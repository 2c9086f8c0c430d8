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
	// DashboardPath is where the dashboard begins.
	DashboardPath = "/dashboard"
	// MaxNextPage is how many bytes an address within the dashboard may have.
	MaxNextPage = 1024 // bytes of an address within the dashboard

	// NoMicrophone is the policy of all other pages. People talk with agents in the dashboard alone,
	// and no page of ours needs more of the device than that.
	NoMicrophone = "camera=(), geolocation=(), microphone=()"
	// OwnMicrophone is the policy of the dashboard.
	OwnMicrophone = "camera=(), geolocation=(), microphone=(self)"
)

// Pages serves the pages of accounts, which browsers see: login, sign-up, invitations and password resets.
type Pages struct{ *Handler }

// LoginPage is GET /login: with ?token= a one-time link, which logs its user in, and without it the
// page to sign in by.
func (h *Pages) LoginPage(c *gin.Context) {
	tokens, given := c.Request.URL.Query()["token"]
	shown := web.Login{Next: ReturnTo(c.Request.URL.Query()["next"])}
	if !given {
		if !h.passes(c, shown.Next) {
			h.showLogin(c, http.StatusOK, shown)
		}
		return
	}
	refuse := func(status int, problem string) {
		shown.Problem = problem
		h.showLogin(c, status, shown)
	}
	if len(tokens) != 1 || !secrets.IsLinkToken(tokens[0]) {
		refuse(http.StatusBadRequest, "This login link is incomplete. Copy the whole link.")
		return
	}
	if c.Request.Method == http.MethodHead || strings.Contains(c.GetHeader("Sec-Purpose"), "prefetch") {
		c.Status(http.StatusNoContent) // a program looks at the link, or the browser expects its user to follow it: it works once
		return
	}
	token, login := h.newLogin(c)
	_, err := h.AccountsDB.UseLoginLink(c.Request.Context(), secrets.Hash(tokens[0]), login)
	switch {
	case errors.Is(err, accountdb.ErrLinkSpent):
		if h.passes(c, shown.Next) { // by this very link, most likely
			return
		}
		refuse(http.StatusGone, "This login link was already used or has expired. Get a new one.")
	case errors.Is(err, accountdb.ErrLinkUnknown):
		refuse(http.StatusBadRequest, "This login link is not valid here. Get a new one.")
	case err != nil:
		httpx.Fail(c, err)
	default:
		h.setCookie(c, token, login)
		c.Redirect(http.StatusSeeOther, cmp.Or(shown.Next, DashboardPath))
	}
}

// showLogin shows the login page.
func (h *Handler) showLogin(c *gin.Context, status int, shown web.Login) {
	shown.OpenID = h.provider != nil
	page, err := web.RenderLogin(shown)
	showRendered(c, status, page, err)
}

// passes sends somebody who is signed in already to the page that they asked for, the dashboard's first if none.
func (h *Pages) passes(c *gin.Context, next string) bool {
	ident, err := h.Auth.Person(c.Request)
	if err != nil || ident.Via != auth.ViaCookie {
		return false
	}
	httpx.StateFor(c).Ident = ident
	c.Redirect(http.StatusSeeOther, cmp.Or(next, DashboardPath))
	return true
}

// SignupPage is GET /signup.
func (h *Pages) SignupPage(c *gin.Context) {
	if next := ReturnTo(c.Request.URL.Query()["next"]); !h.passes(c, next) {
		showSignup(c, http.StatusOK, web.Signup{Next: next})
	}
}

func showSignup(c *gin.Context, status int, shown web.Signup) {
	page, err := web.RenderSignup(shown)
	showRendered(c, status, page, err)
}

// ReturnTo is the page that somebody asked for before they had to sign in: one of the dashboard's, or the first of them. Any
// other address would let a link to us lead elsewhere.
func ReturnTo(values []string) string {
	if len(values) != 1 || len(values[0]) > MaxNextPage || !strings.HasPrefix(values[0], DashboardPath) { // as it is written, too
		return ""
	}
	next, err := url.Parse(values[0])
	if err != nil || next.Scheme != "" || next.Host != "" || next.User != nil || strings.ContainsAny(values[0], "\\\t\r\n") ||
		next.Path != DashboardPath && !strings.HasPrefix(next.Path, DashboardPath+"/") || path.Clean(next.Path) != next.Path {
		return ""
	}
	return next.RequestURI()
}

// ShowPage answers with one of the service's own pages, under a Content-Security-Policy.
func ShowPage(c *gin.Context, status int, page []byte, policy string) {
	header := c.Writer.Header()
	header.Set("Content-Security-Policy", policy)
	header.Set("Cache-Control", "no-store") // it says who is signed in, and names bundles that the next release has others of
	// An address may hold a token, which is no other site's business. With no-referrer browsers would send the
	// pages' own forms as if from another origin.
	header.Set("Referrer-Policy", "same-origin")
	header.Set("Permissions-Policy", NoMicrophone)
	if strings.HasPrefix(c.Request.URL.Path, DashboardPath) {
		header.Set("Permissions-Policy", OwnMicrophone)
	}
	c.Data(status, "text/html; charset=utf-8", page)
}
