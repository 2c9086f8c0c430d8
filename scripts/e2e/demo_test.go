package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/shared/store"
	"parley/shared/templates"
)

const (
	demoLimit    = 10 // requests per visitor in 60 s
	demoWindow   = time.Minute
	demoTemplate = "tpl_writer" // has no tools, so its answers depend only on the session

	// The service trusts X-Forwarded-For from proxyAddress, but not from strangerAddress. Both addresses belong to this machine.
	proxyAddress    = "127.0.0.1"
	strangerAddress = "127.0.0.2"
)

// demoCluster starts two ingresses behind one trusted proxy, and a worker with the offline model.
func demoCluster(t *testing.T) (first, second *edge) {
	t.Helper()
	c := newCluster(t, "TRUSTED_PROXIES="+proxyAddress+"/32", "DEFAULT_MODEL=offline")
	st, err := store.OpenOwner(c.postgres.DSN(), 1)
	if err != nil {
		t.Fatal(err)
	}
	// `parley migrate` and `parley up` also do this before they serve.
	if err := errors.Join(st.Agents.SyncTemplates(t.Context(), templates.All()), st.Close()); err != nil {
		t.Fatal(err)
	}

	first, second = c.ingress(t), c.ingress(t)
	c.worker(t)
	return first, second
}

// visitor is a demo visitor, identified by a peer address and a forwarded address.
type visitor struct {
	from      string // the peer's address
	forwarded string // X-Forwarded-For
}

// behindProxy returns a visitor behind the trusted proxy.
func behindProxy(address string) visitor { return visitor{from: proxyAddress, forwarded: address} }

// stranger is a client that sends requests from an untrusted address.
var stranger = &http.Client{Timeout: requestTimeout, Transport: &http.Transport{
	DisableKeepAlives: true,
	DialContext:       (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(strangerAddress)}}).DialContext,
}}

// send makes a request. It is safe for concurrent use.
func (v visitor) send(ctx context.Context, method, url string, body any) answer {
	header := map[string]string{"x-tenant-id": "tenant_demo", "X-Forwarded-For": v.forwarded}
	if v.from == proxyAddress {
		return send(ctx, method, url, header, body)
	}

	raw, err := json.Marshal(body)
	if err != nil {
		return answer{err: err}
	}

	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(raw))
	if err != nil {
		return answer{err: err}
	}

	req.Header.Set("Content-Type", "application/json")
	for name, value := range header {
		req.Header.Set(name, value)
	}

	res, err := stranger.Do(req)
	if err != nil {
		return answer{err: err}
	}
	return answer{status: res.StatusCode, header: res.Header, err: res.Body.Close()}
}

// chat sends a message to the template. It is safe for concurrent use.
func (v visitor) chat(ctx context.Context, in *edge, session, message string) answer {
	return v.send(ctx, http.MethodPost, in.url+"/api/agents?template="+demoTemplate+"&action=chat",
		map[string]any{"sessionId": session, "message": message})
}

// says fails the test unless the chat's run completes. It returns the run's message.
func (v visitor) says(t *testing.T, in *edge, session, message string) string {
	t.Helper()
	got := v.chat(t.Context(), in, session, message)
	got.wantLimit(t)
	r := got.want(t, http.StatusOK).run(t)
	if r.Status != "completed" || r.Output == nil || r.SessionID != session {
		t.Fatalf("no answer to %q: %s", message, got.body)
	}
	return r.Output.Message
}

// allowance matches the RateLimit header in the response to a demo request.
var allowance = regexp.MustCompile(`^"demo";r=(\d+);t=(\d+)$`)

// wantLimit fails the test unless the response contains the visitor's limit. It returns the number of remaining requests.
func (a answer) wantLimit(t *testing.T) (left int) {
	t.Helper()
	if a.err != nil {
		t.Fatalf("no response: %v", a.err)
	}

	policy := fmt.Sprintf(`"demo";q=%d;w=%d`, demoLimit, int(demoWindow.Seconds()))
	if got := a.header.Values("Ratelimit-Policy"); len(got) != 1 || got[0] != policy {
		t.Fatalf("response %d: RateLimit-Policy = %q, want %q", a.status, got, policy)
	}

	parts := allowance.FindStringSubmatch(a.header.Get("Ratelimit"))
	if parts == nil {
		t.Fatalf("response %d: RateLimit = %q", a.status, a.header.Get("Ratelimit"))
	}

	left, err := strconv.Atoi(parts[1])
	if err != nil || left >= demoLimit {
		t.Fatalf("response %d: remaining requests = %q, want at most %d", a.status, parts[1], demoLimit)
	}
	if seconds, err := strconv.Atoi(parts[2]); err != nil || seconds < 1 || seconds > int(demoWindow.Seconds()) {
		t.Fatalf("status %d: seconds until the reset = %q", a.status, parts[2])
	}
	return left
}

// wantTurnedAway fails the test unless the visitor is rate limited.
func (a answer) wantTurnedAway(t *testing.T) {
	t.Helper()
	if left := a.wantLimit(t); left != 0 {
		t.Fatalf("remaining requests of a rejected visitor = %d, want 0", left)
	}
	a.refused(t, http.StatusTooManyRequests, "rate_limited")
	if seconds, err := strconv.Atoi(a.header.Get("Retry-After")); err != nil || seconds > int(demoWindow.Seconds()) {
		t.Fatalf("Retry-After = %q, want at most %s", a.header.Get("Retry-After"), demoWindow)
	}
}

// within fails the test if so much time has passed that the first request may no longer count.
func within(t *testing.T, began time.Time) {
	t.Helper()
	if took := time.Since(began); took >= demoWindow {
		t.Fatalf("the requests took %s, longer than the window of %s", took, demoWindow)
	}
}

// TestChaosDemoLimitOutlivesAnIngress kills one of two ingresses between a visitor's requests.
func TestChaosDemoLimitOutlivesAnIngress(t *testing.T) {
	t.Parallel()
	first, second := demoCluster(t)
	ingresses := []*edge{first, second}
	v := visitor{from: proxyAddress} // without X-Forwarded-For, the proxy's own address counts
	began := time.Now()
	for n := range demoLimit {
		if n == demoLimit/2 {
			first.Kill9()
			first.Restart()
		}
		got := v.chat(t.Context(), ingresses[n%2], "limit", "message "+strconv.Itoa(n))
		got.want(t, http.StatusOK)
		if left := got.wantLimit(t); left != demoLimit-n-1 {
			t.Fatalf("remaining after %d requests = %d", n+1, left)
		}
	}

	for _, in := range ingresses {
		v.chat(t.Context(), in, "limit", "one too many").wantTurnedAway(t)
	}

	second.Kill9() // the ingress loses the refusals that it cached in memory
	second.Restart()
	v.chat(t.Context(), second, "limit", "after the restart").wantTurnedAway(t)
	within(t, began)
}

// TestDemo runs the tests without crashes on one cluster. Each uses its own visitors.
func TestDemo(t *testing.T) {
	t.Parallel()
	first, second := demoCluster(t)
	for name, test := range map[string]func(*testing.T, *edge, *edge){
		"burst_over_two_ingresses":      demoBurst,
		"everything_else_is_closed":     demoClosed,
		"whatever_is_asked_counts":      demoCounts,
		"visitors_share_no_session":     demoSessions,
		"one_network_is_one_visitor":    demoNetwork,
		"forwarded_by_whom_is_believed": demoForwarded,
		"forwarded_by_a_stranger":       demoStranger,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, first, second)
		})
	}
}

// demoBurst sends many requests simultaneously, half of them to each ingress.
func demoBurst(t *testing.T, first, second *edge) { //nolint:thelper // a subtest, not a helper
	const burst = 50
	v := behindProxy("203.0.113.1")
	began := time.Now()
	answers := make([]answer, burst)
	var all sync.WaitGroup
	for n := range answers {
		all.Go(func() {
			answers[n] = v.chat(t.Context(), []*edge{first, second}[n%2], "burst "+strconv.Itoa(n), "hello")
		})
	}

	all.Wait()
	within(t, began)
	passed := 0
	for _, a := range answers {
		if a.status == http.StatusOK {
			a.wantLimit(t)
			passed++
			continue
		}
		a.wantTurnedAway(t)
	}

	if passed != demoLimit {
		t.Fatalf("accepted %d of %d requests, want %d", passed, burst, demoLimit)
	}
}

// demoClosed requests everything that demo visitors may not use, each time as another visitor.
func demoClosed(t *testing.T, first, second *edge) { //nolint:thelper // a subtest, not a helper
	const agent, foreign = "ag_01jzzzzzzzzzzzzzzzzzzzzzzz", "run_01jzzzzzzzzzzzzzzzzzzzzzzz"
	chat := map[string]any{"sessionId": "closed", "message": "hello"}
	for n, r := range []struct {
		method, path string
		body         any
	}{
		{"GET", "/api/agents", nil},
		{"GET", "/api/agents?id=" + agent, nil},
		{"POST", "/api/agents", map[string]any{"name": "Mine", "systemPrompt": "Be mine."}},
		{"POST", "/api/agents?id=" + agent + "&action=chat", chat},
		{"POST", "/api/agents?id=" + agent + "&template=" + demoTemplate + "&action=chat", chat},
		{"PUT", "/api/agents?id=" + agent, map[string]any{"allowedCallers": []string{"system"}}},
		{"DELETE", "/api/agents?id=" + agent, nil},
		{"POST", "/api/internal/run-automation", map[string]any{"target": agent, "input": map[string]any{"message": "hello"}}},
		{"GET", "/api/runs", nil},
		{"GET", "/api/runs?id=" + foreign, nil},
		{"GET", "/api/runs?id=" + foreign + "&stream=1", nil},
		{"POST", "/api/runs?id=" + foreign + "&action=cancel", map[string]any{}},
		{"GET", "/api/sessions", nil},
		{"GET", "/api/sessions?id=closed&templateId=" + demoTemplate, nil},
		{"DELETE", "/api/sessions?id=closed&templateId=" + demoTemplate, nil},
		{"GET", "/api/keys", nil},
		{"POST", "/api/keys", map[string]any{"name": "mine", "scope": "organization"}},
		{"DELETE", "/api/keys?id=key_01jzzzzzzzzzzzzzzzzzzzzzzz", nil},
		{"GET", "/api/organizations", nil},
		{"POST", "/api/organizations", map[string]any{"name": "Mine"}},
		{"GET", "/api/organizations/members", nil},
		{"POST", "/api/organizations/members", map[string]any{"email": "me@example.test", "role": "owner"}},
		{"GET", "/api/knowledge", nil},
		{"POST", "/api/knowledge", map[string]any{"name": "mine", "content": "text"}},
		{"DELETE", "/api/knowledge?id=doc_01jzzzzzzzzzzzzzzzzzzzzzzz", nil},
		{"POST", "/api/auth/signup", map[string]any{"email": "me@example.test", "password": "a long enough one"}},
		{"POST", "/api/auth/login", map[string]any{"email": "me@example.test", "password": "a long enough one"}},
		{"GET", "/api/auth/session", nil},
		{"GET", "/api/auth/sessions", nil},
		{"POST", "/api/auth/logout", nil},
		{"GET", "/api/nothing", nil},
	} {
		t.Run(r.method+" "+r.path, func(t *testing.T) {
			t.Parallel()
			v := behindProxy("203.0.113." + strconv.Itoa(100+n))
			got := v.send(t.Context(), r.method, []*edge{first, second}[n%2].url+r.path, r.body)
			got.refused(t, http.StatusForbidden, "demo_restricted")
			got.wantLimit(t)
		})
	}
}

// demoCounts uses up a visitor's limit with rejected requests and with requests for the list of templates.
func demoCounts(t *testing.T, first, second *edge) { //nolint:thelper // a subtest, not a helper
	v := behindProxy("203.0.113.2")
	began := time.Now()
	for n := range demoLimit {
		path, status := "/api/agents/templates", http.StatusOK
		if n%2 == 1 {
			path, status = "/api/agents", http.StatusForbidden
		}
		got := v.send(t.Context(), http.MethodGet, []*edge{first, second}[n/2%2].url+path, nil).want(t, status)
		if left := got.wantLimit(t); left != demoLimit-n-1 {
			t.Fatalf("remaining after %d requests = %d", n+1, left)
		}
	}

	v.chat(t.Context(), first, "counts", "hello").wantTurnedAway(t)
	v.send(t.Context(), http.MethodGet, second.url+"/api/agents/templates", nil).wantTurnedAway(t)
	within(t, began)
	// Without the demo header the list is public and not counted.
	send(t.Context(), http.MethodGet, second.url+"/api/agents/templates", nil, nil).want(t, http.StatusOK)
}

const (
	codeWord     = "heron"
	tellCodeWord = "The code word is " + codeWord + "."
	askCodeWord  = "What is the code word?"
)

// demoSessions has two visitors use the same session ID. A visitor's session is available on every ingress.
func demoSessions(t *testing.T, first, second *edge) { //nolint:thelper // a subtest, not a helper
	one, two := behindProxy("203.0.113.3"), behindProxy("203.0.113.4")
	one.says(t, first, "same", tellCodeWord)
	if got := one.says(t, second, "same", askCodeWord); !strings.Contains(got, codeWord) {
		t.Fatalf("a visitor's own session was forgotten: %s", got)
	}

	for _, in := range []*edge{first, second} {
		if got := two.says(t, in, "same", askCodeWord); strings.Contains(got, codeWord) {
			t.Fatalf("a visitor received another visitor's message: %s", got)
		}
	}

	if got := two.says(t, first, "same", "What did I first say?"); strings.Contains(got, codeWord) {
		t.Fatalf("a visitor's session begins with another visitor's words: %s", got)
	}
	if got := one.says(t, first, "other", askCodeWord); strings.Contains(got, codeWord) {
		t.Fatalf("another session of the visitor contains the code word: %s", got)
	}
}

// demoNetwork sends requests from two addresses in one customer's IPv6 network, and from the neighboring network.
func demoNetwork(t *testing.T, first, second *edge) { //nolint:thelper // a subtest, not a helper
	began := time.Now()
	addresses := []visitor{behindProxy("2001:db8:5:6::1"), behindProxy("2001:db8:5:6:ffff:ffff:ffff:fffe")}
	addresses[0].says(t, first, "same", tellCodeWord)
	if got := addresses[1].says(t, second, "same", askCodeWord); !strings.Contains(got, codeWord) {
		t.Fatalf("two addresses in one network count as two visitors: %s", got)
	}

	for n := 2; n < demoLimit; n++ {
		got := addresses[n%2].chat(t.Context(), []*edge{first, second}[n/2%2], "same", "hello").want(t, http.StatusOK)
		if left := got.wantLimit(t); left != demoLimit-n-1 {
			t.Fatalf("remaining after %d requests from a network = %d", n+1, left)
		}
	}

	for _, v := range append(addresses, behindProxy("2001:db8:5:6:7::")) {
		v.chat(t.Context(), second, "same", "hello").wantTurnedAway(t)
	}

	within(t, began)
	neighbour := behindProxy("2001:db8:5:7::1")
	if got := neighbour.says(t, first, "same", askCodeWord); strings.Contains(got, codeWord) {
		t.Fatalf("the neighboring network counts as the same visitor: %s", got)
	}
}

// demoForwarded has a visitor send a forged X-Forwarded-For header. The proxy appends the real address.
func demoForwarded(t *testing.T, first, second *edge) { //nolint:thelper // a subtest, not a helper
	began := time.Now()
	for n := range demoLimit {
		v := behindProxy("198.51.100." + strconv.Itoa(n) + ", 203.0.113.5")
		v.chat(t.Context(), []*edge{first, second}[n%2], "forwarded", "hello").want(t, http.StatusOK)
	}
	behindProxy("198.51.100.99, 203.0.113.5").chat(t.Context(), first, "forwarded", "hello").wantTurnedAway(t)
	within(t, began)
	behindProxy("203.0.113.6").says(t, first, "forwarded", "hello")
}

// demoStranger has an untrusted peer send a different forwarded address with each request.
func demoStranger(t *testing.T, first, second *edge) { //nolint:thelper // a subtest, not a helper
	began := time.Now()
	passed, refused := 0, 0
	for n := range 2 * demoLimit {
		v := visitor{from: strangerAddress, forwarded: "198.51.100." + strconv.Itoa(100+n)}
		got := v.chat(t.Context(), []*edge{first, second}[n%2], "stranger", "hello")
		got.wantLimit(t)
		switch got.status {
		case http.StatusOK:
			passed++
		case http.StatusTooManyRequests:
			got.wantRetryAfter(t)
			refused++
		default:
			t.Fatalf("status = %d", got.status)
		}
	}

	within(t, began)
	if passed != demoLimit || refused != demoLimit {
		t.Fatalf("requests from one peer: %d accepted, %d rejected, want %d each", passed, refused, demoLimit)
	}
}
