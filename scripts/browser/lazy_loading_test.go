package browser

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// lossyProxy returns the address of a proxy that loses responses. times contains, per path prefix, how many requests get 503.
func (s *testEnv) lossyProxy(t *testing.T, times map[string]int) (address string) {
	t.Helper()
	at, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}

	var mu sync.Mutex
	lost := func(path string) bool {
		mu.Lock()
		defer mu.Unlock()
		for prefix := range times {
			if strings.HasPrefix(path, prefix) && times[prefix] > 0 {
				times[prefix]--
				return true
			}
		}
		return false
	}

	through := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(at) }, FlushInterval: -1}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if lost(r.URL.Path) {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		through.ServeHTTP(w, r)
	}))

	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	return server.URL
}

// TestLater opens pages whose code fails to load at first. The pages report the failure, the rest of the dashboard works, and
// the next use loads the code again.
func TestLater(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	// The proxy ends when the page that uses it is closed.
	away := a.s.lossyProxy(t, map[string]int{"/assets/administration-": 2, "/dashboard/org": 1})
	p := open(t).signIn(a)
	p.watch.talksTo(strings.TrimPrefix(away, "http://"))
	p.watch.expect(http.StatusServiceUnavailable)
	p.visitURL(away + "/dashboard/automations")
	p.is("heading", "Couldn't load this page")
	p.sees("Part of the dashboard couldn't be loaded")
	p.inspect("later")
	p.click("link", "Agents")
	p.is("heading", "Agents")
	p.visitURL(away + "/dashboard")
	p.click("link", "Organization")
	p.is("heading", "Couldn't load this page")
	p.click("button", "Try again")
	p.sees("Still couldn't load")
	p.click("button", "Try again")
	p.reloaded()
	p.is("heading", "Organization")
	p.isNot("button", "Try again")
}

// TestListsThatDoNotLoad opens pages whose list of agents does not load. They report the failure and do not say that there are
// no agents.
func TestListsThatDoNotLoad(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	a.agent(t, "Reporter", nil)
	for _, path := range []string{"/dashboard/automations/new", "/dashboard/automations"} {
		away := a.s.lossyProxy(t, map[string]int{"/api/agents": 2}) // agents, and templates where the page needs them
		p := open(t).signIn(a)
		p.watch.talksTo(strings.TrimPrefix(away, "http://"))
		p.watch.expect(http.StatusServiceUnavailable)
		p.visitURL(away + path)
		p.in("alert", "").sees("Try again")
		if p.has("heading", "No agents yet") || p.has("link", "Create an agent") {
			t.Errorf("%s says that there are no agents", path)
		}
	}
}
