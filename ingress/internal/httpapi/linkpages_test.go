package httpapi

import (
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"parley/ingress/internal/auth"
	"parley/shared/domain"
	"parley/shared/secrets"
)

// form sends a form like a browser that shows a page of the service. The argument headers contains
// headers that replace or supplement the headers of the browser.
func (w *testEnv) form(path string, fields url.Values, headers ...string) answer {
	w.t.Helper()
	req := httptest.NewRequestWithContext(w.t.Context(), "POST", path, strings.NewReader(fields.Encode()))
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Sec-Fetch-Site", "same-origin")
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	return w.send(req)
}

// wantPage fails the test unless the response is a page with the status and the words.
func (a answer) wantPage(t *testing.T, what string, status int, words ...string) {
	t.Helper()
	if a.status != status || !strings.HasPrefix(a.header.Get("Content-Type"), "text/html") {
		t.Errorf("%s: %d %s, want a page with %d\n%s", what, a.status, a.header.Get("Content-Type"), status, a.body)
		return
	}
	for _, part := range words {
		if !strings.Contains(string(a.body), part) {
			t.Errorf("%s lacks %q\n%s", what, part, a.body)
		}
	}
}

// wantSession fails the test unless the response begins a session and redirects to the dashboard.
// It returns a header with the cookie of the session.
func (a answer) wantSession(t *testing.T, what string) string {
	t.Helper()
	if a.status != 303 || a.header.Get("Location") != "/dashboard" || a.session() == "" {
		t.Errorf("%s: %d %v\n%s", what, a.status, a.header, a.body)
	}
	return a.session()
}

func TestLoginForm(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	ada := w.signUp("ada@example.com")
	right := url.Values{"email": {ada.email}, "password": {password}}
	w.do("GET", "/login", "").wantPage(t, "page", 200, `action="/login"`, `method="post"`)
	w.form("/login", url.Values{"email": {ada.email}, "password": {"wrong"}}).wantPage(t, "wrong password", 401, `role="alert"`, "wrong.", `value="ada@example.com"`)
	w.form("/login", url.Values{"email": {`"><script>`}, "password": {"x"}}).wantPage(t, "a strange address", 401, "&lt;script&gt;")
	w.form("/login", url.Values{}).wantPage(t, "empty", 400, "Email must not be empty. Password must not be empty.")
	w.form("/login", url.Values{"email": {"a", "b"}, "password": {"x"}}).wantPage(t, "doubled", 400, "Email must be given only once.")
	w.form("/login", url.Values{"email": {"a\x00b"}, "password": {"x"}}).wantPage(t, "NUL", 400)
	w.form("/login", url.Values{"email": {strings.Repeat("x", 17<<10)}}).wantPage(t, "too much", 413)
	w.form("/login", right, "Content-Type: application/json").wantPage(t, "JSON", 415)
	w.form("/login", right, "Content-Type: text/plain").wantPage(t, "plain text", 415)
	w.form("/login", right, "Sec-Fetch-Site: cross-site").wantPage(t, "another site", 403)
	w.form("/login", right, "Sec-Fetch-Site: same-site").wantPage(t, "a sister site", 403)
	w.form("/login", right, "Sec-Fetch-Site: ", "Origin: https://evil.example").wantPage(t, "another origin, old browser", 403)
	session := w.form("/login", right, ada.cookie).wantSession(t, "logging in")
	if a := w.do("GET", "/dashboard", "", session); a.status != 200 {
		t.Errorf("dashboard: %d", a.status)
	}
	w.do("GET", "/api/auth/session", "", ada.auth).want(t, "the session before", 401, "unauthenticated")
	for range 30 {
		w.form("/login", url.Values{"email": {ada.email}, "password": {"wrong"}})
	}
	limited := w.form("/login", right)
	limited.wantPage(t, "too often", 429, "Too many wrong passwords.")
	if limited.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
}

func TestAcceptPage(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	ada := w.signUp("ada@example.com")
	invite := func(email string, role domain.Role) string {
		return w.add(ada, ada.org, email, role).want(t, "inviting", 201, "").token(t)
	}
	token := invite("new@example.com", domain.RoleAdmin)
	w.do("GET", "/accept?token="+token, "").wantPage(t, "a new person's", 200, "Join ada&#39;s organization", "an admin", "new@example.com", `autocomplete="new-password"`, `autocomplete="current-password"`)
	for name, target := range map[string]string{
		"no token": "/accept", "unknown": "/accept?token=" + secrets.NewInvitationToken(), "half": "/accept?token=pi_x",
	} {
		w.do("GET", target, "").wantPage(t, name, 404, "is no longer valid")
	}
	w.do("GET", "/accept?token="+token+"&token="+token, "").wantPage(t, "two", 400, "Token must be given only once.")
	w.do("GET", "/accept?token="+token+"&zz=1", "").wantPage(t, "an unknown parameter", 400, "Zz is not a parameter")
	fields := url.Values{"token": {token}, "name": {" "}, "password": {"short"}, "email": {"evil@example.com"}, "new": {"1"}}
	w.form("/accept", fields).wantPage(t, "short password", 400, "at least 8 characters", token)
	w.form("/accept", fields, "Sec-Fetch-Site: cross-site").wantPage(t, "another site", 403, "other origins")
	fields.Set("password", password)
	session := w.form("/accept", fields).wantSession(t, "accepting")
	s := w.do("GET", "/api/auth/session", "", session).want(t, "session", 200, "")
	if s.text(t, "user.email") != "new@example.com" || s.text(t, "user.name") != "new" || s.text(t, "organization.id") != ada.org {
		t.Errorf("session %s", s.body)
	}
	w.form("/accept", fields).wantPage(t, "accepting again", 404, "is no longer valid")

	known := invite("bea@example.com", domain.RoleMember)
	bea := w.signUp("bea@example.com")
	w.do("GET", "/accept?token="+known, "").wantPage(t, "an account's", 200, "Sign in and join", "Create account and join")
	w.do("GET", "/accept?token="+known, "", ada.cookie).wantPage(t, "another's session", 200, "Sign in and join")
	w.do("GET", "/accept?token="+known, "", bea.cookie).wantPage(t, "own session", 200, "You are signed in")
	w.do("GET", "/accept?token="+known, "", "Cookie: "+auth.CookieName+"="+secrets.NewSessionToken()).wantPage(t, "a stale session", 200, "Sign in and join")
	w.form("/accept", url.Values{"token": {known}, "password": {"wrong"}}).wantPage(t, "wrong password", 401, "wrong.")
	w.form("/accept", url.Values{"token": {known}}, bea.cookie).wantSession(t, "joining")
	taken := invite("cleo@example.com", domain.RoleMember)
	w.signUp("cleo@example.com")
	w.form("/accept", url.Values{"token": {taken}, "password": {newPassword}}).wantPage(t, "another password, without saying that it is new", 401, "wrong.")
	w.form("/accept", url.Values{"token": {taken}, "password": {newPassword}, "new": {"1"}}).wantSession(t, "taking over")
	unwanted := invite("dan@example.com", domain.RoleMember)
	w.form("/accept", url.Values{"token": {unwanted}, "decline": {"1"}}, "Sec-Fetch-Site: cross-site").wantPage(t, "another site declines", 403)
	w.form("/accept", url.Values{"token": {unwanted}, "decline": {"1"}}).wantPage(t, "declining", 200, "Invitation declined", "ada&#39;s organization")
	w.form("/accept", url.Values{"token": {unwanted}, "decline": {"1"}}).wantPage(t, "declining again", 404, "is no longer valid")
	w.do("GET", "/accept?token="+unwanted, "").wantPage(t, "a declined invitation", 404, "is no longer valid")
	if strings.Contains(w.log.String(), token) || strings.Contains(w.log.String(), password) {
		t.Error("the log holds a token or a password")
	}
}

func TestResetPage(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	ada := w.signUp("ada@example.com")
	bea := w.invited(ada, ada.org, "bea@example.com", domain.RoleMember)
	token := w.do("POST", "/api/organizations/members?action=reset&id="+bea.id, "", ada.auth).want(t, "a link", 201, "").token(t)
	w.do("GET", "/reset?token="+token, "").wantPage(t, "page", 200, "bea@example.com", token, `autocomplete="new-password"`,
		`type="email" autocomplete="username" value="bea@example.com"`)
	for name, target := range map[string]string{"no token": "/reset", "unknown": "/reset?token=" + secrets.NewResetToken(), "half": "/reset?token=pr_x"} {
		w.do("GET", target, "").wantPage(t, name, 404, "Ask for a new link")
	}
	w.do("GET", "/reset?token="+token+"&zz=1", "").wantPage(t, "an unknown parameter", 400, "Zz is not a parameter")
	w.form("/reset", url.Values{"token": {token}, "password": {"short"}}).wantPage(t, "short password", 400, "at least 8 characters", token)
	w.form("/reset", url.Values{"token": {token}, "password": {newPassword}}, "Origin: null", "Sec-Fetch-Site: ").wantPage(t, "a sandboxed page", 403)
	w.form("/reset", url.Values{"token": {token}, "password": {newPassword}}).wantSession(t, "setting")
	w.form("/reset", url.Values{"token": {token}, "password": {newPassword}}).wantPage(t, "setting again", 404, "Ask for a new link")
	w.do("POST", "/api/auth/login", `{"email":"bea@example.com","password":"`+newPassword+`"}`).want(t, "the new password", 200, "")
	if a := w.do("GET", "/reset?token="+token, ""); a.header.Get("Referrer-Policy") != "same-origin" || !strings.Contains(a.header.Get("Content-Security-Policy"), "form-action 'self'") {
		t.Errorf("headers %v", a.header)
	}
}
