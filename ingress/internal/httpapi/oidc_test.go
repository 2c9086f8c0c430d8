package httpapi

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"parley/ingress/internal/auth"
	"parley/ingress/internal/httpapi/account"
	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/openapi/openapitest"
	"parley/ingress/internal/openid"
	"parley/shared/apierr"
)

// browser logs a person in at the provider step by step. A test can make each step fail.
type browser struct {
	w *testEnv
	p *openIDProvider

	headers  []string // headers of requests to the service
	cookie   string   // cookie of the login in progress
	takeOver bool     // whether the request that begins a login has the parameter takeover
}

func (w *testEnv) useProvider(p *openIDProvider) {
	w.rebuild(func(d *Deps) {
		d.OpenID = openid.Settings{Issuer: p.URL, ClientID: "parley", ClientSecret: clientSecret}
	})
}

func newBrowser(t *testing.T, email string) *browser {
	t.Helper()
	b := &browser{w: newTestEnv(t, manyRequests), p: newOpenIDProvider(t)}
	b.w.useProvider(b.p)
	b.is("sub-1", email)
	return b
}

// is makes a person the user of the browser. The provider logs this person in.
func (b *browser) is(subject, email string) {
	b.p.set(func() {
		b.p.claims = map[string]any{"sub": subject, "email": email, "email_verified": true, "name": "Grace"}
	})
}

// begin begins a login, logs the person in at the provider, and returns the path and query of the
// callback to which the provider redirects the browser.
func (b *browser) begin(t *testing.T, next string) string {
	t.Helper()
	target := account.OIDCPath
	if next != "" {
		target += "?next=" + url.QueryEscape(next)
	} else if b.takeOver {
		target += "?takeover=1"
	}
	a := b.w.do("GET", target, "", b.headers...)
	if a.status != http.StatusSeeOther || !strings.HasPrefix(a.header.Get("Location"), b.p.URL+"/authorize?") {
		t.Fatalf("beginning: %d %s %s", a.status, a.header, a.body)
	}
	cookie := a.header.Get("Set-Cookie")
	for _, part := range []string{"HttpOnly", "SameSite=Lax", "Path=" + account.OIDCPath, "Max-Age=600"} {
		if !strings.Contains(cookie, part) {
			t.Errorf("attempt's cookie lacks %s: %s", part, cookie)
		}
	}
	b.cookie, _, _ = strings.Cut(cookie, ";")
	if strings.Contains(cookie, "nonce") || strings.Contains(cookie, "verifier") {
		t.Errorf("attempt's cookie is not sealed: %s", cookie)
	}
	return b.visit(t, a.header.Get("Location"))
}

// visit logs the person in at the provider. It returns the path and query of the callback.
func (b *browser) visit(t *testing.T, address string) string {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	must(t, err)
	res, err := client.Do(req)
	must(t, err)
	must(t, res.Body.Close())
	back := res.Header.Get("Location")
	path, ours := strings.CutPrefix(back, b.w.api.PublicURL)
	if !ours || !strings.HasPrefix(path, account.OIDCPath+"/callback?") {
		t.Fatalf("the provider sends the browser to %q", back)
	}
	return path
}

// back sends the callback request to the service.
func (b *browser) back(path string) answer {
	headers := b.headers
	if b.cookie != "" {
		cookies := b.cookie
		for _, h := range headers {
			if value, is := strings.CutPrefix(h, "Cookie: "); is {
				cookies += "; " + value
			}
		}
		headers = []string{"Cookie: " + cookies}
	}
	return b.w.do("GET", path, "", headers...)
}

// session returns a header with the cookie of the session that the response has begun, or "" if it
// has begun none.
func (a answer) session() string {
	for _, cookie := range a.header["Set-Cookie"] {
		if value, _, _ := strings.Cut(cookie, ";"); strings.HasPrefix(value, auth.CookieName+"=ps_") {
			return "Cookie: " + value
		}
	}
	return ""
}

// page sends a request like a browser that follows a link. The response must be a page, even for an
// error.
func (w *testEnv) page(t *testing.T, target string, headers ...string) answer {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, target, nil)
	req.Header.Set("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Add(name, value)
	}
	rec := openapitest.Serve(t, w.handler, req)
	if !strings.HasPrefix(rec.Header().Get("Content-Type"), "text/html") || rec.Header().Get("Content-Security-Policy") == "" {
		t.Errorf("%s: no page: %s", target, rec.Header())
	}
	return answer{rec.Code, rec.Header(), rec.Body.Bytes()}
}

func TestOpenIDMakesPeople(t *testing.T) {
	t.Parallel()
	b := newBrowser(t, "grace@example.com")
	path := b.begin(t, "/dashboard?tab=keys")
	a := b.back(path)
	if a.status != http.StatusSeeOther || a.header.Get("Location") != "/dashboard?tab=keys" || a.session() == "" {
		t.Fatalf("coming back: %d %v %s", a.status, a.header, a.body)
	}
	if cookies := strings.Join(a.header["Set-Cookie"], "\n"); !strings.Contains(cookies, account.AttemptName+"=; Path="+account.OIDCPath+"; Max-Age=0") {
		t.Errorf("the attempt's cookie stays: %s", cookies)
	}
	s := b.w.do("GET", "/api/auth/session", "", a.session()).want(t, "session", 200, "")
	if s.text(t, "user.email") != "grace@example.com" || s.text(t, "user.name") != "Grace" || s.text(t, "caller.role") != "owner" || s.json(t, "canLogIn") != true {
		t.Errorf("session %s", s.body)
	}
	user := s.text(t, "user.id")
	replayed := b.back(path)
	replayed.want(t, "the callback again, with its cookie", 401, "unauthenticated")
	if replayed.session() != "" || !strings.Contains(b.w.log.String(), "invalid_grant") {
		t.Error("a replayed callback logs in")
	}
	// The subject identifies the person, even after their email address has changed.
	b.is("sub-1", "renamed@example.com")
	again := b.back(b.begin(t, ""))
	if again.header.Get("Location") != "/dashboard" {
		t.Errorf("without a path to go to: %v", again.header)
	}
	if got := b.w.do("GET", "/api/auth/session", "", again.session()).text(t, "user.id"); got != user {
		t.Errorf("the same subject is %s, not %s", got, user)
	}
	b.w.do("POST", "/api/auth/login", `{"email":"grace@example.com","password":"`+password+`"}`).want(t, "no password", 401, "unauthenticated")
	b.w.rebuild(func(d *Deps) { d.OpenID = openid.Settings{} })
	if s := b.w.do("GET", "/api/auth/session", "", again.session()); s.json(t, "canLogIn") != false {
		t.Errorf("session without the provider: %s", s.body)
	}
	if b.p.calls["/.well-known/openid-configuration"] != 1 {
		t.Errorf("the provider was discovered %d times", b.p.calls["/.well-known/openid-configuration"])
	}
	for _, secret := range []string{b.cookie, clientSecret, strings.TrimPrefix(a.session(), "Cookie: ")} {
		if strings.Contains(b.w.log.String(), secret) {
			t.Errorf("the log holds %q", secret)
		}
	}
}

func TestOpenIDRefuses(t *testing.T) {
	t.Parallel()
	bent := func(change func(map[string]any)) func(*browser) {
		return func(b *browser) { b.p.set(func() { b.p.bend = change }) }
	}
	claim := func(name string, value any) func(*browser) {
		return bent(func(claims map[string]any) { claims[name] = value })
	}
	for name, c := range map[string]struct {
		bend     func(*browser)
		path     func(string) string // changes the path of the callback
		problems string
		status   int
		cause    string // cause of the error in the log
	}{
		"wrong nonce":              {bend: claim("nonce", "another"), problems: "unauthenticated", status: 401, cause: "belongs to another login attempt"},
		"no nonce":                 {bend: bent(func(claims map[string]any) { delete(claims, "nonce") }), problems: "unauthenticated", status: 401, cause: "belongs to another login attempt"},
		"another audience":         {bend: claim("aud", "another"), problems: "unauthenticated", status: 401, cause: "expected audience"},
		"another issuer":           {bend: claim("iss", "https://another.example.com"), problems: "unauthenticated", status: 401, cause: "issued by a different provider"},
		"expired token":            {bend: claim("exp", 1_700_000_000), problems: "unauthenticated", status: 401, cause: "token is expired"},
		"alg none":                 {bend: func(b *browser) { b.p.set(func() { b.p.alg = "none" }) }, problems: "unauthenticated", status: 401, cause: "malformed jwt"},
		"alg HS256":                {bend: func(b *browser) { b.p.set(func() { b.p.alg = "HS256" }) }, problems: "unauthenticated", status: 401, cause: "malformed jwt"},
		"another access token":     {bend: claim("at_hash", "AAAAAAAAAAAAAAAAAAAAAA"), problems: "unauthenticated", status: 401, cause: "verifying access token"},
		"unverified":               {bend: claim("email_verified", false), problems: "permission_denied", status: 403},
		"verified by nobody":       {bend: bent(func(claims map[string]any) { delete(claims, "email_verified") }), problems: "permission_denied", status: 403},
		"no address":               {bend: claim("email", "not an address"), problems: "permission_denied", status: 403},
		"wrong state":              {path: func(s string) string { return s + "x" }, problems: "invalid_request state:invalid_value", status: 400},
		"two states":               {path: func(s string) string { return s + "&state=x" }, problems: "invalid_request state:invalid_value", status: 400},
		"no state":                 {path: func(string) string { return account.OIDCPath + "/callback?code=x" }, problems: "invalid_request state:invalid_value", status: 400},
		"no code":                  {path: func(s string) string { return strings.Replace(s, "code=", "cod=", 1) }, problems: "invalid_request code:required", status: 400},
		"invented code":            {path: func(s string) string { return strings.Replace(s, "code=", "code=x", 1) }, problems: "unauthenticated", status: 401, cause: "invalid_grant"},
		"the provider says no":     {path: func(s string) string { return s + "&error=access_denied" }, problems: "unauthenticated", status: 401},
		"no cookie":                {bend: func(b *browser) { b.headers = []string{"X-Other: 1"} }, problems: "invalid_request state:invalid_value", status: 400},
		"the provider breaks down": {bend: func(b *browser) { b.p.set(func() { b.p.down = true }) }, problems: "unavailable", status: 503, cause: "status 502"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBrowser(t, "grace@example.com")
			path := b.begin(t, "")
			if c.bend != nil {
				c.bend(b)
			}
			if c.path != nil {
				path = c.path(path)
			}
			if b.headers != nil {
				b.cookie = ""
			}
			a := b.back(path).want(t, name, c.status, c.problems)
			if !strings.Contains(b.w.log.String(), c.cause) {
				t.Errorf("refused for another reason than %q: %s", c.cause, b.w.log.String())
			}
			if a.session() != "" {
				t.Error("a session began")
			}
			if _, _, err := b.w.store.Accounts.UserByEmail(t.Context(), "grace@example.com"); apierr.CodeFor(err) != apierr.NotFound {
				t.Errorf("a person was made: %v", err)
			}
		})
	}
}

// The name of a new account from the provider follows the same rules as names in request bodies. It
// contains no hidden characters.
func TestOpenIDNamesHaveNoHiddenCharacters(t *testing.T) {
	t.Parallel()
	b := newBrowser(t, "")
	number := 0
	for given, want := range map[string]string{
		"Grace": "Grace", "Grace\u00a0Hopper": "Grace Hopper", "Grace\t": "Grace", "Gr\u3164ace\u2800": "Grace", "G\u202erace\ufe0f": "Grace", "Grace\x00\n": "Grace",
		"می\u200cخواهم": "می\u200cخواهم", "👩\u200d🔬": "👩\u200d🔬", "\u3164": "local", "\u3000": "local", "": "local",
		strings.Repeat("x", httpx.MaxName) + "y": strings.Repeat("x", httpx.MaxName),
	} {
		number++
		b.p.set(func() {
			b.p.claims = map[string]any{
				"sub": "sub-" + strconv.Itoa(number), "email": "local@" + strconv.Itoa(number) + ".example.com", "email_verified": true, "name": given,
			}
		})
		session := b.back(b.begin(t, "")).session()
		name := b.w.do("GET", "/api/auth/session", "", session).want(t, given, 200, "").text(t, "user.name")
		if name != want {
			t.Errorf("%+q became %+q, want %+q", given, name, want)
		}
	}
}

func TestOpenIDAttemptsBelongToOneBrowser(t *testing.T) {
	t.Parallel()
	b := newBrowser(t, "grace@example.com")
	victim := b.begin(t, "")
	victims := b.cookie
	attackers := b.begin(t, "")
	b.cookie = victims
	b.back(attackers).want(t, "another browser's code and state", 400, "invalid_request state:invalid_value")
	_, state, _ := strings.Cut(victim, "&")
	code, _, _ := strings.Cut(attackers, "&")
	b.back(code+"&"+state).want(t, "another browser's code", 401, "unauthenticated")
	b.cookie = account.AttemptName + "=" + b.w.api.Secrets.Seal(`{"state":"s"}`, "another place")
	b.back(account.OIDCPath+"/callback?code=x&state=s").want(t, "a cookie sealed for another place", 400, "invalid_request state:invalid_value")
	b.cookie = account.AttemptName + "=" + b.w.api.Secrets.Seal(`{"state":"s","until":"2020-01-01T00:00:00Z"}`, account.AttemptSeal)
	b.back(account.OIDCPath+"/callback?code=x&state=s").want(t, "an attempt of long ago", 400, "invalid_request state:invalid_value")
	b.cookie = account.AttemptName + "=" + b.w.api.Secrets.Seal(`{"state":"","until":"2999-01-01T00:00:00Z"}`, account.AttemptSeal)
	b.back(account.OIDCPath+"/callback?code=x&state=").want(t, "an empty state", 400, "invalid_request state:invalid_value")
}

func TestOpenIDAndAccounts(t *testing.T) {
	t.Parallel()
	b := newBrowser(t, "ADA@example.com")
	ada, bea := b.w.signUp("ada@example.com"), b.w.signUp("bea@example.com")
	b.w.do("POST", "/api/agents", agentBody, ada.auth).want(t, "an account in use", 201, "")
	taken := b.back(b.begin(t, "")).want(t, "an address with an account", 409, "email_taken")
	if taken.session() != "" {
		t.Error("a session began")
	}
	b.headers = []string{bea.cookie}
	b.back(b.begin(t, "")).want(t, "logged in as somebody else", 409, "email_taken")
	b.headers = nil
	path := b.begin(t, "")
	page := b.w.page(t, path, "Cookie: "+b.cookie)
	if page.status != 409 || !strings.Contains(string(page.body), "email address already exists") || !strings.Contains(string(page.body), "takeover=1") {
		t.Errorf("to a browser: %d %s", page.status, page.body)
	}
	b.headers = []string{ada.cookie}
	linked := b.back(b.begin(t, ""))
	if linked.status != http.StatusSeeOther || linked.session() == "" {
		t.Fatalf("linking: %d %s", linked.status, linked.body)
	}
	b.w.do("GET", "/api/auth/session", "", ada.auth).want(t, "the session before", 401, "unauthenticated")
	b.headers = nil
	a := b.back(b.begin(t, ""))
	if got := b.w.do("GET", "/api/auth/session", "", a.session()).want(t, "by identity", 200, "").text(t, "user.id"); got != ada.id {
		t.Errorf("the linked identity is %s", got)
	}
	b.is("sub-2", "ada@example.com")
	b.back(b.begin(t, "")).want(t, "another subject of the address", 409, "email_taken")
	path = b.begin(t, "")
	if page := b.w.page(t, path, "Cookie: "+b.cookie); page.status != 409 || strings.Contains(string(page.body), "takeover=1") {
		t.Errorf("a page offers to take a proven address over: %d %s", page.status, page.body)
	}
	b.takeOver = true
	b.back(b.begin(t, "")).want(t, "another subject that takes over", 409, "email_taken")
}

// TestOpenIDTakesAddressesOver checks that a person for whom the provider has verified an email
// address can take the address over from an account that has not verified the address.
func TestOpenIDTakesAddressesOver(t *testing.T) {
	t.Parallel()
	b := newBrowser(t, "cfo@example.com")
	squatter := b.w.signUp("cfo@example.com")
	b.back(b.begin(t, "")).want(t, "without saying so", 409, "email_taken")
	b.takeOver = true
	first := b.back(b.begin(t, ""))
	if first.status != http.StatusSeeOther {
		t.Fatalf("taking over an account without resources: %d %s", first.status, first.body)
	}
	b.takeOver = false
	b.w.wantKept(squatter)
	person := b.w.do("GET", "/api/auth/session", "", first.session()).want(t, "session", 200, "")
	if person.text(t, "user.id") == squatter.id || person.text(t, "organization.id") == squatter.org || person.json(t, "organizations.1") != nil {
		t.Errorf("the person is %s", person.body)
	}

	dan := b.w.signUp("dan@example.com")
	b.w.do("POST", "/api/agents", agentBody, dan.auth).want(t, "an account in use", 201, "")
	b.is("sub-2", "dan@example.com")
	b.back(b.begin(t, "")).want(t, "without saying so", 409, "email_taken")
	b.takeOver = true
	b.w.do("GET", account.OIDCPath+"?takeover=1", "", "Sec-Fetch-Site: cross-site").want(t, "another site says so", 403, "permission_denied")
	b.w.do("GET", account.OIDCPath+"?takeover=yes", "").want(t, "a wrong value", 400, "invalid_request takeover:invalid_value")
	second := b.back(b.begin(t, ""))
	if second.status != http.StatusSeeOther {
		t.Fatalf("taking over an account in use: %d %s", second.status, second.body)
	}
	if s := b.w.do("GET", "/api/auth/session", "", second.session()).want(t, "session", 200, ""); s.text(t, "user.id") == dan.id || s.text(t, "organization.id") == dan.org {
		t.Errorf("the person is %s", s.body)
	}
	b.w.do("GET", "/api/agents", "", dan.auth).want(t, "the account before keeps what it has", 200, "")
	b.w.loginFrom("dan@example.com", password, home).want(t, "and its password", 200, "")
}

// TestOpenIDSignupsAreBounded checks that the first login of an identity, which creates an account,
// counts as a sign-up. Later logins do not count.
func TestOpenIDSignupsAreBounded(t *testing.T) {
	t.Parallel()
	b := newBrowser(t, "ada@example.com")
	ada := b.w.signUp("ada@example.com")
	b.w.rebuild(func(d *Deps) { d.SignupsPerAddress = 1 })
	logIn := func(what string, want int) {
		t.Helper()
		if a := b.back(b.begin(t, "")); a.status != want {
			t.Errorf("%s: %d %s", what, a.status, a.body)
		}
	}
	b.headers = []string{ada.cookie}
	logIn("linking makes no account", http.StatusSeeOther)
	b.headers = nil
	b.is("sub-2", "bea@example.com")
	logIn("a first account", http.StatusSeeOther)
	b.is("sub-3", "cleo@example.com")
	logIn("one more", http.StatusTooManyRequests)
	b.is("sub-2", "bea@example.com")
	logIn("an identity that has an account", http.StatusSeeOther)
}

func TestOpenIDAsksForTheAddress(t *testing.T) {
	t.Parallel()
	b := newBrowser(t, "")
	b.p.set(func() {
		b.p.info = map[string]any{"sub": "sub-1", "email": "grace@example.com", "email_verified": "true"}
	})
	if a := b.back(b.begin(t, "")); a.status != http.StatusSeeOther {
		t.Errorf("address of userinfo: %d %s", a.status, a.body)
	}
	b.is("sub-2", "")
	b.p.set(func() { b.p.info["sub"] = "sub-1" })
	b.back(b.begin(t, "")).want(t, "another subject's address", 401, "unauthenticated")
}

func TestOpenIDProviderMayBeUnreachable(t *testing.T) {
	t.Parallel()
	w, p := newTestEnv(t, manyRequests), newOpenIDProvider(t)
	w.do("GET", account.OIDCPath, "").want(t, "not set up", 404, "not_found")
	w.do("GET", account.OIDCPath+"/callback?code=x&state=y", "").want(t, "not set up, callback", 404, "not_found")
	p.set(func() { p.down = true })
	w.useProvider(p)
	a := w.do("GET", account.OIDCPath, "").want(t, "away", 503, "unavailable")
	if a.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	page := w.page(t, account.OIDCPath)
	if page.status != 503 || page.header.Get("Retry-After") == "" || !strings.Contains(string(page.body), "is unreachable") {
		t.Errorf("to a browser: %d %s", page.status, page.body)
	}
	if n := p.calls["/.well-known/openid-configuration"]; n != 1 {
		t.Errorf("an unreachable provider got %d requests within the pause", n)
	}
	p.set(func() { p.down = false })
	w.useProvider(p) // a new API does not wait after the provider's failure; package openid tests the wait
	if a := w.do("GET", account.OIDCPath, ""); a.status != http.StatusSeeOther {
		t.Errorf("back again: %d %s", a.status, a.body)
	}
}

func TestWhereOpenIDMaySendBrowsers(t *testing.T) {
	t.Parallel()
	b := newBrowser(t, "grace@example.com")
	for next, ok := range map[string]bool{
		"/dashboard": true, "/dashboard/agents?x=1#y": true, "/": true,
		"": false, "dashboard": false, "//evil.example": false, "/\\evil.example": false, "\\\\evil.example": false,
		"https://evil.example/": false, "javascript:alert(1)": false, "/\tx": false, "/%0d%0aSet-Cookie:x": true, "/a b": false,
		"///evil.example": false, "/" + strings.Repeat("x", 600): false, "http:/evil.example": false, "/ä": false,
	} {
		a := b.w.do("GET", account.OIDCPath+"?next="+url.QueryEscape(next), "")
		if ok != (a.status == http.StatusSeeOther) || !ok && a.problems(t) != "invalid_request next:invalid_value" {
			t.Errorf("%q: %d %s", next, a.status, a.body)
		}
	}
	b.w.do("GET", account.OIDCPath+"?next=/&next=/", "").want(t, "two", 400, "invalid_request next:duplicate")
	req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, account.OIDCPath, nil)
	req.RemoteAddr = "10.0.0.1:99"
	req.Header.Set("X-Forwarded-Proto", "https")
	if cookie := b.w.send(req).header.Get("Set-Cookie"); !strings.Contains(cookie, "; Secure") {
		t.Errorf("behind TLS: %s", cookie)
	}
}
