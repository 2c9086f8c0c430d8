package browser

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
)

// without is the service as one sees it whose network loses answers: so many requests beneath a path are answered 503.
func (s *stage) without(t *testing.T, path string, times int64) (address string) {
	t.Helper()
	at, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	var lost atomic.Int64
	through := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(at) }, FlushInterval: -1}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, path) && lost.Add(1) <= times {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		through.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	return server.URL
}

// TestLater opens a page whose code does not come at first: the page says so, and brings it once somebody asks again.
func TestLater(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	p := open(t).signIn(a)
	away := a.s.without(t, "/assets/administration-", 2)
	p.watch.talksTo(strings.TrimPrefix(away, "http://"))
	p.watch.expect(http.StatusServiceUnavailable)
	p.visitURL(away + "/dashboard/org")
	p.is("heading", "This page did not come")
	p.sees("A part of the dashboard could not be loaded")
	p.inspect("later")
	p.click("button", "Try again")
	p.sees("It did not come this time either")
	p.click("link", "Agents") // the rest goes on without it
	p.is("heading", "Agents")
	p.click("link", "Organization")
	p.is("heading", "Organization")
	p.isNot("button", "Try again")

	away = a.s.without(t, "/assets/administration-", 1)
	p.watch.talksTo(strings.TrimPrefix(away, "http://"))
	p.visitURL(away + "/dashboard/automations")
	p.click("button", "Try again")
	p.is("heading", "Automations")
	p.focusIs("main", "…")
	p.click("link", "Organization") // comes with it
	p.is("heading", "Organization")
}
