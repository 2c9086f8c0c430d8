package httpapi

import (
	"errors"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/auth"
	"parley/ingress/web"
	"parley/shared/apierr"
	"parley/shared/secrets"
	"parley/shared/store"
)

// loginPage is GET /login: with ?token= a one-time link, which logs its user in, and without it the
// page to sign in by.
func (a *api) loginPage(c *gin.Context) {
	tokens, given := c.Request.URL.Query()["token"]
	if !given {
		a.showLogin(c, http.StatusOK, "", "")
		return
	}
	if len(tokens) != 1 || !secrets.IsLinkToken(tokens[0]) {
		a.showLogin(c, http.StatusBadRequest, "This is not a complete login link. Copy the whole of it.", "")
		return
	}
	if strings.Contains(c.GetHeader("Sec-Purpose"), "prefetch") {
		c.Status(http.StatusNoContent) // the browser guesses that its user may want the page: the link is for once
		return
	}
	token, login := a.newLogin(c)
	_, err := a.Store.UseLoginLink(c.Request.Context(), secrets.Hash(tokens[0]), login)
	switch {
	case errors.Is(err, store.ErrLinkSpent):
		a.showLogin(c, http.StatusGone, "This login link was used already, or is too old. Get a new one.", "")
	case errors.Is(err, store.ErrLinkUnknown):
		a.showLogin(c, http.StatusBadRequest, "This login link does not exist here. Get a new one.", "")
	case err != nil:
		fail(c, err)
	default:
		a.setCookie(c, token, login)
		toDashboard(c)
	}
}

// showLogin shows the login page with a problem, and the address that was given.
func (a *api) showLogin(c *gin.Context, status int, problem, email string) {
	page, err := web.RenderLogin(web.Login{Problem: problem, Email: email, OpenID: a.provider != nil})
	showRendered(c, status, page, err)
}

// dashboardPage is GET /dashboard, for whoever a cookie says is signed in.
func (a *api) dashboardPage(c *gin.Context) {
	ident, err := a.Auth.Resolve(c.Request, auth.NeedUser)
	if code := apierr.CodeOf(err); code == apierr.Unavailable || code == apierr.Overloaded {
		fail(c, err)
		return
	}
	if err != nil || ident.Via != auth.ViaCookie {
		c.Redirect(http.StatusSeeOther, "/login")
		return
	}
	stateOf(c).ident = ident
	view, err := a.sessionOf(c.Request.Context(), ident.Caller)
	if err != nil {
		fail(c, err)
		return
	}
	page, err := web.RenderDashboard(web.Dashboard{
		Name: view.User.Name, Email: view.User.Email, Role: string(view.Caller.Role), BaseURL: a.PublicURL,
		Organization: view.Organization.Name, OrganizationID: view.Organization.ID,
	})
	if err != nil {
		fail(c, err)
		return
	}
	showPage(c, http.StatusOK, page)
}

func showPage(c *gin.Context, status int, page []byte) {
	header := c.Writer.Header()
	header.Set("Content-Security-Policy", web.ContentSecurityPolicy)
	// An address may hold a token, which is no other site's business. With no-referrer browsers would send the
	// pages' own forms as if from another origin.
	header.Set("Referrer-Policy", "same-origin")
	c.Data(status, "text/html; charset=utf-8", page)
}

func styleSheet(c *gin.Context) {
	css, err := web.StyleSheet()
	if err != nil {
		fail(c, err)
		return
	}
	c.Header("Cache-Control", "public, max-age=300")
	c.Data(http.StatusOK, "text/css; charset=utf-8", css)
}
