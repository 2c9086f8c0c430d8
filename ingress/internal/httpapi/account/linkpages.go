package account

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/httpapi/pages"
	"parley/ingress/web"
	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/secrets"
	"parley/shared/store/accountdb"
)

// LoginForm handles POST /login, the login page's form. It logs the person in and redirects to the
// page from which the person came. After an error, the page appears again with the message and the
// email address, but without the password.
func (h *Pages) LoginForm(c *gin.Context) {
	fields, err := h.readForm(c)
	if err != nil {
		httpx.FailOn(c, err, func(status int, problem string) { h.showLogin(c, status, web.Login{Problem: problem}) })
		return
	}

	// Check the field next, because a link to the login page may contain any value.
	next := pages.ReturnTo(fields["next"])
	body := loginBody{Email: fields.Get("email"), Password: fields.Get("password")}
	if err = httpx.CheckedBody(&body); err == nil {
		_, token, login, failed := h.logIn(c, body)
		err = h.enter(c, next, token, login, failed)
	}

	if err != nil {
		httpx.FailOn(c, err, func(status int, problem string) {
			h.showLogin(c, status, web.Login{Problem: problem, Email: body.Email, Next: next})
		})
	}
}

// SignupForm handles POST /signup, the sign-up page's form. It creates the account and logs the
// person in. After an error, the fields except the password are kept.
func (h *Pages) SignupForm(c *gin.Context) {
	fields, err := h.readForm(c)
	if err != nil {
		httpx.FailOn(c, err, func(status int, problem string) { showSignup(c, status, web.Signup{Problem: problem}) })
		return
	}

	shown := web.Signup{Name: strings.TrimSpace(fields.Get("name")), Email: fields.Get("email"), Next: pages.ReturnTo(fields["next"])}
	body := signupBody{Email: shown.Email, Password: fields.Get("password")}
	body.Name.Value, body.Name.Set = shown.Name, shown.Name != ""
	if err = httpx.CheckedBody(&body); err == nil {
		_, token, login, failed := h.signUp(c, body)
		err = h.enter(c, shown.Next, token, login, failed)
	}

	if err != nil {
		httpx.FailOn(c, err, func(status int, problem string) {
			shown.Problem = problem
			showSignup(c, status, shown)
		})
	}
}

// enter logs the browser in after a form: it sets the session's cookie and redirects the browser to
// next, or to the dashboard if next is empty. If err is not nil, it only returns err. The status is
// 303, so the browser requests next with GET.
func (h *Pages) enter(c *gin.Context, next, token string, login accountdb.NewLogin, err error) error {
	if err != nil {
		return err
	}
	h.setCookie(c, token, login)
	c.Redirect(http.StatusSeeOther, cmp.Or(next, pages.Dashboard))
	return nil
}

// AcceptPage handles GET /accept?token=: it shows a page with an invitation and forms to accept or
// decline it. The page shows the organization and the role. Opening the page changes nothing.
func (h *Pages) AcceptPage(c *gin.Context) { h.showAccept(c, linkToken(c), http.StatusOK, "") }

// AcceptForm handles POST /accept, the forms of AcceptPage. A person can join with an existing
// account, create an account, or decline. AcceptForm responds with a redirect to the dashboard,
// with a notice that the invitation was declined, or with the page and an error.
func (h *Pages) AcceptForm(c *gin.Context) {
	fields, err := h.readForm(c)
	if err != nil {
		pages.Fail(c, err)
		return
	}

	body := acceptBody{Token: fields.Get("token")}

	// Empty fields count as missing, because browsers send all fields of a form.
	body.Name.Value, body.Password.Value = strings.TrimSpace(fields.Get("name")), fields.Get("password")
	body.Name.Set, body.Password.Set = body.Name.Value != "", body.Password.Value != ""
	if fields.Has("decline") {
		h.declineForm(c, body.Token)
		return
	}

	if err = httpx.CheckedBody(&body); err == nil {
		_, token, login, failed := h.acceptInvitation(c, body, fields.Has("new"))
		err = h.enter(c, "", token, login, failed)
	}

	if err != nil {
		httpx.FailOn(c, err, func(status int, problem string) { h.showAccept(c, body.Token, status, problem) })
	}
}

// declineForm declines the invitation whose link contains the token. The link itself is the
// permission, so the person need not be logged in.
func (h *Pages) declineForm(c *gin.Context, token string) {
	// Read the invitation first, because the page names the organization.
	invited, _, err := h.invitationFor(c, token)
	if err == nil {
		err = h.OrganizationsDB.DeclineByLink(c.Request.Context(), secrets.Hash(token))
	}
	if err != nil {
		showLinkGone(c, err, invitationGone)
		return
	}

	page, err := web.RenderNotice(web.Notice{
		Title: "Invitation declined", Words: fmt.Sprintf("You declined the invitation to %s. Its link no longer works.", invited.Organization),
	})
	pages.ShowRendered(c, http.StatusOK, page, err)
}

// invitationGone is the message for used, expired and unknown links. It is the same for all, so
// that it does not reveal which links existed. Only the token proves that the reader was invited.
const invitationGone = "This invitation is no longer valid, or the link is incomplete. Ask for a new invitation."

// showAccept shows the forms for an invitation. A person who is logged in with the invited email
// address gets a button. Others get two forms, to log in and to create an account, so that the page
// does not reveal whether the address has an account. The argument problem is the error to show
// above the forms, or "".
func (h *Pages) showAccept(c *gin.Context, token string, status int, problem string) {
	invited, person, err := h.invitationFor(c, token)
	if err != nil {
		showLinkGone(c, err, invitationGone)
		return
	}

	as := map[domain.Role]string{domain.RoleOwner: "an owner", domain.RoleAdmin: "an admin", domain.RoleMember: "a member"}
	page, err := web.RenderAccept(web.Accept{
		Token: token, Organization: invited.Organization, Email: invited.Email, As: as[invited.Role],
		SignedIn: person.UserID != "", Problem: problem,
	})
	pages.ShowRendered(c, status, page, err)
}

// ResetPage handles GET /reset?token=: it shows a form for a new password. Opening the page does
// not use up the link.
func (h *Pages) ResetPage(c *gin.Context) { h.showReset(c, linkToken(c), http.StatusOK, "") }

// ResetForm handles POST /reset, the form of ResetPage. It sets the password and logs the person
// in.
func (h *Pages) ResetForm(c *gin.Context) {
	fields, err := h.readForm(c)
	if err != nil {
		pages.Fail(c, err)
		return
	}

	body := resetBody{Token: fields.Get("token"), Password: fields.Get("password")}
	if err = httpx.CheckedBody(&body); err == nil {
		_, token, login, failed := h.resetPassword(c, body)
		err = h.enter(c, "", token, login, failed)
	}

	if err != nil {
		httpx.FailOn(c, err, func(status int, problem string) { h.showReset(c, body.Token, status, problem) })
	}
}

// showReset shows the form for a new password, or a notice if the token permits no change of a
// password. The argument problem is the error to show above the form, or "".
func (h *Pages) showReset(c *gin.Context, token string, status int, problem string) {
	user, err := h.resetFor(c, token)
	if err != nil {
		showLinkGone(c, err, "This link was already used, has expired or is incomplete. Ask for a new link.")
		return
	}
	page, err := web.RenderReset(web.Reset{Token: token, Email: user.Email, Problem: problem})
	pages.ShowRendered(c, status, page, err)
}

// linkToken returns the query's token, or "" unless the query has exactly one token. linkToken does
// not check the token. The handlers show a page with an error for an invalid token.
func linkToken(c *gin.Context) string {
	if tokens := c.Request.URL.Query()["token"]; len(tokens) == 1 {
		return tokens[0]
	}
	return ""
}

// showLinkGone responds with a page about an error of a link. If err is not_found, the link is not
// valid, and the page shows the text in the parameter words. Otherwise, the page describes err. The
// error is also recorded for the request's log line.
func showLinkGone(c *gin.Context, err error, words string) {
	if apierr.CodeFor(err) != apierr.NotFound {
		pages.Fail(c, err)
		return
	}
	httpx.StateFor(c).Err = err
	pages.Notice(c, http.StatusNotFound, words)
}
