package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/auth"
	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/ratelimit"
	"parley/shared/apierr"
	"parley/shared/domain"
)

func TestUnknownRoutes(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	for target, c := range map[string]struct {
		method, problems, allow string
		status                  int
	}{
		"/api/nope":                    {"GET", "not_found", "", 404},
		"/api/agents/":                 {"GET", "not_found", "", 404},
		"/API/agents":                  {"GET", "not_found", "", 404},
		"/api/agents":                  {"PATCH", "method_not_allowed", "DELETE, GET, POST, PUT", 405},
		"/api/internal/run-automation": {"GET", "method_not_allowed", "POST", 405},
		"/api/auth/login":              {"INVENT", "method_not_allowed", "POST", 405},
		"/healthz":                     {"POST", "method_not_allowed", "GET, HEAD", 405},
	} {
		a := w.do(c.method, target, "").want(t, c.method+" "+target, c.status, c.problems)
		for method := range strings.SplitSeq(c.allow, ", ") {
			if allow := a.header.Get("Allow"); !strings.Contains(allow, method) {
				t.Errorf("%s %s: Allow %s lacks %s", c.method, target, allow, method)
			}
		}
	}
}

func TestProblemShape(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	ada := w.signUp("ada@example.com")
	a := w.do("POST", "/api/agents", `{"name":"","systemPrompt":"p"}`, ada.auth, "X-Request-Id: my-id").want(t, "problem", 400, "invalid_request name:too_short")
	want := `{"type":"/docs/errors#invalid_request","title":"Invalid request","status":400,"detail":"name: must not be empty","instance":"/api/agents",` +
		`"code":"invalid_request","requestId":"my-id","retryable":false,"errors":[{"field":"name","code":"too_short","message":"must not be empty"}]}`
	if string(a.body) != want || a.requestID() != "my-id" {
		t.Errorf("problem\n%s\nwant\n%s", a.body, want)
	}
	a = w.do("GET", "/api/agents", "")
	if a.header.Get("WWW-Authenticate") == "" || !strings.HasSuffix(string(a.body), `"errors":[]}`) {
		t.Errorf("401 %v %s", a.header, a.body)
	}
}

func TestFailRendersEachCode(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err    error
		status int
		code   apierr.Code
		wait   string
	}{
		"no code":        {errors.New("pq: secret table"), 500, apierr.Internal, ""},
		"made-up code":   {apierr.New("made_up", "secret"), 500, apierr.Internal, ""},
		"wrapped":        {fmt.Errorf("reading secret: %w", apierr.New(apierr.NotFound, "x")), 404, apierr.NotFound, ""},
		"database away":  {fmt.Errorf("secret: %w", io.ErrUnexpectedEOF), 503, apierr.Unavailable, "1"},
		"overloaded":     {apierr.New(apierr.Overloaded, "x"), 503, apierr.Overloaded, "1"},
		"rate limited":   {httpx.RateLimited(2100e6, "x"), 429, apierr.RateLimited, "3"},
		"budget":         {apierr.New(apierr.BudgetExceeded, "x"), 429, apierr.BudgetExceeded, "1"},
		"key reused":     {apierr.New(apierr.IdempotencyKeyReused, "x"), 422, apierr.IdempotencyKeyReused, ""},
		"erased":         {apierr.New(apierr.Erased, "x"), 410, apierr.Erased, ""},
		"with its cause": {apierr.Wrap(apierr.Unavailable, errors.New("secret"), "x"), 503, apierr.Unavailable, "1"},
	} {
		rec := httptest.NewRecorder()
		c2, _ := gin.CreateTestContext(rec)
		c2.Request = httptest.NewRequestWithContext(t.Context(), "GET", "/api/x", nil)
		httpx.Fail(c2, c.err)
		a := answer{rec.Code, rec.Header(), rec.Body.Bytes()}
		a.want(t, name, c.status, string(c.code))
		if a.header.Get("Retry-After") != c.wait || strings.Contains(string(a.body), "secret") {
			t.Errorf("%s: Retry-After %q, body %s", name, a.header.Get("Retry-After"), a.body)
		}
		if retryable := a.json(t, "retryable"); retryable != (c.wait != "") {
			t.Errorf("%s: retryable %v", name, retryable)
		}
	}
	for code, kind := range httpx.Kinds {
		if kind.Status < 400 || kind.Title == "" {
			t.Errorf("%s is %+v", code, kind)
		}
	}
}

func TestDemoMode(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	const demo = "X-Tenant-Id: tenant_demo"
	chat := `{"sessionId":"s","message":"m"}`
	for name, c := range map[string]struct {
		method, target, body string
	}{
		"listing agents":     {"GET", "/api/agents", ""},
		"creating an agent":  {"POST", "/api/agents", smallAgent},
		"updating":           {"PUT", "/api/agents?id=x", `{}`},
		"deleting":           {"DELETE", "/api/agents?id=x", ""},
		"agent chat":         {"POST", "/api/agents?action=chat&id=ag_01h455vb4pex5vsknk084sn02q", chat},
		"chat with nothing":  {"POST", "/api/agents?action=chat", chat},
		"chat with both":     {"POST", "/api/agents?action=chat&id=x&template=tpl_support", chat},
		"keys":               {"GET", "/api/keys", ""},
		"runs":               {"GET", "/api/runs", ""},
		"session":            {"GET", "/api/auth/session", ""},
		"signing up":         {"POST", "/api/auth/signup", `{}`},
		"logging in":         {"POST", "/api/auth/login", `{}`},
		"running automation": {"POST", "/api/internal/run-automation", `{}`},
		"unknown action":     {"POST", "/api/agents?action=dance", `{}`},
	} {
		w.do(c.method, c.target, c.body, demo).want(t, name, 403, "demo_restricted")
	}
}

func TestDemoLimit(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, ratelimit.Settings{Demo: 3, User: 1000, System: 2000})
	ada := w.signUp("ada@example.com")
	const demo = "X-Tenant-Id: tenant_demo"
	get := func(from, target string, headers ...string) answer {
		req := httptest.NewRequestWithContext(t.Context(), "GET", target, nil)
		req.RemoteAddr = "10.0.0.1:1"
		req.Header.Set("X-Forwarded-For", from)
		req.Header.Set("X-Tenant-Id", "tenant_demo")
		for _, h := range headers {
			name, value, _ := strings.Cut(h, ": ")
			req.Header.Set(name, value)
		}
		return w.send(req)
	}
	a := get("198.51.100.1", "/api/agents/templates").want(t, "first", 200, "")
	if a.header.Get(httpx.HeaderPolicy) != `"demo";q=3;w=60` || a.header.Get(httpx.HeaderLimit) != `"demo";r=2;t=60` {
		t.Errorf("headers %v", a.header)
	}
	get("198.51.100.1", "/api/agents").want(t, "a refused one counts", 403, "demo_restricted")
	get("198.51.100.1", "/api/nope").want(t, "a stray one counts", 403, "demo_restricted")
	a = get("198.51.100.1", "/api/agents/templates").want(t, "fourth", 429, "rate_limited")
	after := a.header.Get("Retry-After") // time until the first request, which was sent a moment ago, leaves the window
	if seconds, err := strconv.Atoi(after); err != nil || seconds < 50 || seconds > 60 || a.header.Get(httpx.HeaderLimit) != `"demo";r=0;t=`+after || a.json(t, "retryable") != true {
		t.Errorf("headers %v", a.header)
	}
	get("198.51.100.1", "/api/agents").want(t, "also what is refused anyway", 429, "rate_limited")
	get("198.51.100.1", "/api/agents", ada.auth).want(t, "a good credential stands in", 200, "")
	get("198.51.100.1", "/api/agents", "X-Api-Key: ak_broken").want(t, "a broken one does not", 429, "rate_limited")
	get("198.51.100.2", "/api/agents/templates").want(t, "another client", 200, "")
	for n, from := range []string{"2001:db8:1:2::1", "2001:db8:1:2::2", "2001:db8:1:2:3::1"} {
		get(from, "/api/agents/templates").want(t, fmt.Sprintf("IPv6 client %d", n), 200, "")
	}
	get("2001:db8:1:2:ffff::", "/api/agents/templates").want(t, "the same IPv6 network", 429, "rate_limited")
	w.do("GET", "/api/agents/templates", "", "X-Forwarded-For: 198.51.100.1", demo).want(t, "nobody's proxy is not believed", 200, "")
	w.do("GET", "/healthz", "", demo).want(t, "health does not count", 200, "")
}

func TestUserLimit(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, ratelimit.Settings{Demo: 1, User: 4, System: 9})
	ada := w.signUp("ada@example.com")
	for n := 3; n >= 0; n-- {
		a := w.do("GET", "/api/agents", "", ada.auth).want(t, "within the limit", 200, "")
		if got := a.header.Get(httpx.HeaderLimit); !strings.HasPrefix(got, fmt.Sprintf(`"user";r=%d;t=`, n)) || a.header.Get(httpx.HeaderPolicy) != `"user";q=4;w=60` {
			t.Errorf("headers %v, want %d remaining", a.header, n)
		}
		if seconds := untilNext(t, a); seconds < 1 || seconds > 15 { // the limit admits one more request every 15 s
			t.Errorf("t=%d beside %d remaining", seconds, n)
		}
	}
	a := w.do("GET", "/api/agents", "", ada.cookie).want(t, "the cookie is the same credential", 429, "rate_limited")
	if seconds := untilNext(t, a); a.header.Get("Retry-After") != strconv.Itoa(seconds) || seconds > 15 {
		t.Errorf("headers %v", a.header)
	}
	bea := w.signUp("bea@example.com")
	w.do("GET", "/api/agents", "", bea.auth).want(t, "another credential", 200, "")
}

// untilNext returns the parameter t of the RateLimit header: the seconds until the next request is
// allowed.
func untilNext(t *testing.T, a answer) int {
	t.Helper()
	_, seconds, _ := strings.Cut(a.header.Get(httpx.HeaderLimit), ";t=")
	n, err := strconv.Atoi(seconds)
	must(t, err)
	return n
}

// With all credentials together, a person may send at most twice as many requests as with a single
// credential. The same applies to all keys of an organization. Other callers are not affected.
func TestKeysDoNotMultiplyTheLimit(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	ada, victim := w.signUp("ada@example.com"), w.signUp("bea@example.com")
	credentials := map[domain.KeyScope][]string{domain.KeyScopeUser: {ada.auth}}
	for range 5 {
		for _, scope := range []domain.KeyScope{domain.KeyScopeUser, domain.KeyScopeOrganization} {
			key, _ := w.key(ada, scope)
			credentials[scope] = append(credentials[scope], key)
		}
	}
	const one, total, victims = 20, 40, 15
	limits, err := ratelimit.New(&countingLimiter{used: map[string]int{}}, ratelimit.Settings{Demo: 1, User: one, System: 1000})
	must(t, err)
	w.rebuild(func(d *Deps) { d.Limits = limits })
	for scope, all := range credentials {
		passed := 0
		for n := range 5 * one {
			a := w.do("GET", "/api/agents", "", all[n%len(all)], "X-Organization-Id: "+ada.org)
			if a.status == 200 {
				passed++
			} else {
				a.want(t, "over the limit", 429, "rate_limited")
				if got := a.header.Get(httpx.HeaderPolicy); got != `"user-total";q=40;w=60` || a.header.Get("Retry-After") == "" {
					t.Errorf("the refusal shows %q", got)
				}
			}
		}
		if passed != total {
			t.Errorf("%s: %d requests passed, want %d", scope, passed, total)
		}
	}
	for range victims {
		w.do("GET", "/api/agents", "", victim.auth).want(t, "somebody else's", 200, "")
	}
}

func TestCrossOriginWrites(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	ada := w.signUp("ada@example.com")
	key, _ := w.key(ada, domain.KeyScopeOrganization)
	for name, c := range map[string]struct {
		headers []string
		status  int
	}{
		"cookie, no browser":        {[]string{ada.cookie}, 201},
		"cookie, own page":          {[]string{ada.cookie, "Sec-Fetch-Site: same-origin", "Origin: http://parley.test"}, 201},
		"cookie, public address":    {[]string{ada.cookie, "Origin: http://parley.test"}, 201},
		"cookie, other site":        {[]string{ada.cookie, "Sec-Fetch-Site: cross-site", "Origin: https://evil.test"}, 403},
		"cookie, sibling":           {[]string{ada.cookie, "Sec-Fetch-Site: same-site", "Origin: https://x.parley.test"}, 403},
		"cookie, old browser":       {[]string{ada.cookie, "Origin: https://evil.test"}, 403},
		"cookie, sandboxed page":    {[]string{ada.cookie, "Origin: null"}, 403},
		"key from a page":           {[]string{key, "Sec-Fetch-Site: cross-site", "Origin: https://evil.test"}, 201},
		"bearer from another page":  {[]string{ada.auth, "Origin: https://evil.test"}, 201},
		"nobody from a page":        {[]string{"Origin: https://evil.test"}, 401},
		"key beside cookie, a page": {[]string{ada.cookie, key, "Origin: https://evil.test"}, 201},
	} {
		a := w.do("POST", "/api/agents", smallAgent, c.headers...)
		if a.status != c.status || c.status == 403 && a.problems(t) != "permission_denied" {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	w.do("POST", "/api/auth/login", `{"email":"x","password":"y"}`, "Sec-Fetch-Site: cross-site").want(t, "login from another site", 403, "permission_denied")
	w.do("POST", "/api/auth/logout", "", ada.cookie, "Sec-Fetch-Site: cross-site").want(t, "logout from another site", 403, "permission_denied")
	w.do("GET", "/api/agents", "", ada.cookie, "Sec-Fetch-Site: cross-site").want(t, "reading", 200, "")
}

func TestRunAutomationGate(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	ada := w.signUp("ada@example.com")
	key, _ := w.key(ada, domain.KeyScopeOrganization)
	const body = `{"target":"ag_x","input":{"message":"m"}}`
	for name, c := range map[string]struct {
		headers  []string
		status   int
		problems string
	}{
		"nothing":     {nil, 401, "api_key_required"},
		"cookie":      {[]string{ada.cookie}, 401, "api_key_required"},
		"bearer":      {[]string{ada.auth}, 401, "api_key_required"},
		"broken key":  {[]string{"X-Api-Key: ak_1"}, 401, "unauthenticated"},
		"page":        {[]string{key, "Origin: http://parley.test"}, 403, "server_to_server_only"},
		"tab":         {[]string{key, "Sec-Fetch-Site: same-origin"}, 403, "server_to_server_only"},
		"demo":        {[]string{"X-Tenant-Id: tenant_demo"}, 403, "demo_restricted"},
		"demo cookie": {[]string{"X-Tenant-Id: tenant_demo", ada.cookie}, 401, "api_key_required"},
	} {
		w.do("POST", "/api/internal/run-automation", body, c.headers...).want(t, name, c.status, c.problems)
	}
}

func TestEveryRouteIsGated(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	for _, r := range w.api.routes() {
		target := r.Path
		if r.Action != "" && r.Action != "*" {
			target += "?action=" + r.Action
		}
		a := w.do(r.Method, target, `{}`)
		switch r.Need {
		case auth.NeedUser, auth.NeedDemo, auth.NeedUpload, auth.NeedVisitor, auth.NeedVoice:
			a.want(t, r.Method+" "+target, 401, "unauthenticated")
		case auth.NeedKey, auth.NeedUserKey:
			a.want(t, r.Method+" "+target, 401, "api_key_required")
		case auth.NeedPublic, auth.NeedNobody, auth.NeedPage:
			if a.status == http.StatusUnauthorized {
				t.Errorf("%s %s asks for a credential", r.Method, target)
			}
		}
		for _, bad := range []string{"X-Api-Key: ", "X-Tenant-Id: ", "Authorization: Bearer a,b", "X-Organization-Id: "} {
			if a := w.do(r.Method, target, `{}`, bad); a.status != 400 {
				t.Errorf("%s %s with %q: %d %s", r.Method, target, bad, a.status, a.body)
			}
		}
	}
}

func TestGateWithoutDatabase(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	ada := w.signUp("ada@example.com")
	must(t, w.store.Close())
	for name, headers := range map[string][]string{"session": {ada.auth}, "demo": {"X-Tenant-Id: tenant_demo"}} {
		if a := w.do("GET", "/api/agents/templates?limit=1", "", headers...); a.status < 500 {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	if a := w.do("GET", "/readyz", ""); a.status != 503 || a.text(t, "checks.postgres") != "failing" {
		t.Errorf("readyz %d %s", a.status, a.body)
	}
}

func TestReadiness(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	if a := w.do("GET", "/readyz", ""); a.status != 200 || string(a.body) != `{"status":"ready","checks":{"postgres":"ok"}}` {
		t.Errorf("readyz %d %s", a.status, a.body)
	}
	w.api.checks = cachedChecks{} // the checks are repeated at the next request
	w.api.Checks["nats"] = func(context.Context) error { return errors.New("secret host is down") }
	if a := w.do("GET", "/readyz", ""); a.status != 503 || a.text(t, "checks.nats") != "failing" || strings.Contains(string(a.body), "secret") {
		t.Errorf("readyz with a failing check %d %s", a.status, a.body)
	}
	delete(w.api.Checks, "nats")
	w.api.checks = cachedChecks{}
	w.rebuild(func(d *Deps) { d.Draining = func() bool { return true } })
	if a := w.do("GET", "/readyz", ""); a.status != 503 || a.text(t, "status") != "draining" {
		t.Errorf("readyz while draining %d %s", a.status, a.body)
	}
	w.do("GET", "/healthz", "").want(t, "healthz while draining", 200, "")
}
