package httpapi

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"parley/ingress/internal/auth"
	"parley/shared/domain"
	"parley/shared/secrets"
	"parley/shared/store/accountdb"
)

func TestSignup(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	a := w.do("POST", "/api/auth/signup", `{"email":"Ada@example.com","password":"`+password+`","name":"Ada"}`).want(t, "signing up", 201, "")
	if a.text(t, "user.email") != "Ada@example.com" || a.text(t, "user.name") != "Ada" ||
		!strings.HasPrefix(a.text(t, "user.id"), "usr_") || !strings.HasPrefix(a.text(t, "organization.id"), "org_") ||
		!strings.HasPrefix(a.text(t, "token"), "ps_") {
		t.Errorf("answer %s", a.body)
	}
	ends, err := time.Parse("2006-01-02T15:04:05.000Z", a.text(t, "expiresAt"))
	if left := time.Until(ends); err != nil || left < 29*24*time.Hour || left > 30*24*time.Hour {
		t.Errorf("session ends %v, %v", ends, err)
	}
	cookie := a.header.Get("Set-Cookie")
	if !strings.HasPrefix(cookie, auth.CookieName+"="+a.text(t, "token")+";") || !strings.Contains(cookie, "HttpOnly") || strings.Contains(cookie, "Secure") {
		t.Errorf("cookie %s", cookie)
	}
	if strings.Contains(string(a.body), "hash") {
		t.Errorf("the response %s reveals the hash", a.body)
	}
	const long = "12345678"
	for name, c := range map[string]struct {
		body, problems string
		status         int
	}{
		"taken, other case": {`{"email":"ADA@example.com","password":"` + long + `"}`, "email_taken", 409},
		"nothing":           {`{}`, "invalid_request email:required password:required", 400},
		"no address":        {`{"email":"ada","password":"` + long + `"}`, "invalid_request email:invalid_value", 400},
		"address with name": {`{"email":"Ada <a@b.c>","password":"` + long + `"}`, "invalid_request email:invalid_value", 400},
		"short password":    {`{"email":"a@b.c","password":"1234567"}`, "invalid_request password:too_short", 400},
		"long password":     {`{"email":"a@b.c","password":"` + strings.Repeat("x", 257) + `"}`, "invalid_request password:too_long", 400},
		"empty name":        {`{"email":"a@b.c","password":"` + long + `","name":""}`, "invalid_request name:too_short", 400},
		"long name":         {`{"email":"a@b.c","password":"` + long + `","name":"` + strings.Repeat("ä", 121) + `"}`, "invalid_request name:too_long", 400},
		"role":              {`{"email":"a@b.c","password":"` + long + `","role":"owner"}`, "invalid_request role:unknown_field", 400},
		"all at once":       {`{"email":7,"password":"x","Name":"y"}`, "invalid_request email:invalid_type Name:unknown_field password:too_short", 400},
		"NUL":               {`{"email":"a\u0000@b.c","password":"` + long + `"}`, "invalid_request email:invalid_value", 400},
	} {
		w.do("POST", "/api/auth/signup", c.body).want(t, name, c.status, c.problems)
	}
	if got := w.do("POST", "/api/auth/signup", `{"email":"grace@example.com","password":"`+long+`"}`).text(t, "user.name"); got != "grace" {
		t.Errorf("default name %q", got)
	}
}

func TestLoginAndLogout(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	ada := w.signUp("ada@example.com")
	for name, c := range map[string]struct {
		body, problems string
		status         int
	}{
		"wrong password": {`{"email":"ada@example.com","password":"wrong"}`, "unauthenticated", 401},
		"no account":     {`{"email":"bea@example.com","password":"wrong"}`, "unauthenticated", 401},
		"nothing":        {`{}`, "invalid_request email:required password:required", 400},
		"unknown field":  {`{"email":"ada@example.com","password":"x","remember":true}`, "invalid_request remember:unknown_field", 400},
	} {
		w.do("POST", "/api/auth/login", c.body).want(t, name, c.status, c.problems)
	}
	a := w.do("POST", "/api/auth/login", `{"email":"ADA@example.com","password":"`+password+`"}`, ada.cookie).want(t, "logging in", 200, "")
	token := a.text(t, "token")
	if token == ada.token || a.text(t, "organization.id") != ada.org || a.text(t, "user.id") != ada.id {
		t.Errorf("answer %s", a.body)
	}
	w.do("GET", "/api/auth/session", "", ada.auth).want(t, "the token that the login replaced", 401, "unauthenticated")
	bearer := "Authorization: Bearer " + token
	w.do("GET", "/api/auth/session", "", bearer).want(t, "the new token", 200, "")
	key, _ := w.key(person{auth: bearer}, domain.KeyScopeOrganization)
	w.do("POST", "/api/auth/logout", "", key).want(t, "logging out a key", 403, "permission_denied")
	w.do("POST", "/api/auth/logout", "").want(t, "logging out nobody", 401, "unauthenticated")
	out := w.do("POST", "/api/auth/logout", "", "Cookie: "+auth.CookieName+"="+token).want(t, "logging out", 204, "")
	if !strings.Contains(out.header.Get("Set-Cookie"), "Max-Age=0") || len(out.body) != 0 {
		t.Errorf("logout answered %q with cookie %s", out.body, out.header.Get("Set-Cookie"))
	}
	w.do("GET", "/api/auth/session", "", bearer).want(t, "after logout", 401, "unauthenticated")
}

func TestSession(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	ada, bea := w.signUp("ada@example.com"), w.signUp("bea@example.com")
	w.join(ada, bea.org, domain.RoleMember)
	orgKey, keyID := w.key(ada, domain.KeyScopeOrganization)
	userKey, _ := w.key(ada, domain.KeyScopeUser)

	a := w.do("GET", "/api/auth/session", "", ada.cookie).want(t, "cookie", 200, "")
	if a.text(t, "caller.kind") != "user" || a.text(t, "caller.userId") != ada.id || a.text(t, "caller.organizationId") != ada.org ||
		a.text(t, "caller.role") != "owner" || a.text(t, "user.email") != ada.email || a.text(t, "organization.id") != ada.org ||
		a.text(t, "organizations.0.id") != ada.org || a.text(t, "organizations.1.id") != bea.org || a.text(t, "organizations.1.role") != "member" {
		t.Errorf("cookie: %s", a.body)
	}
	a = w.do("GET", "/api/auth/session", "", ada.auth, "X-Organization-Id: "+bea.org).want(t, "bearer elsewhere", 200, "")
	if a.text(t, "caller.role") != "member" || a.text(t, "organization.id") != bea.org {
		t.Errorf("bearer elsewhere: %s", a.body)
	}
	a = w.do("GET", "/api/auth/session", "", orgKey).want(t, "organization's key", 200, "")
	if a.text(t, "caller.keyId") != keyID || a.text(t, "caller.role") != "admin" || a.json(t, "user") != nil ||
		a.json(t, "caller.userId") != nil || a.text(t, "organizations.0.id") != ada.org || a.json(t, "organizations.1") != nil {
		t.Errorf("organization's key: %s", a.body)
	}
	w.do("GET", "/api/auth/session", "", userKey).want(t, "user's key", 400, "organization_required")
	a = w.do("GET", "/api/auth/session", "", userKey, "X-Organization-Id: "+bea.org).want(t, "user's key elsewhere", 200, "")
	if a.text(t, "caller.role") != "member" || a.text(t, "user.id") != ada.id {
		t.Errorf("user's key: %s", a.body)
	}
	w.do("GET", "/api/auth/session", "").want(t, "nobody", 401, "unauthenticated")
}

// TestSessionWithoutPassword reads the session of a user who has logged in with a link and has no
// password. A user with a password can log in again without a link.
func TestSessionWithoutPassword(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	user, err := w.store.Accounts.CreateUser(t.Context(), accountdb.NewUser{Email: "owner@example.com", Name: "Owner"})
	must(t, err)
	token := secrets.NewSessionToken()
	_, err = w.store.Accounts.LogIn(t.Context(), user.ID, accountdb.NewLogin{TokenHash: secrets.Hash(token), ExpiresAt: time.Now().Add(time.Hour)})
	must(t, err)
	ada := w.signUp("ada@example.com")
	key, _ := w.key(ada, domain.KeyScopeOrganization)
	for who, want := range map[string]any{"Authorization: Bearer " + token: false, ada.auth: true, key: nil} {
		if a := w.do("GET", "/api/auth/session", "", who).want(t, "session", 200, ""); a.json(t, "canLogIn") != want {
			t.Errorf("canLogIn is not %v: %s", want, a.body)
		}
	}
}

func TestPages(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	ada := w.signUp("ada@example.com")
	link := func(life time.Duration) string {
		token := secrets.NewLinkToken()
		must(t, w.store.Accounts.CreateLoginLink(t.Context(), ada.id, secrets.Hash(token), time.Now().Add(life)))
		return token
	}
	page := func(what, target string, status int, location string, headers ...string) answer {
		t.Helper()
		a := w.do("GET", target, "", headers...)
		if a.status != status || a.header.Get("Location") != location {
			t.Errorf("%s: %d to %q, want %d to %q", what, a.status, a.header.Get("Location"), status, location)
		}
		if status != 303 && status != 204 && !strings.Contains(a.header.Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("%s: no content security policy", what)
		}
		return a
	}
	page("front door", "/", 303, "/dashboard")
	page("no cookie", "/dashboard", 303, "/login")
	page("stale cookie", "/dashboard", 303, "/login", "Cookie: "+auth.CookieName+"="+secrets.NewSessionToken())
	if a := page("dashboard", "/dashboard", 200, "", ada.cookie); !strings.Contains(string(a.body), ada.org) || !strings.Contains(string(a.body), "http://parley.test") {
		t.Errorf("dashboard %s", a.body)
	}
	page("login", "/login", 200, "")
	token := link(time.Hour)
	page("prefetching a link", "/login?token="+token, 204, "", "Sec-Purpose: prefetch")
	if a := w.do("HEAD", "/login?token="+token, ""); a.status != 204 || a.header.Get("Set-Cookie") != "" {
		t.Errorf("HEAD of a link: %d %v", a.status, a.header)
	}
	a := page("using a link", "/login?token="+token, 303, "/dashboard")
	cookie, _, _ := strings.Cut(a.header.Get("Set-Cookie"), ";")
	page("after the link", "/dashboard", 200, "", "Cookie: "+cookie)
	page("using it again", "/login?token="+token, 410, "")
	page("an expired link", "/login?token="+link(-time.Second), 410, "")
	page("an unknown link", "/login?token="+secrets.NewLinkToken(), 400, "")
	page("half a link", "/login?token="+token[:10], 400, "")
	page("two tokens", "/login?token="+token+"&token="+token, 400, "")
	if strings.Contains(w.log.String(), token) {
		t.Error("the log holds a login token")
	}
}

func TestCookiesAreSecureBehindTLS(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	req := httptest.NewRequestWithContext(t.Context(), "POST", "/api/auth/signup", strings.NewReader(`{"email":"a@b.c","password":"`+password+`"}`))
	req.RemoteAddr = "10.0.0.1:99"
	req.Header.Set("X-Forwarded-Proto", "https")
	req.Header.Set("Content-Type", "application/json")
	if cookie := w.send(req).header.Get("Set-Cookie"); !strings.Contains(cookie, "; Secure") {
		t.Errorf("behind a TLS proxy: %s", cookie)
	}
	w.api.https = true
	if cookie := w.do("POST", "/api/auth/signup", `{"email":"b@b.c","password":"`+password+`"}`).header.Get("Set-Cookie"); !strings.Contains(cookie, "; Secure") {
		t.Errorf("with a public https address: %s", cookie)
	}
}
