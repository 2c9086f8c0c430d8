package account

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/httpapi/pages"
	"parley/ingress/internal/openid"
	"parley/ingress/web"
	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/store/accountdb"
)

const (
	// OIDCPath is the path at which a login through OpenID begins.
	OIDCPath = "/api/auth/oidc"
	// AttemptName is the name of the cookie of a login in progress.
	AttemptName = "parley_oidc"
	// attemptLife is the time in which the person must log in at the provider.
	attemptLife = 10 * time.Minute
	// AttemptSeal is the encryption context of the cookie AttemptName. A value that was encrypted
	// with another context is not accepted as the value of this cookie.
	AttemptSeal = "oidc attempt"
	// defaultNext is the page to which the browser returns without the parameter next.
	defaultNext = pages.Dashboard
	// maxNext is the maximum length of the parameter next.
	maxNext = 512 // bytes
)

// attempt is the content of the encrypted cookie that the browser has while a person logs in at the
// provider. The encryption proves that this service has created the cookie for this browser.
type attempt struct {
	openid.Attempt
	// Path to which the browser returns.
	Next string `json:"next"`
	// Whether an email address may be taken over.
	TakeOver bool `json:"takeOver,omitempty"`
	// Time at which the attempt expires.
	Until time.Time `json:"until"`
}

// errNoProvider returns the error for requests to a service without an OpenID Connect provider.
func errNoProvider() error {
	return apierr.New(apierr.NotFound, "login with an OpenID Connect provider is not configured")
}

// beginOIDC handles GET /api/auth/oidc?next=: it redirects the browser to the provider. After the
// login, the browser returns to the path next. With takeover=1, the person gets an account even if
// another account in use has the person's email address but has not proven it. The cookie connects
// the callback with this request.
func (h *Handler) beginOIDC(c *gin.Context) {
	if h.provider == nil {
		httpx.Fail(c, errNoProvider())
		return
	}

	next, takeOver, err := readLoginQuery(c)
	if err != nil {
		httpx.Fail(c, err)
		return
	}

	address, made, err := h.provider.Begin(c.Request.Context())
	if err != nil {
		h.failLogin(c, err)
		return
	}

	// The attempt is kept by the browser, so that any ingress process can finish the login.
	raw, err := json.Marshal(attempt{made, next, takeOver, time.Now().Add(attemptLife)})
	if err != nil {
		httpx.Fail(c, fmt.Errorf("encoding attempt: %w", err))
		return
	}

	h.setAttempt(c, h.Secrets.Seal(string(raw), AttemptSeal), int(attemptLife/time.Second))
	seeOther(c, address)
}

// readLoginQuery reads the query of a login. It rejects takeover=1 in requests from pages of other
// sites, which must not be able to make a person take over an email address. Requests without the
// header Sec-Fetch-Site are accepted, because only browsers send it.
func readLoginQuery(c *gin.Context) (next string, takeOver bool, err error) {
	found := &httpx.Problems{}
	next = nextFor(c, found)
	value, takeOver := httpx.QueryValue(c, "takeover", found)
	if takeOver && value != "1" {
		found.Add("takeover", httpx.CodeInvalidValue, "must be 1, or omitted")
	}
	if site := c.GetHeader("Sec-Fetch-Site"); takeOver && site != "" && site != "same-origin" && site != "none" {
		return "", false, apierr.New(apierr.PermissionDenied, "requests from pages of other origins are not allowed")
	}
	return next, takeOver, found.Err()
}

// nextFor reads the path to which the browser returns after the login. The path must be on this
// site. It may not begin with two slashes, because browsers interpret the text after them as the
// name of a host. It may contain no backslash, because browsers interpret a backslash as a slash.
// An invalid path is added to found. Without the parameter, the result is defaultNext.
func nextFor(c *gin.Context, found *httpx.Problems) string {
	next, present := httpx.QueryValue(c, "next", found)
	if !present {
		return defaultNext
	}

	address, err := url.Parse(next)
	own := err == nil && address.Scheme == "" && address.Host == "" && address.User == nil &&
		strings.HasPrefix(next, "/") && !strings.HasPrefix(next, "//") && httpx.IsVisible(next) && !strings.ContainsRune(next, '\\')
	if !own || len(next) > maxNext {
		found.Add("next", httpx.CodeInvalidValue, "must be a path on this site, such as %s", defaultNext)
	}
	return next
}

// setAttempt sets the cookie of a login in progress. A negative maxAge (seconds) deletes it. The
// cookie is sent only to the paths under OIDCPath. SameSite is Lax, because the provider redirects
// the browser with a request from another site.
func (h *Handler) setAttempt(c *gin.Context, value string, maxAge int) {
	http.SetCookie(c.Writer, &http.Cookie{ //nolint:gosec // G124: Secure depends on the scheme, because there is no TLS in development
		Name: AttemptName, Value: value, Path: OIDCPath, MaxAge: maxAge,
		HttpOnly: true, Secure: h.Secure(c), SameSite: http.SameSiteLaxMode,
	})
}

// attemptFor reads the attempt in the browser's cookie. It returns an error if there is no attempt,
// if it has expired, or if its state differs from the state in the query. The error is the same in
// all cases, so that it does not reveal which part is wrong.
func (h *Handler) attemptFor(c *gin.Context) (attempt, error) {
	var begun attempt
	wrong := apierr.Invalid("state", httpx.CodeInvalidValue,
		"does not belong to a login started by this browser in the last %d minutes; start again",
		int(attemptLife/time.Minute))
	if c.Request.Method == http.MethodHead { // HEAD must not log the person in
		return begun, wrong
	}

	states, cookies := httpx.Query(c)["state"], c.Request.CookiesNamed(AttemptName)
	if len(states) != 1 || len(cookies) != 1 {
		return begun, wrong
	}

	raw, err := h.Secrets.Open(cookies[0].Value, AttemptSeal)
	if err != nil {
		return begun, wrong
	}

	if err := json.Unmarshal([]byte(raw), &begun); err != nil {
		return begun, fmt.Errorf("decoding attempt: %w", err)
	}
	if time.Now().After(begun.Until) || !begun.Matches(states[0]) {
		return begun, wrong
	}
	return begun, nil
}

// finishOIDC handles GET /api/auth/oidc/callback: it logs the person in after the provider has
// redirected the browser back. It creates an account for a new identity, or links the identity to
// the account of a person who is logged in. Then it redirects the browser to the path next of the
// request that began the login.
func (h *Handler) finishOIDC(c *gin.Context) {
	if h.provider == nil {
		httpx.Fail(c, errNoProvider())
		return
	}

	begun, err := h.attemptFor(c)
	if err != nil {
		h.failLogin(c, err)
		return
	}

	person, err := h.personFor(c, begun)
	if err != nil {
		h.failLogin(c, err)
		return
	}

	// If a person is logged in, the identity is linked to the person's account.
	ident, err := h.Auth.Person(c.Request)
	if err != nil {
		h.failLogin(c, err)
		return
	}

	token, login := h.newLogin(c)
	login.LoginID = ident.Caller.Credential
	account, err := h.logInByIdentity(c, person, ident.Caller.UserID, begun.TakeOver, login)
	if err != nil {
		h.failLogin(c, err)
		return
	}

	// Drop the cached data of the account that has lost the email address.
	if account.Before != "" {
		h.Auth.ForgetUser(account.Before)
	}

	h.setCookie(c, token, login)
	h.setAttempt(c, "", -1)
	seeOther(c, begun.Next)
}

// logInByIdentity logs a person in. The first login of an identity counts as a sign-up, because it
// usually creates an account. It does not count if it only links the identity to the account of
// loggedIn, the user who is already logged in. takeOver is whether an unproven email address may be
// taken from another account. The error wraps ErrMayTakeOver if the person may ask for such a
// takeover.
func (h *Handler) logInByIdentity(
	c *gin.Context, person accountdb.Identity, loggedIn string, takeOver bool, login accountdb.NewLogin,
) (account accountdb.Account, err error) {
	logIn := func() error {
		account, err = h.AccountsDB.LogInByIdentity(c.Request.Context(), person, loggedIn, takeOver, login)
		return err
	}

	known, err := h.AccountsDB.IdentityKnown(c.Request.Context(), person)
	if err != nil {
		return account, err
	}
	if known {
		err = logIn()
		return account, err
	}

	// The first login may create an account, so it counts against the limit of sign-ups.
	err = h.countSignup(c, logIn)
	if err == nil && account.User.ID == loggedIn && h.signups != nil {
		h.signups.Undo(h.Auth.DemoClient(c.Request))
	}
	return account, err
}

// seeOther redirects a browser without a body. The status 303 makes the browser use GET.
func seeOther(c *gin.Context, address string) {
	c.Header("Location", address)
	c.Status(http.StatusSeeOther)
}

// personFor exchanges the code in the callback's query for the person's identity. The email address
// counts as verified only if the provider says so and the address is valid. The name may be empty.
func (h *Handler) personFor(c *gin.Context, begun attempt) (accountdb.Identity, error) {
	codes := httpx.Query(c)["code"]
	if len(httpx.Query(c)["error"]) > 0 {
		return accountdb.Identity{}, apierr.New(apierr.Unauthenticated, "the identity provider rejected the login")
	}
	if len(codes) != 1 || codes[0] == "" {
		return accountdb.Identity{}, apierr.Invalid("code", httpx.CodeRequired, "must be given exactly once")
	}

	p, err := h.provider.Finish(c.Request.Context(), begun.Attempt, codes[0])
	if err != nil {
		return accountdb.Identity{}, err
	}

	// The problems of the address are not reported, because the person cannot fix them.
	found := &httpx.Problems{}
	found.Email("email", p.Email)
	who := accountdb.Identity{Issuer: p.Issuer, Subject: p.Subject, Email: p.Email, Verified: p.Verified && found.Err() == nil}
	if who.Name = domain.CleanText(p.Name, httpx.MaxName); who.Name == "" {
		who.Name = domain.CleanText(localPart(p.Email), httpx.MaxName)
	}
	return who, nil
}

// failLogin responds to a failed login. Browsers get the login page with the error; other clients
// get the response of httpx.Fail. failLogin must be called before anything else is written.
func (h *Handler) failLogin(c *gin.Context, err error) {
	if !strings.Contains(c.GetHeader("Accept"), "text/html") {
		httpx.Fail(c, err)
		return
	}
	httpx.FailOn(c, err, func(status int, problem string) {
		h.showLogin(c, status, web.Login{Problem: problem, TakeOver: errors.Is(err, accountdb.ErrMayTakeOver)})
	})
}

// newProvider returns the configured OpenID provider, or nil if none is configured. publicURL must
// be the URL that is registered at the provider.
func newProvider(s openid.Settings, publicURL string) *openid.Provider {
	if s.Issuer == "" {
		return nil
	}
	s.RedirectURL = publicURL + OIDCPath + "/callback"
	return openid.New(s)
}
