package account

import (
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/httpapi/httpx"
	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/secrets"
	"parley/shared/store/accountdb"
)

// acceptBody is the body of POST /api/auth/accept. Name and password are ignored if the caller is
// logged in with the invited email address. Otherwise the password is required: it is that of the
// existing account with the address, or the password for a new account.
type acceptBody struct {
	// Token of the invitation's link.
	Token string `json:"token" required:"true"`
	// Name of the person; missing: the local part of the email address.
	Name     httpx.Optional[string] `json:"name"`
	Password httpx.Optional[string] `json:"password"`
}

// Check checks the fields that are present. The rules for new passwords are checked later, if an
// account is created; see openAccount. A login with an existing password must not fail because of
// rules that were introduced later.
func (b *acceptBody) Check(p *httpx.Problems) {
	if b.Name.Set {
		p.Name("name", b.Name.Value, httpx.MaxName)
	}
	if b.Password.Set {
		p.Text("password", b.Password.Value, 1, maxPassword)
	}
}

// accept handles POST /api/auth/accept: it uses an invitation's token to make the invited person a
// member of the organization, and begins a login session. The status is 201. Errors: not_found for
// a token that is not valid, and unauthenticated for a wrong password.
func (h *Handler) accept(c *gin.Context) error {
	body, err := httpx.Bind[acceptBody](c)
	if err != nil {
		return err
	}

	account, token, login, err := h.acceptInvitation(c, body, true)
	if err != nil {
		return err
	}

	return h.startSession(c, http.StatusCreated, account, token, login)
}

// acceptInvitation uses an invitation's token. If the caller is logged in with the invited email
// address, the caller becomes a member. Otherwise, the user with this address and the given
// password becomes a member. If there is no such user and mayJoin is true, acceptInvitation creates
// an account. This account takes over the address from any account that has not proven it.
// acceptInvitation returns the account, the token of the new session, and the session as stored.
// The membership and the session are stored in one transaction, which also uses up the invitation.
func (h *Handler) acceptInvitation(c *gin.Context, body acceptBody, mayJoin bool) (accountdb.Account, string, accountdb.NewLogin, error) {
	none := func(err error) (accountdb.Account, string, accountdb.NewLogin, error) {
		return accountdb.Account{}, "", accountdb.NewLogin{}, err
	}
	invited, person, err := h.invitationFor(c, body.Token)
	if err != nil {
		return none(err)
	}

	token, login := h.newLogin(c)
	userID := person.UserID

	// Record the session in which the caller accepts the invitation.
	login.LoginID = person.Credential
	if userID == "" {
		var isNew bool
		if userID, login.PasswordHash, isNew, err = h.openAccount(c, invited.Email, body, mayJoin); err != nil {
			return none(err)
		}

		// The store has another method for a new account, because a new account may take over the
		// address.
		if isNew {
			account, err := h.acceptNew(c, invited, body, login)
			return account, token, login, err
		}
	}

	// Drop the user's cached memberships, so that the new membership takes effect immediately.
	account, err := h.AccountsDB.Join(c.Request.Context(), secrets.Hash(body.Token), userID, login)
	if err == nil {
		h.Auth.ForgetUser(userID)
	}
	return account, token, login, err
}

// openAccount returns the id of the user with the email address and the password in body, and the
// stored hash of the password. If there is no such user but an account may be created, isNew is
// true. An account may be created if mayJoin is true and no account has proven the address. Wrong
// passwords count against the limits of wrong passwords.
func (h *Handler) openAccount(c *gin.Context, email string, body acceptBody, mayJoin bool) (userID, hash string, isNew bool, err error) {
	if !body.Password.Set {
		return "", "", false, apierr.Invalid("password", httpx.CodeRequired, "is required unless you are logged in with the invited address")
	}

	known, proven, err := h.AccountsDB.AddressKnown(c.Request.Context(), email)
	if err != nil {
		return "", "", false, err
	}

	// If the person only wants to log in, check the password even for an unknown address.
	// Otherwise, the response time would reveal that the address is unknown.
	if known || !mayJoin {
		userID, hash, err = h.authenticate(c, email, body.Password.Value)
		if !mayJoin || apierr.CodeFor(err) != apierr.Unauthenticated {
			return userID, hash, false, err
		}
	}

	found := &httpx.Problems{}
	checkPassword(found, "password", body.Password.Value)
	switch fault := found.Err(); {
	case fault != nil: // problems of the password come first, because the other error shows that an account exists
		return "", "", false, fault
	case proven:
		return "", "", false, err
	}

	return "", "", true, nil
}

// acceptNew creates an account with the invited email address. The new account counts as a sign-up
// of the client's address. Another account that had the email address without proof loses it, and
// its sessions are dropped from the cache.
func (h *Handler) acceptNew(
	c *gin.Context, invited domain.Invitation, body acceptBody, login accountdb.NewLogin,
) (accountdb.Account, error) {
	var account accountdb.Account
	err := h.countSignup(c, func() error {
		hash, err := h.hash(c, invited.Email, body.Password.Value)
		if err != nil {
			return err
		}
		name := body.Name.Or(localPart(invited.Email))
		account, err = h.AccountsDB.JoinNew(c.Request.Context(), secrets.Hash(body.Token), name, hash, login)
		return err
	})
	if err == nil && account.Before != "" {
		h.Auth.ForgetUser(account.Before)
	}
	return account, err
}

// invitationFor reads the invitation whose link contains the token. person is the caller if the
// caller is logged in with the invited email address, and empty otherwise. The error is not_found
// for a token that does not exist, was used or has expired. A caller with another address is
// treated like one who is not logged in.
func (h *Handler) invitationFor(c *gin.Context, token string) (invited domain.Invitation, person domain.Caller, err error) {
	if !secrets.IsInvitationToken(token) {
		return invited, person, apierr.Missing()
	}

	ident, err := h.Auth.Person(c.Request)
	if err != nil {
		return invited, person, err
	}

	// Without a login session, the result person stays empty.
	ctx := c.Request.Context()
	if invited, err = h.OrganizationsDB.Invitation(ctx, secrets.Hash(token)); err != nil || ident.Caller.UserID == "" {
		return invited, person, err
	}

	user, err := h.AccountsDB.User(ctx, ident.Caller.UserID)
	if err != nil {
		return invited, person, err
	}
	if strings.EqualFold(user.Email, invited.Email) {
		person = ident.Caller
	}
	return invited, person, nil
}

// resetBody is the body of POST /api/auth/reset. The field password contains the new password.
type resetBody struct {
	Token    string `json:"token" required:"true"`
	Password string `json:"password" required:"true"`
}

// Check checks the new password.
func (b *resetBody) Check(p *httpx.Problems) { checkPassword(p, "password", b.Password) }

// reset handles POST /api/auth/reset: it sets a new password with the token of a reset link. It
// ends all login sessions of the user and begins a new one. The status is 200. The link can be used
// once.
func (h *Handler) reset(c *gin.Context) error {
	body, err := httpx.Bind[resetBody](c)
	if err != nil {
		return err
	}

	account, token, login, err := h.resetPassword(c, body)
	if err != nil {
		return err
	}

	return h.startSession(c, http.StatusOK, account, token, login)
}

// resetPassword sets a new password with the token of a reset link. It checks the token before it
// hashes the password, because hashing is expensive. The token's validity is checked again in the
// transaction that sets the password. After an error, the link can still be used.
func (h *Handler) resetPassword(c *gin.Context, body resetBody) (accountdb.Account, string, accountdb.NewLogin, error) {
	token, login := h.newLogin(c)
	user, err := h.resetFor(c, body.Token)
	if err != nil {
		return accountdb.Account{}, "", login, err
	}

	ctx := c.Request.Context()
	hash, err := h.hash(c, user.Email, body.Password)
	if err != nil {
		return accountdb.Account{}, "", login, err
	}

	// UseReset ends all earlier sessions of the user, so drop them from the cache afterwards.
	account, err := h.AccountsDB.UseReset(ctx, secrets.Hash(body.Token), hash, login)
	if err == nil {
		h.Auth.ForgetUser(user.ID)
	}
	return account, token, login, err
}

// resetFor returns the user whose password can be set with the token of a reset link. The error is
// not_found for a token that is not valid.
func (h *Handler) resetFor(c *gin.Context, token string) (domain.User, error) {
	if !secrets.IsResetToken(token) {
		return domain.User{}, apierr.Missing()
	}
	return h.AccountsDB.Reset(c.Request.Context(), secrets.Hash(token))
}
