package httpapi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/rs/zerolog"

	"parley/ingress/internal/httpapi/httpx"
	"parley/shared/apierr"
	"parley/shared/domain"
)

func TestRequestIDs(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	for given, kept := range map[string]bool{
		"a": true, "0af7651916cd43dd8448eb211c80319c": true, "~!{}\"": true, strings.Repeat("x", 128): true,
		strings.Repeat("x", 129): false, "a b": false, "ä": false, "a\tb": false, "\x7f": false,
	} {
		got := w.do("GET", "/api/nope", "", "X-Request-Id: "+given).requestID()
		if (got == given) != kept || len(got) == 0 || len(got) > 128 {
			t.Errorf("%q became %q", given, got)
		}
	}
	one, two := w.do("GET", "/healthz", ""), w.do("GET", "/healthz", "", "X-Request-Id: a", "X-Request-Id: b")
	if x, y := one.requestID(), two.requestID(); len(x) < 20 || len(y) < 20 || x == y {
		t.Errorf("made ids %q and %q", x, y)
	}
}

func TestTraceparent(t *testing.T) {
	t.Parallel()
	const good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for given, want := range map[string]string{
		good: good, "": "", "x": "", strings.ToUpper(good): "", "01" + good[2:]: "", good + "-x": "",
		"00-00000000000000000000000000000000-b7ad6b7169203331-01": "", "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01": "",
		"00-0af7651916cd43dd8448eb211c80319-cb7ad6b7169203331-01": "",
	} {
		req := httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)
		req.Header.Set("Traceparent", given)
		if got := traceparent(req); got != want {
			t.Errorf("%q became %q", given, got)
		}
	}
}

// bare returns a handler wrapped by the middleware observe, and the log of the middleware.
func bare(t *testing.T, handle gin.HandlerFunc) (http.Handler, *lockedBuffer) {
	t.Helper()
	log := &lockedBuffer{}
	m, err := newMetrics(nil)
	must(t, err)
	e := gin.New()
	e.Use((&api{Deps: Deps{Log: zerolog.New(log)}}).observe(m))
	e.GET("/x", handle)
	e.GET("/metrics", m.show)
	return e, log
}

func TestPanics(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]any{"string": "secret detail", "error": errors.New("secret detail")} {
		h, log := bare(t, func(*gin.Context) { panic(value) })
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), "GET", "/x", nil))
		a := answer{rec.Code, rec.Header(), rec.Body.Bytes()}.want(t, name, 500, "internal")
		if strings.Contains(string(a.body), "secret") || strings.Contains(string(a.body), ".go") {
			t.Errorf("%s: shown %s", name, a.body)
		}
		if text := log.String(); !strings.Contains(text, "secret detail") || !strings.Contains(text, "observe_test.go") || strings.Count(text, "\n") != 1 {
			t.Errorf("%s: logged %s", name, text)
		}
	}
	h, _ := bare(t, func(c *gin.Context) {
		c.String(http.StatusOK, "half of it")
		panic("late")
	})
	server := httptest.NewServer(h)
	defer server.Close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/x", nil)
	must(t, err)
	if resp, err := server.Client().Do(req); err == nil {
		_ = resp.Body.Close()
		t.Error("an incomplete response looks complete")
	}
}

// An error that occurs because the client has disconnected is not logged as an error. All other
// failures are.
func TestDisconnectedClientsAreNotErrors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err   error
		stays bool
		want  string
	}{
		"gone in a wait":         {context.Canceled, false, `"info" 499`},
		"gone in a statement":    {errors.New("pq: canceling statement due to user request"), false, `"info" 499`},
		"gone in its body":       {apierr.Wrap(apierr.InvalidRequest, io.ErrUnexpectedEOF, "the body was not received completely"), false, `"info" 499`},
		"gone from a stream":     {nil, false, `"info" 200`},
		"too slow":               {apierr.Wrap(apierr.InvalidRequest, os.ErrDeadlineExceeded, "the body was not received completely"), false, `"info" 400`},
		"cut off for others":     {apierr.New(apierr.Overloaded, "too many"), false, `"error" 503`},
		"there, and it is away":  {apierr.New(apierr.Unavailable, "away"), true, `"error" 503`},
		"there, and it is wrong": {errors.New("a fault"), true, `"error" 500`},
	} {
		ctx, leave := context.WithCancel(t.Context())
		h, log := bare(t, func(gc *gin.Context) {
			if !c.stays {
				leave()
			}
			if c.err != nil {
				httpx.Fail(gc, c.err)
			}
		})
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, "GET", "/x", nil))
		leave()
		level, status, _ := strings.Cut(c.want, " ")
		if text := log.String(); !strings.Contains(text, `"level":`+level) || !strings.Contains(text, `"status":`+status+`,`) {
			t.Errorf("%s: logged %s", name, text)
		}
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
		if !strings.Contains(rec.Body.String(), `parley_http_requests_total{method="GET",route="/x",status="`+status+`"} 1`) {
			t.Errorf("%s: counted %s", name, rec.Body)
		}
	}
	ctx, leave := context.WithCancel(t.Context())
	h, log := bare(t, func(*gin.Context) {
		leave()
		panic("a fault")
	})
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, "GET", "/x", nil))
	if text := log.String(); !strings.Contains(text, `"level":"error"`) || !strings.Contains(text, "a fault") {
		t.Errorf("a panic: logged %s", text)
	}
}

func TestLogLine(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	ada := w.signUp("ada@example.com")
	key, _ := w.key(ada, domain.KeyScopeOrganization)
	agentID := w.agent(ada, `{"name":"canary name","systemPrompt":"canary prompt"}`)
	w.do("PUT", "/api/agents?id="+agentID, `{"canary_field":"canary value"}`, key, "X-Request-Id: rid-1")
	w.do("GET", "/api/agents?q=canary+query", "", ada.cookie)
	w.do("POST", "/api/auth/login", `{"email":"canary@example.com","password":"canary password"}`)
	text := w.log.String()
	for _, want := range []string{
		`"request_id":"rid-1","method":"PUT","path":"/api/agents","status":400`, `"org_id":"` + ada.org + `"`, `"agent_id":"` + agentID + `"`, `"code":"invalid_request"`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the log lacks %s:\n%s", want, text)
		}
	}
	for _, secret := range []string{"canary", ada.token, strings.TrimPrefix(key, "X-Api-Key: "), password, ada.email} {
		if strings.Contains(text, secret) {
			t.Errorf("the log holds %q", secret)
		}
	}
	if strings.Contains(text, "healthz") {
		t.Error("health checks are logged at info")
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	w.do("GET", "/api/agents?id=x", "")
	w.do("GET", "/api/agents?id=y", "")
	w.do("MADEUP", "/some/path", "")
	text := string(w.metrics("127.0.0.1:1").want(t, "from this machine", 200, "").body)
	for _, want := range []string{
		`parley_http_requests_total{method="GET",route="/api/agents",status="401"} 2`,
		`parley_http_requests_total{method="any",route="none",status="404"} 1`,
		`parley_http_request_seconds_count{method="GET",route="/api/agents"} 2`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("metrics lack %s", want)
		}
	}
	if strings.Contains(text, "MADEUP") || strings.Contains(text, "/some/path") {
		t.Error("metrics contain values that callers invented")
	}
}

// metrics requests /metrics from an address. The header Host is localhost by default.
func (w *testEnv) metrics(from string, headers ...string) answer {
	w.t.Helper()
	req := httptest.NewRequestWithContext(w.t.Context(), "GET", "/metrics", nil)
	req.RemoteAddr, req.Host = from, "localhost:8080"
	for _, h := range headers {
		if name, value, _ := strings.Cut(h, ": "); name == "Host" {
			req.Host = value
		} else {
			req.Header.Add(name, value)
		}
	}
	return w.send(req)
}

func TestMetricsAreForOperators(t *testing.T) {
	t.Parallel()
	const token, here, proxy, elsewhere = "a token for Prometheus", "127.0.0.1:1", "10.0.0.1:1", "192.0.2.1:1"
	w := newTestEnv(t, manyRequests)
	w.api.Proxies = append(w.api.Proxies, netip.MustParsePrefix("127.0.0.9/32"))
	ada := w.signUp("ada@example.com")
	for name, c := range map[string]struct {
		from    string
		headers []string
		shown   bool // expected result if no token is configured
	}{
		"this machine":               {here, nil, true},
		"this machine, IPv6":         {"[::1]:1", nil, true},
		"this machine, by address":   {here, []string{"Host: 127.0.0.1:8080"}, true},
		"this machine, IPv6 address": {here, []string{"Host: [::1]"}, true},
		"this machine, by its name":  {here, []string{"Host: build-7:8080"}, true},
		"this machine, a subdomain":  {here, []string{"Host: parley.LOCALHOST"}, true},
		"a rebound name":             {here, []string{"Host: evil.example:8080"}, false},
		"a rebound name, no port":    {here, []string{"Host: 127.0.0.1.evil.example"}, false},
		"a rebound name, final dot":  {here, []string{"Host: evil.example."}, false},
		"another machine":            {elsewhere, nil, false},
		"a proxy":                    {proxy, nil, false},
		"for loopback, by a proxy":   {proxy, []string{"X-Forwarded-For: 127.0.0.1"}, false},
		"a trusted proxy here":       {"127.0.0.9:1", nil, false},
		"forwarded here":             {here, []string{"X-Forwarded-For: 192.0.2.1"}, false},
		"forwarded here, for itself": {here, []string{"X-Forwarded-For: 127.0.0.1"}, false},
		"forwarded here by another":  {here, []string{"Forwarded: for=192.0.2.1"}, false},
		"forwarded here, by a host":  {here, []string{"X-Forwarded-Host: parley.example.com"}, false},
		"forwarded here, by name":    {here, []string{"Via: 1.1 gate"}, false},
		"a person":                   {elsewhere, []string{ada.auth}, false},
		"an empty token":             {elsewhere, []string{"Authorization: Bearer "}, false},
	} {
		for _, setting := range []string{"", token} {
			w.api.MetricsToken = setting
			got := w.metrics(c.from, c.headers...)
			if (got.status == 200) != c.shown || got.status != 200 && got.problems(t) != "permission_denied" {
				t.Errorf("%s: %d %s", name, got.status, got.body)
			}
		}
	}
	w.metrics(elsewhere, "Authorization: Bearer "+token).want(t, "with the token", 200, "")
	w.metrics(proxy, "X-Forwarded-For: 192.0.2.1", "Authorization: Bearer "+token).want(t, "with the token, by a proxy", 200, "")
	w.metrics(elsewhere, "Authorization: Bearer "+token+"x").want(t, "with another", 403, "permission_denied")
}
