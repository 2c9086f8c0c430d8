package httpapi

import (
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"

	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/secrets"
	"parley/shared/store"
)

// Where the pages of links are.
const (
	acceptPath = "/accept"
	resetPath  = "/reset"
)

type acceptBody struct {
	Token    string           `json:"token" need:"yes"`
	Name     optional[string] `json:"name"`
	Password optional[string] `json:"password"`
}

func (b *acceptBody) check(p *problems) {
	if b.Name.Set {
		p.text("name", b.Name.Value, 1, nameMost)
	}
	if b.Password.Set {
		p.text("password", b.Password.Value, 1, passwordMost)
	}
}

// accept is POST /api/auth/accept: an invitation's link makes its address a member, and logs them in.
func (a *api) accept(c *gin.Context) {
	body, err := bind[acceptBody](c)
	if err != nil {
		fail(c, err)
		return
	}
	account, token, login, err := a.acceptInvitation(c, body)
	if err != nil {
		fail(c, err)
		return
	}
	a.startSession(c, http.StatusCreated, account, token, login)
}

// acceptInvitation spends an invitation's link. Whom it is for must be logged in, or know the password of the
// account that the address has, or make an account for it.
func (a *api) acceptInvitation(c *gin.Context, body acceptBody) (store.Account, string, store.NewLogin, error) {
	none := func(err error) (store.Account, string, store.NewLogin, error) {
		return store.Account{}, "", store.NewLogin{}, err
	}
	invited, person, err := a.invitationOf(c, body.Token)
	if err != nil {
		return none(err)
	}
	token, login := a.newLogin(c)
	userID, hash, ctx := person.UserID, secrets.Hash(body.Token), c.Request.Context()
	login.LoginID = person.Credential
	if userID == "" {
		if !body.Password.Set {
			return none(apierr.Invalid("password", codeRequired, "is required of whoever is not logged in as the invited address"))
		}
		_, _, err := a.Store.UserByEmail(ctx, invited.Email)
		if apierr.CodeOf(err) == apierr.NotFound {
			account, err := a.acceptAnew(c, invited, body, login)
			return account, token, login, err
		}
		if err != nil {
			return none(err)
		}
		if userID, login.PasswordHash, err = a.authenticate(c, invited.Email, body.Password.Value); err != nil {
			return none(err)
		}
	}
	account, err := a.Store.Join(ctx, hash, userID, login)
	if err == nil {
		a.Auth.ForgetUser(userID)
	}
	return account, token, login, err
}

// acceptAnew makes the account that an invited address lacks.
func (a *api) acceptAnew(c *gin.Context, invited domain.Invitation, body acceptBody, login store.NewLogin) (store.Account, error) {
	found := &problems{}
	found.text("password", body.Password.Value, passwordLeast, passwordMost)
	if err := found.err(); err != nil {
		return store.Account{}, err
	}
	var account store.Account
	err := a.countSignup(c, func() error {
		hash, err := a.passwords.Hash(c.Request.Context(), body.Password.Value)
		if err != nil {
			return err
		}
		name := body.Name.or(localPart(invited.Email))
		account, err = a.Store.JoinNew(c.Request.Context(), secrets.Hash(body.Token), name, hash, login)
		return err
	})
	return account, err
}

// invitationOf reads what a token stands for, and who accepts it: the caller when the request comes with the
// session of the invited address, else nobody.
func (a *api) invitationOf(c *gin.Context, token string) (invited domain.Invitation, person domain.Caller, err error) {
	if !secrets.IsInvitationToken(token) {
		return invited, person, apierr.New(apierr.NotFound, "no such resource")
	}
	ident, err := a.Auth.Person(c.Request)
	if err != nil {
		return invited, person, err
	}
	ctx := c.Request.Context()
	if invited, err = a.Store.Invitation(ctx, secrets.Hash(token)); err != nil || ident.Caller.UserID == "" {
		return invited, person, err
	}
	user, err := a.Store.User(ctx, ident.Caller.UserID)
	if err != nil {
		return invited, person, err
	}
	if strings.EqualFold(user.Email, invited.Email) {
		person = ident.Caller
	}
	return invited, person, nil
}

type resetBody struct {
	Token    string `json:"token" need:"yes"`
	Password string `json:"password" need:"yes"`
}

func (b *resetBody) check(p *problems) { p.text("password", b.Password, passwordLeast, passwordMost) }

// reset is POST /api/auth/reset: a link sets a new password, ends all login sessions and begins one.
func (a *api) reset(c *gin.Context) {
	body, err := bind[resetBody](c)
	if err != nil {
		fail(c, err)
		return
	}
	account, token, login, err := a.resetPassword(c, body)
	if err != nil {
		fail(c, err)
		return
	}
	a.startSession(c, http.StatusOK, account, token, login)
}

// resetPassword spends a reset link. It is looked up first: an invented one costs no hash.
func (a *api) resetPassword(c *gin.Context, body resetBody) (store.Account, string, store.NewLogin, error) {
	token, login := a.newLogin(c)
	user, err := a.resetOf(c, body.Token)
	if err != nil {
		return store.Account{}, "", login, err
	}
	ctx := c.Request.Context()
	hash, err := a.passwords.Hash(ctx, body.Password)
	if err != nil {
		return store.Account{}, "", login, err
	}
	account, err := a.Store.UseReset(ctx, secrets.Hash(body.Token), hash, login)
	if err == nil {
		a.Auth.ForgetUser(user.ID)
	}
	return account, token, login, err
}

// resetOf gives the user whose password a token may set.
func (a *api) resetOf(c *gin.Context, token string) (domain.User, error) {
	if !secrets.IsResetToken(token) {
		return domain.User{}, apierr.New(apierr.NotFound, "no such resource")
	}
	return a.Store.ResetOf(c.Request.Context(), secrets.Hash(token))
}
