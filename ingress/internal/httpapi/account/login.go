package account

import (
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

// Limits on the length of passwords, in characters. No real password is as long as the maximum,
// which only limits the size of the input. The minimum applies to the password as typed and as
// normalized.
const (
	minPassword = 8
	maxPassword = 256
)

// loginLimits limits the number of wrong passwords; correct passwords do not count. The strictest
// limit is that for one account and one client address, so strangers at other addresses cannot lock
// out the owner. The limit for a client address hinders trying one password on many accounts. The
// limit for an account hinders guesses from many addresses. The counts are those of one ingress
// process, and are lost when it ends.
type loginLimits struct{ pair, Address, Account *ratelimit.Failures }

// newLoginLimits returns the limits for one ingress process. now is the clock.
func newLoginLimits(now func() time.Time) loginLimits {
	return loginLimits{
		pair:    ratelimit.NewFailures(30, 15*time.Minute, now),
		Address: ratelimit.NewFailures(300, 15*time.Minute, now),
		Account: ratelimit.NewFailures(1000, time.Hour, now),
	}
}

// begin counts an attempt to log in, or returns an error if a limit is reached. If the password
// turns out to be correct, the caller must call undo. The limit for an account does not apply if
// isFamiliar reports that the account was used from this client address before. address is the
// client's network address in the form of DemoClient. isFamiliar is called only if the limit for
// the account is reached. undo must be called at most once.
func (l loginLimits) begin(email, address string, isFamiliar func() bool) (undo func(), err error) {
	email = strings.ToLower(email)
	pair := email + "\x00" + address

	// Count in all limits at once, so that concurrent attempts cannot exceed any of them.
	if wait := l.Address.Begin(address); wait > 0 {
		return nil, tooManyPasswords(wait)
	}

	// A rejected attempt counts nowhere.
	if wait := l.pair.Begin(pair); wait > 0 {
		l.Address.Undo(address)
		return nil, tooManyPasswords(wait)
	}

	wait := l.Account.Begin(email)
	if wait > 0 && !isFamiliar() {
		l.Address.Undo(address)
		l.pair.Undo(pair)
		return nil, tooManyPasswords(wait)
	}
	return func() {
		l.Address.Undo(address)
		l.pair.Undo(pair)
		if wait == 0 { // if the limit was reached, Begin did not count the attempt
			l.Account.Undo(email)
		}
	}, nil
}

// tooManyPasswords returns the error for an attempt over a limit. wait is the time until the limit
// permits the next attempt.
func tooManyPasswords(wait time.Duration) error {
	return httpx.RateLimited(wait, "too many wrong passwords")
}

// loggedIn is the response to a sign-up or login. The token is for clients that do not use the
// cookie.
type loggedIn struct {
	User         domain.User         `json:"user"`
	Organization domain.Organization `json:"organization"`
	// Token of the login session.
	Token string `json:"token"`
	// Time at which the session ends.
	ExpiresAt domain.Time `json:"expiresAt"`
}

// maxUserAgent is the maximum length of a stored User-Agent in characters. Longer values are
// truncated.
const maxUserAgent = 256

// newLogin returns the token of a new login session, and the session to store. When the session is
// stored, it replaces the session whose token is in the browser's cookie. The session is not valid
// until it has been stored. Its network address is that of the client, if it is known.
func (h *Handler) newLogin(c *gin.Context) (token string, login accountdb.NewLogin) {
	token = secrets.NewSessionToken()
	login = accountdb.NewLogin{
		TokenHash: secrets.Hash(token), ExpiresAt: domain.At(time.Now().Add(auth.SessionLife)).Time,
		UserAgent: domain.CleanText(c.Request.UserAgent(), maxUserAgent),
	}
	if address := h.Auth.ClientAddr(c.Request); address.IsValid() {
		login.Address = address.String()
	}

	// One browser has one session, so a new login ends the old session.
	if old := auth.CookieToken(c.Request); old != "" {
		login.Replaces = secrets.Hash(old)
	}
	return token, login
}

// startSession sets the cookie of a new session, and responds with the account and the session's
// token. The token is in the body and in the cookie, so the client can choose.
func (h *Handler) startSession(c *gin.Context, status int, account accountdb.Account, token string, login accountdb.NewLogin) error {
	h.setCookie(c, token, login)
	return httpx.JSON(c, status, loggedIn{account.User, account.Organization, token, domain.At(login.ExpiresAt)})
}

// setCookie sets the cookie of a new session, which must be stored already. The session that the
// new one replaces becomes invalid at this ingress process immediately. setCookie must be called
// before the body is written.
func (h *Handler) setCookie(c *gin.Context, token string, login accountdb.NewLogin) {
	if old := auth.CookieToken(c.Request); old != "" {
		h.Auth.ForgetToken(old)
	}
	auth.SetCookie(c.Writer, token, login.ExpiresAt, h.Secure(c))
}

// checkPassword checks the length and the characters of a new password, as typed and in the
// normalized form that is hashed. Normalization may shorten a password, so the normalized form is
// checked as well. The argument field is the path under which problems are added to p.
func checkPassword(p *httpx.Problems, field, value string) {
	p.Text(field, value, minPassword, maxPassword)
	switch normal, err := auth.NormalizePassword(value); {
	case err != nil:
		p.Add(field, httpx.CodeInvalidValue, "must not contain control characters or unassigned Unicode characters")
	case utf8.RuneCountInString(normal) < minPassword:
		p.Add(field, httpx.CodeTooShort, "must have at least %d characters after Unicode normalization", minPassword)
	}
}

// signupBody is the body of POST /api/auth/signup. Without a name, the local part of the email
// address is used.
type signupBody struct {
	Email    string                 `json:"email" required:"true"`
	Password string                 `json:"password" required:"true"`
	Name     httpx.Optional[string] `json:"name"`
}

// Check checks the fields. The rules for new passwords apply. The store checks whether the address
// has an account already.
func (b *signupBody) Check(p *httpx.Problems) {
	p.Email("email", b.Email)
	checkPassword(p, "password", b.Password)
	if b.Name.Set {
		p.Name("name", b.Name.Value, httpx.MaxName)
	}
}

// signup handles POST /api/auth/signup: it creates a user and their organization and logs the user
// in. The status is 201. Errors: email_taken, and rate_limited after SignupsPerAddress accounts in
// an hour.
func (h *Handler) signup(c *gin.Context) error {
	body, err := httpx.Bind[signupBody](c)
	if err != nil {
		return err
	}

	account, token, login, err := h.signUp(c, body)
	if err != nil {
		return err
	}

	return h.startSession(c, http.StatusCreated, account, token, login)
}

// signUp creates a user and a login session from a checked body. It returns the token of the
// session, which the caller passes to the client.
func (h *Handler) signUp(c *gin.Context, body signupBody) (account accountdb.Account, token string, login accountdb.NewLogin, err error) {
	err = h.countSignup(c, func() error {
		// Hashing is expensive, so it comes after the limit.
		hash, err := h.hash(c, body.Email, body.Password)
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

// countSignup calls the argument signUp unless the limit on sign-ups from the client's address is
// reached. An attempt with an email address that already has an account counts, too, so that
// callers cannot test many addresses for accounts. Other failures do not count. countSignup calls
// signUp at most once.
func (h *Handler) countSignup(c *gin.Context, signUp func() error) error {
	if h.signups == nil {
		return signUp()
	}

	client := h.Auth.DemoClient(c.Request)
	if wait := h.signups.Begin(client); wait > 0 {
		return httpx.RateLimited(wait, fmt.Sprintf("sign-up limit of %d accounts per hour for this client address exceeded", h.SignupsPerAddress))
	}

	err := signUp()
	if err != nil && apierr.CodeFor(err) != apierr.EmailTaken {
		h.signups.Undo(client)
	}
	return err
}

// localPart returns the part of an email address before the @, truncated to the maximum length of a
// name. The result is the default name of a user. An address without an @ is used whole.
func localPart(email string) string {
	local, _, _ := strings.Cut(email, "@")
	if runes := []rune(local); len(runes) > httpx.MaxName {
		return string(runes[:httpx.MaxName])
	}
	return local
}

// loginBody is the body of POST /api/auth/login. The password is only compared with the stored
// hash, so the rules for new passwords do not matter.
type loginBody struct {
	Email    string `json:"email" required:"true"`
	Password string `json:"password" required:"true"`
}

// Check checks only the lengths, not the rules for new passwords. An unknown email address is
// reported like a wrong password, not as a problem of the field.
func (b *loginBody) Check(p *httpx.Problems) {
	p.Text("email", b.Email, 1, httpx.MaxEmail)
	p.Text("password", b.Password, 1, maxPassword)
}

// login handles POST /api/auth/login. For a wrong password and for an unknown account, the error
// and the response time are the same. The status is 200. Errors: unauthenticated, and rate_limited
// after too many wrong passwords.
func (h *Handler) login(c *gin.Context) error {
	body, err := httpx.Bind[loginBody](c)
	if err != nil {
		return err
	}

	account, token, login, err := h.logIn(c, body)
	if err != nil {
		return err
	}

	return h.startSession(c, http.StatusOK, account, token, login)
}

// logIn creates a login session if the password is correct. It returns the account, the session's
// token and the session. The store checks that the password has not been changed in between; see
// authenticate.
func (h *Handler) logIn(c *gin.Context, body loginBody) (accountdb.Account, string, accountdb.NewLogin, error) {
	userID, hash, err := h.authenticate(c, body.Email, body.Password)
	if err != nil {
		return accountdb.Account{}, "", accountdb.NewLogin{}, err
	}
	token, login := h.newLogin(c)

	// The transaction compares the hash with the stored one.
	login.PasswordHash = hash
	account, err := h.AccountsDB.LogIn(c.Request.Context(), userID, login)
	return account, token, login, err
}

// authenticate returns the id of the user with the email address and the password, and the stored
// hash that the password matches. A caller that changes the account must check that this hash is
// still stored. authenticate counts wrong passwords. The error is unauthenticated for a wrong
// password or an unknown address. If the limit for the account is reached, logins succeed only from
// client addresses from which the account was used before.
func (h *Handler) authenticate(c *gin.Context, email, password string) (userID, hash string, err error) {
	ctx, client := c.Request.Context(), h.Auth.ClientAddr(c.Request).String()
	only := false // if true, only accounts that have logged in from this client address before may match
	address := h.Auth.DemoClient(c.Request)
	undo, err := h.Logins.begin(email, address, func() bool {
		only = true
		known, err := h.AccountsDB.LoggedInFrom(ctx, email, client)
		return err == nil && known
	})
	if err != nil {
		return "", "", err
	}

	// Hash the password even if no account has the address, because otherwise the response time
	// would reveal that there is no account.
	schemes, err := h.AccountsDB.PasswordSchemes(ctx, email)
	if err == nil {
		var hashes []string
		if hashes, err = h.Passwords.Hashes(ctx, address, password, schemes); err == nil {
			userID, hash, err = h.AccountsDB.ByPassword(ctx, email, hashes, client, only)
		}
	}

	// Count only wrong passwords, and not failures of the service.
	if apierr.CodeFor(err) != apierr.Unauthenticated {
		undo()
	}
	return userID, hash, err
}

// hash returns the hash to store for a password of the account with the email address. It does not
// check the rules for new passwords.
func (h *Handler) hash(c *gin.Context, email, password string) (string, error) {
	ctx := c.Request.Context()
	schemes, err := h.AccountsDB.PasswordSchemes(ctx, email)
	if err != nil {
		return "", err
	}
	return h.Passwords.Hash(ctx, h.Auth.DemoClient(c.Request), password, schemes)
}

// logout handles POST /api/auth/logout: it ends the login session of the request. With
// ?everywhere=1 it ends all login sessions of the user. The status is 204.
func (h *Handler) logout(c *gin.Context) error {
	ident := httpx.Identity(c)
	found := &httpx.Problems{}
	value, everywhere := httpx.QueryValue(c, "everywhere", found)
	if everywhere && value != "1" {
		found.Add("everywhere", httpx.CodeInvalidValue, "must be 1, or omitted")
	}
	if err := found.Err(); err != nil {
		return err
	}

	var err error

	// Drop the cached sessions even after an error, because the change may have been committed.
	if everywhere {
		err = h.AccountsDB.LogOutEverywhere(c.Request.Context(), ident.Caller.UserID)
		h.Auth.ForgetUser(ident.Caller.UserID)
	} else {
		err = h.AccountsDB.LogOut(c.Request.Context(), secrets.Hash(ident.Token))
		h.Auth.ForgetToken(ident.Token)
	}

	if err != nil {
		return fmt.Errorf("ending session: %w", err)
	}

	auth.ClearCookie(c.Writer, h.Secure(c))
	c.Status(http.StatusNoContent)
	return nil
}
