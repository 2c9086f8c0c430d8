package httpapi

import (
	"fmt"
	"net/http"
	"net/mail"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/auth"
	"parley/ingress/internal/ratelimit"
	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/secrets"
	"parley/shared/store"
)

// Passwords have 8 to 256 characters; the upper bound only keeps a body from being one.
const (
	passwordLeast = 8
	passwordMost  = 256
	emailMost     = 254
	nameMost      = 120
)

// loginLimits bound wrong passwords: per account against guessing at one, per address against trying
// one password on many. Right ones are free.
type loginLimits struct{ account, address *ratelimit.Failures }

func newLoginLimits(now func() time.Time) loginLimits {
	return loginLimits{
		account: ratelimit.NewFailures(30, 15*time.Minute, now),
		address: ratelimit.NewFailures(300, 15*time.Minute, now),
	}
}

// begin counts an attempt; good takes it back.
func (l loginLimits) begin(email, address string) (good func(), err error) {
	email = strings.ToLower(email)
	wait := l.address.Begin(address)
	if wait == 0 {
		if wait = l.account.Begin(email); wait > 0 {
			l.address.Undo(address)
		}
	}
	if wait > 0 {
		return nil, rateLimited(wait, "too many wrong passwords")
	}
	return func() { l.address.Undo(address); l.account.Undo(email) }, nil
}

// loggedIn is the answer to signing up and logging in.
type loggedIn struct {
	User         domain.User         `json:"user"`
	Organization domain.Organization `json:"organization"`
	Token        string              `json:"token"`
	ExpiresAt    domain.Time         `json:"expiresAt"`
}

// newLogin makes a session token, and the session to store in place of the browser's present one.
func newLogin(c *gin.Context) (token string, login store.NewLogin) {
	token = secrets.NewSessionToken()
	login = store.NewLogin{TokenHash: secrets.Hash(token), ExpiresAt: domain.At(time.Now().Add(auth.SessionLife)).Time}
	if old := auth.CookieToken(c.Request); old != "" {
		login.Replaces = secrets.Hash(old)
	}
	return token, login
}

// startSession answers with the session's token, in the body and as cookie.
func (a *api) startSession(c *gin.Context, status int, account store.Account, token string, login store.NewLogin) {
	a.setCookie(c, token, login)
	writeJSON(c, status, loggedIn{account.User, account.Organization, token, domain.At(login.ExpiresAt)})
}

func (a *api) setCookie(c *gin.Context, token string, login store.NewLogin) {
	if old := auth.CookieToken(c.Request); old != "" {
		a.Auth.ForgetToken(old)
	}
	auth.SetCookie(c.Writer, token, login.ExpiresAt, a.secure(c))
}

type signupBody struct {
	Email    string           `json:"email" need:"yes"`
	Password string           `json:"password" need:"yes"`
	Name     optional[string] `json:"name"`
}

func (b *signupBody) check(p *problems) {
	p.text("email", b.Email, 1, emailMost)
	if address, err := mail.ParseAddress(b.Email); err != nil || address.Address != b.Email {
		p.add("email", codeInvalidValue, "must be an email address")
	}
	p.text("password", b.Password, passwordLeast, passwordMost)
	if b.Name.Set {
		p.text("name", b.Name.Value, 1, nameMost)
	}
}

// signup is POST /api/auth/signup: it makes a user and, as they are logged in by it, their organization.
func (a *api) signup(c *gin.Context) {
	body, err := bind[signupBody](c)
	if err != nil {
		fail(c, err)
		return
	}
	hash, err := a.passwords.Hash(c.Request.Context(), body.Password)
	if err != nil {
		fail(c, err)
		return
	}
	local, _, _ := strings.Cut(body.Email, "@")
	token, login := newLogin(c)
	user := store.NewUser{Email: body.Email, Name: body.Name.or(local), PasswordHash: hash}
	account, err := a.Store.SignUp(c.Request.Context(), user, login)
	if err != nil {
		fail(c, err)
		return
	}
	a.startSession(c, http.StatusCreated, account, token, login)
}

type loginBody struct {
	Email    string `json:"email" need:"yes"`
	Password string `json:"password" need:"yes"`
}

func (b *loginBody) check(p *problems) {
	p.text("email", b.Email, 1, emailMost)
	p.text("password", b.Password, 1, passwordMost)
}

// login is POST /api/auth/login. It takes as long, and says the same, whether the account or only the
// password is wrong.
func (a *api) login(c *gin.Context) {
	body, err := bind[loginBody](c)
	if err != nil {
		fail(c, err)
		return
	}
	ctx := c.Request.Context()
	good, err := a.logins.begin(body.Email, a.Auth.DemoClient(c.Request))
	if err != nil {
		fail(c, err)
		return
	}
	user, hash, err := a.Store.UserByEmail(ctx, body.Email)
	if err != nil && apierr.CodeOf(err) != apierr.NotFound {
		good()
		fail(c, err)
		return
	}
	matches, err := a.passwords.Matches(ctx, body.Password, hash)
	if err != nil {
		good()
		fail(c, err)
		return
	}
	if !matches {
		fail(c, apierr.New(apierr.Unauthenticated, "the email address or the password is wrong"))
		return
	}
	good()
	token, login := newLogin(c)
	account, err := a.Store.LogIn(ctx, user.ID, login)
	if err != nil {
		fail(c, err)
		return
	}
	a.startSession(c, http.StatusOK, account, token, login)
}

// logout is POST /api/auth/logout: the session that the request came with ends everywhere.
func (a *api) logout(c *gin.Context) {
	ident := identity(c)
	if ident.Token == "" {
		fail(c, apierr.New(apierr.PermissionDenied, "an API key has no session to end: it is revoked instead"))
		return
	}
	if err := a.Store.LogOut(c.Request.Context(), secrets.Hash(ident.Token)); err != nil {
		fail(c, fmt.Errorf("ending session: %w", err))
		return
	}
	a.Auth.ForgetToken(ident.Token)
	auth.ClearCookie(c.Writer, a.secure(c))
	c.Status(http.StatusNoContent)
}
