package browser

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// always is a number of failures that is larger than the number of requests in any test.
const always = 10_000

// lossyProxy is a proxy in front of the service. It answers a number of requests with status 503
// instead of forwarding them.
type lossyProxy struct {
	url    string
	server *httptest.Server

	mu    sync.Mutex
	times map[string]int // number of requests still to answer with status 503, by path prefix
}

// lossyProxy starts a proxy in front of the service. The argument times contains, by path prefix,
// the number of requests that the proxy answers with status 503.
func (s *testEnv) lossyProxy(t *testing.T, times map[string]int) *lossyProxy {
	t.Helper()
	at, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}

	proxy := &lossyProxy{times: maps.Clone(times)}
	through := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(at) }, FlushInterval: -1}
	proxy.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if proxy.losesResponse(r.URL.Path) {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		through.ServeHTTP(w, r)
	}))
	proxy.url = proxy.server.URL
	t.Cleanup(func() { proxy.server.CloseClientConnections(); proxy.server.Close() })
	return proxy
}

func (l *lossyProxy) losesResponse(path string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for prefix := range l.times {
		if strings.HasPrefix(path, prefix) && l.times[prefix] > 0 {
			l.times[prefix]--
			return true
		}
	}
	return false
}

// lose sets, by path prefix, how many of the next requests the proxy answers with status 503.
func (l *lossyProxy) lose(times map[string]int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.times = maps.Clone(times)
}

// TestListsThatDoNotLoad opens each page that shows a list, while the list's requests fail. The
// page reports the failure and does not claim that the list is empty.
func TestListsThatDoNotLoad(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	agent := a.agent(t, "Reporter", map[string]any{"model": "offline/echo"})
	hook := a.hook(t, "Issues", agent)
	a.chat(t, agent, "first", "Hello")
	a.document(t, "returns.txt", "You may return any lamp within 45 days of its delivery.\n")
	proxy := a.s.lossyProxy(t, nil)
	p := open(t).signIn(a)
	p.watch.talksTo(strings.TrimPrefix(proxy.url, "http://"))
	p.watch.expect(http.StatusServiceUnavailable)
	for _, c := range []struct{ page, lost, empty string }{
		{"/dashboard", "/api/runs", "No runs yet"},
		{"/dashboard", "/api/home", "Nothing at the moment"},
		{"/dashboard/inbox", "/api/runs", "Nothing is waiting for you"},
		{"/dashboard/agents", "/api/agents", "No agents yet"},
		{"/dashboard/agents/" + agent, "/api/sessions", "Your sessions appear here"},
		{"/dashboard/templates", "/api/agents/templates", "template doesn’t exist"},
		{"/dashboard/knowledge", "/api/knowledge", "No documents yet"},
		{"/dashboard/runs", "/api/runs", "No runs yet"},
		{"/dashboard/automations", "/api/hooks", "No webhooks yet"},
		{"/dashboard/automations", "/api/automations", "No named automation has run yet"},
		{"/dashboard/automations", "/api/agents", "Create an agent"},
		{"/dashboard/automations/new", "/api/agents", "No agents yet"},
		{"/dashboard/automations/" + hook, "/api/hooks/deliveries", "No deliveries yet"},
		{"/dashboard/org", "/api/keys", "No API keys yet"},
		{"/dashboard/org/usage", "/api/budgets", "No budgets yet"},
		{"/dashboard/org/notifications", "/api/notifications", "No endpoints yet"},
	} {
		proxy.lose(map[string]int{c.lost: always})
		p.visitURL(proxy.url + c.page)
		p.first("alert", "").sees("Try again")
		p.settled()
		if shown, err := p.in("main", "").text(); err != nil || strings.Contains(shown, c.empty) {
			t.Errorf("%s without %s: %v, text on the page = %s", c.page, c.lost, err, shortened(shown))
		}
	}
}

// TestEmptyListThatDoesNotReload opens an empty list. An event makes the page load the list again,
// and the request fails. The page then reports the failure instead of an empty list.
func TestEmptyListThatDoesNotReload(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	agent := a.agent(t, "Reporter", map[string]any{"model": "offline/echo"})
	proxy := a.s.lossyProxy(t, nil)
	p := open(t).signIn(a)
	p.watch.talksTo(strings.TrimPrefix(proxy.url, "http://"))
	p.watch.expect(http.StatusServiceUnavailable)
	for _, c := range []struct{ page, empty string }{{"/dashboard/runs", "No runs yet"}, {"/dashboard", "No runs yet"}} {
		b := a
		if c.page == "/dashboard" {
			b = signUp(t)
			agent = b.agent(t, "Reporter", map[string]any{"model": "offline/echo"})
			p.signIn(b)
		}
		proxy.lose(nil)
		p.visitURL(proxy.url + c.page)
		p.sees(c.empty)
		proxy.lose(map[string]int{"/api/runs": always})
		b.chat(t, agent, "first", "Hello")
		p.first("alert", "").sees("Try again")
		p.seesNot(c.empty)
		proxy.lose(nil)
		p.first("button", "Try again").hit()
		p.sees("echo: Hello")
	}
}

// TestLostConnection breaks the connection in the middle of an answer. The chat reports the broken
// connection until the service responds again. Then the answer continues.
func TestLostConnection(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	agent := a.agent(t, "Slow", map[string]any{"model": slowModel})
	proxy := a.s.lossyProxy(t, nil)
	p := open(t).signIn(a)
	p.watch.talksTo(strings.TrimPrefix(proxy.url, "http://"))
	p.watch.expect(http.StatusServiceUnavailable)
	p.visitURL(proxy.url + "/dashboard/agents/" + agent)
	said := numbered(90)
	p.fill("Message", "slowly "+said)
	p.press("Enter")
	turn := p.in("article", "Message: slowly…")
	turn.sees("echo: slowly w1 w2 w3")
	proxy.lose(map[string]int{"/": always})
	proxy.server.CloseClientConnections()
	turn.sees("Connection lost. Reconnecting …")
	proxy.lose(nil)
	turn.seesNot("Connection lost")
	turn.sees("echo: slowly " + said)
	if shown, err := turn.text(); err != nil || strings.Count(shown, "echo: slowly") != 1 {
		t.Errorf("the answer does not appear exactly once: %s, %v", shown, err)
	}
	p.watch.forget() // discards the faults that the test caused by closing connections
}
