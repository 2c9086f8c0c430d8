package account

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/auth"
	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/ratelimit"
	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/secrets"
	"parley/shared/store/accountdb"
)

// Passwords have 8 to 256 characters; the upper bound only keeps a body from being one.
const (
	passwordLeast = 8
	maxPassword   = 256
)

// loginLimits bound wrong passwords. A pair of account and address is bound tightly, so that a stranger elsewhere cannot lock
// the right person out. An address is bound over all accounts, against trying one password on many, and an account over all
// addresses, against guessing from many. Right passwords are free.
type loginLimits struct{ pair, Address, Account *ratelimit.Failures }

func newLoginLimits(now func() time.Time) loginLimits {
	return loginLimits{
		pair:    ratelimit.NewFailures(30, 15*time.Minute, now),
		Address: ratelimit.NewFailures(300, 15*time.Minute, now),
		Account: ratelimit.NewFailures(1000, time.Hour, now),
	}
}

// begin counts an attempt; good takes it back. familiar reports whether the account was logged in to from the address before:
// the limit over all addresses does not hold there.
func (l loginLimits) begin(email, address string, familiar func() bool) (good func(), err error) {
	email = strings.ToLower(email)
	pair := email + "\x00" + address
	if wait := l.Address.Begin(address); wait > 0 {
		return nil, tooManyPasswords(wait)
	}
	if wait := l.pair.Begin(pair); wait > 0 {
		l.Address.Undo(address)
		return nil, tooManyPasswords(wait)
	}
	wait := l.Account.Begin(email)
	if wait > 0 && !familiar() {
		l.Address.Undo(address)
		l.pair.Undo(pair)
		return nil, tooManyPasswords(wait)
	}
	return func() {
		l.Address.Undo(address)
		l.pair.Undo(pair)
		if wait == 0 { // a refused attempt has not counted
			l.Account.Undo(email)
		}
	}, nil
}

func tooManyPasswords(wait time.Duration) error {
	return httpx.RateLimited(wait, "too many wrong passwords")
}

// loggedIn is the answer to signing up and logging in.
type loggedIn struct {
	User         domain.User         `json:"user"`
	Organization domain.Organization `json:"organization"`
	Token        string              `json:"token"`
	ExpiresAt    domain.Time         `json:"expiresAt"`
}

// maxUserAgent is how much is kept of what a browser calls itself, in characters.
const maxUserAgent = 256

// newLogin makes a session token, and the session to store in place of the browser's present one.
func (h *Handler) newLogin(c *gin.Context) (token string, login accountdb.NewLogin) {
	token = secrets.NewSessionToken()
	login = accountdb.NewLogin{
		TokenHash: secrets.Hash(token), ExpiresAt: domain.At(time.Now().Add(auth.SessionLife)).Time,
		UserAgent: domain.CleanText(c.Request.UserAgent(), maxUserAgent),
	}
	if address := h.Auth.ClientAddr(c.Request); address.IsValid() {
		login.Address = address.String()
	}
	if old := auth.CookieToken(c.Request); old != "" {
		login.Replaces = secrets.Hash(old)
	}
	return token, login
}

// startSession answers with the session's token, in the body and as cookie.
func (h *Handler) startSession(c *gin.Context, status int, account accountdb.Account, token string, login accountdb.NewLogin) {
	h.setCookie(c, token, login)
	httpx.WriteJSON(c, status, loggedIn{account.User, account.Organization, token, domain.At(login.ExpiresAt)})
}

func (h *Handler) setCookie(c *gin.Context, token string, login accountdb.NewLogin) {
	if old := auth.CookieToken(c.Request); old != "" {
		h.Auth.ForgetToken(old)
	}
	auth.SetCookie(c.Writer, token, login.ExpiresAt, h.Secure(c))
}

// checkPassword checks a password to set, which is hashed in its normalized form.
func checkPassword(p *httpx.Problems, field, value string) {
	p.Text(field, value, passwordLeast, maxPassword)
	switch normal, err := auth.NormalizePassword(value); {
	case err != nil:
		p.Add(field, httpx.CodeInvalidValue, "must not contain control characters or characters that Unicode does not define")
	case utf8.RuneCountInString(normal) < passwordLeast:
		p.Add(field, httpx.CodeTooShort, "must have at least %d characters, counting composed characters once", passwordLeast)
	}
}

type signupBody struct {
	Email    string                 `json:"email" need:"yes"`
	Password string                 `json:"password" need:"yes"`
	Name     httpx.Optional[string] `json:"name"`
}

func (b *signupBody) Check(p *httpx.Problems) {
	p.Email("email", b.Email)
	checkPassword(p, "password", b.Password)
	if b.Name.Set {
		p.Name("name", b.Name.Value, httpx.MaxName)
	}
}

// signup is POST /api/auth/signup: it makes a user and, as they are logged in by it, their organization.
func (h *Handler) signup(c *gin.Context) {
	body, err := httpx.Bind[signupBody](c)
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	account, token, login, err := h.signUp(c, body)
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	h.startSession(c, http.StatusCreated, account, token, login)
}

// signUp makes a user of a checked body, and a session of theirs.
func (h *Handler) signUp(c *gin.Context, body signupBody) (account accountdb.Account, token string, login accountdb.NewLogin, err error) {
	err = h.countSignup(c, func() error {
		hash, err := h.hash(c.Request.Context(), body.Email, body.Password)
		if err != nil {
			return err
		}
		token, login = h.newLogin(c)
		user := accountdb.NewUser{Email: body.Email, Name: body.Name.Or(localPart(body.Email)), PasswordHash: hash}
		account, err = h.AccountsDB.SignUp(c.Request.Context(), user, login)
		return err
	})
	return account, token, login, err
}

// countSignup makes an account unless the client's address has made too many of late. An address that has an account
// already counts as one made: otherwise nothing would bound asking which addresses have one.
func (h *Handler) countSignup(c *gin.Context, signUp func() error) error {
	if h.signups == nil {
		return signUp()
	}
	client := h.Auth.DemoClient(c.Request)
	if wait := h.signups.Begin(client); wait > 0 {
		return httpx.RateLimited(wait, fmt.Sprintf("this client address has created %d accounts within an hour", h.SignupsPerAddress))
	}
	err := signUp()
	if err != nil && apierr.CodeFor(err) != apierr.EmailTaken {
		h.signups.Undo(client)
	}
	return err
}

// localPart is what people who give no name are called: their address up to the @.
func localPart(email string) string {
	local, _, _ := strings.Cut(email, "@")
	if runes := []rune(local); len(runes) > httpx.MaxName {
		return string(runes[:httpx.MaxName])
	}
	return local
}

type loginBody struct {
	Email    string `json:"email" need:"yes"`
	Password string `json:"password" need:"yes"`
}

func (b *loginBody) Check(p *httpx.Problems) {
	p.Text("email", b.Email, 1, httpx.MaxEmail)
	p.Text("password", b.Password, 1, maxPassword)
}

// login is POST /api/auth/login. It takes as long, and says the same, whether the account or only the
// password is wrong.
func (h *Handler) login(c *gin.Context) {
	body, err := httpx.Bind[loginBody](c)
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	account, token, login, err := h.logIn(c, body)
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	h.startSession(c, http.StatusOK, account, token, login)
}

// logIn begins a session if the password is right.
func (h *Handler) logIn(c *gin.Context, body loginBody) (accountdb.Account, string, accountdb.NewLogin, error) {
	userID, hash, err := h.authenticate(c, body.Email, body.Password)
	if err != nil {
		return accountdb.Account{}, "", accountdb.NewLogin{}, err
	}
	token, login := h.newLogin(c)
	login.PasswordHash = hash
	account, err := h.AccountsDB.LogIn(c.Request.Context(), userID, login)
	return account, token, login, err
}

// authenticate gives the user of an address if the password is theirs, and the hash that it matches: whatever
// follows must check that this is still theirs. Wrong ones are counted.
func (h *Handler) authenticate(c *gin.Context, email, password string) (userID, hash string, err error) {
	ctx, client := c.Request.Context(), h.Auth.ClientAddr(c.Request).String()
	only := false // above the limit over all addresses, accounts count that are logged in to from this one
	good, err := h.Logins.begin(email, h.Auth.DemoClient(c.Request), func() bool {
		only = true
		known, err := h.AccountsDB.LoggedInFrom(ctx, email, client)
		return err == nil && known
	})
	if err != nil {
		return "", "", err
	}
	// An address without an account costs as much as one with many.
	schemes, err := h.AccountsDB.PasswordSchemes(ctx, email)
	if err == nil {
		var hashes []string
		if hashes, err = h.Passwords.Hashes(ctx, password, schemes); err == nil {
			userID, hash, err = h.AccountsDB.ByPassword(ctx, email, hashes, client, only)
		}
	}
	if apierr.CodeFor(err) != apierr.Unauthenticated {
		good()
	}
	return userID, hash, err
}

// hash makes the text to store for a password of an address.
func (h *Handler) hash(ctx context.Context, email, password string) (string, error) {
	schemes, err := h.AccountsDB.PasswordSchemes(ctx, email)
	if err != nil {
		return "", err
	}
	return h.Passwords.Hash(ctx, password, schemes)
}

// logout is POST /api/auth/logout: the session that the request came with ends on every ingress, with
// ?everywhere=1 all sessions of its user.
func (h *Handler) logout(c *gin.Context) {
	ident := httpx.Identity(c)
	found := &httpx.Problems{}
	value, everywhere := httpx.QueryValue(c, "everywhere", found)
	if everywhere && value != "1" {
		found.Add("everywhere", httpx.CodeInvalidValue, "must be 1 if given")
	}
	if err := found.Err(); err != nil {
		httpx.Fail(c, err)
		return
	}
	var err error
	if everywhere {
		err = h.AccountsDB.LogOutEverywhere(c.Request.Context(), ident.Caller.UserID)
		h.Auth.ForgetUser(ident.Caller.UserID)
	} else {
		err = h.AccountsDB.LogOut(c.Request.Context(), secrets.Hash(ident.Token))
		h.Auth.ForgetToken(ident.Token)
	}
	if err != nil {
		httpx.Fail(c, fmt.Errorf("ending session: %w", err))
		return
	}
	auth.ClearCookie(c.Writer, h.Secure(c))
	c.Status(http.StatusNoContent)
}
