package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/scripts/internal/api"
	"parley/shared/store"
	"parley/shared/templates"
)

const (
	demoLimit    = 10 // requests per visitor in 60 s
	demoWindow   = time.Minute
	demoTemplate = "tpl_writer" // has no tools, so its answers depend only on the session
	proxyAddress = "127.0.0.1"  // the service trusts X-Forwarded-For from this address
)

// demoCluster starts two ingresses behind one trusted proxy, and a worker with the offline model.
func demoCluster(t *testing.T) (first, second *edge) {
	t.Helper()
	c := newCluster(t, "TRUSTED_PROXIES="+proxyAddress+"/32", "DEFAULT_MODEL=offline")
	st, err := store.OpenOwner(c.postgres.DSN(), 1)
	if err != nil {
		t.Fatal(err)
	}
	// Store the templates as `parley migrate` and `parley up` do.
	if err := errors.Join(st.Agents.SyncTemplates(t.Context(), templates.All()), st.Close()); err != nil {
		t.Fatal(err)
	}

	first, second = c.ingress(t), c.ingress(t)
	c.worker(t)
	return first, second
}

// visitor is a demo visitor behind the trusted proxy. The string is the value of the header
// X-Forwarded-For. If the string is empty, the service uses the proxy's own address.
type visitor string

// chat sends a message to the demo template. It is safe for concurrent use.
func (v visitor) chat(ctx context.Context, in *edge, session, message string) api.Answer {
	return api.Send(ctx, http.MethodPost, in.url+"/api/agents?template="+demoTemplate+"&action=chat",
		map[string]string{"x-tenant-id": "tenant_demo", "X-Forwarded-For": string(v)},
		map[string]any{"sessionId": session, "message": message})
}

// says fails the test unless the chat's run completes. It returns the run's message.
func (v visitor) says(t *testing.T, in *edge, session, message string) string {
	t.Helper()
	got := v.chat(t.Context(), in, session, message)
	wantLimit(t, got)
	r := got.Want(t, http.StatusOK).Run(t)
	if r.Status != "completed" || r.Output == nil || r.SessionID != session {
		t.Fatalf("no answer to %q: %s", message, got.Body)
	}
	return r.Output.Message
}

// allowance matches the RateLimit header in the response to a demo request.
var allowance = regexp.MustCompile(`^"demo";r=(\d+);t=(\d+)$`)

// wantLimit fails the test unless the response has a RateLimit header with a valid value. It
// returns the number of the visitor's remaining requests.
func wantLimit(t *testing.T, a api.Answer) (left int) {
	t.Helper()
	if a.Err != nil {
		t.Fatalf("no response: %v", a.Err)
	}

	policy := fmt.Sprintf(`"demo";q=%d;w=%d`, demoLimit, int(demoWindow.Seconds()))
	if got := a.Header.Values("Ratelimit-Policy"); len(got) != 1 || got[0] != policy {
		t.Fatalf("response %d: RateLimit-Policy = %q, want %q", a.Status, got, policy)
	}

	parts := allowance.FindStringSubmatch(a.Header.Get("Ratelimit"))
	if parts == nil {
		t.Fatalf("response %d: RateLimit = %q", a.Status, a.Header.Get("Ratelimit"))
	}

	left, err := strconv.Atoi(parts[1])
	if err != nil || left >= demoLimit {
		t.Fatalf("response %d: remaining requests = %q, want at most %d", a.Status, parts[1], demoLimit)
	}
	if seconds, err := strconv.Atoi(parts[2]); err != nil || seconds < 1 || seconds > int(demoWindow.Seconds()) {
		t.Fatalf("status %d: seconds until the reset = %q", a.Status, parts[2])
	}
	return left
}

// wantTurnedAway fails the test unless the response rejects the request because of the visitor's
// rate limit.
func wantTurnedAway(t *testing.T, a api.Answer) {
	t.Helper()
	if left := wantLimit(t, a); left != 0 {
		t.Fatalf("remaining requests of a rejected visitor = %d, want 0", left)
	}
	a.Refused(t, http.StatusTooManyRequests, "rate_limited")
	if seconds, err := strconv.Atoi(a.Header.Get("Retry-After")); err != nil || seconds > int(demoWindow.Seconds()) {
		t.Fatalf("Retry-After = %q, want at most %s", a.Header.Get("Retry-After"), demoWindow)
	}
}

// within fails the test if the time since the argument began exceeds the limit's window. The
// visitor's first request may then no longer count towards the limit.
func within(t *testing.T, began time.Time) {
	t.Helper()
	if took := time.Since(began); took >= demoWindow {
		t.Fatalf("the requests took %s, longer than the window of %s", took, demoWindow)
	}
}

// TestChaosDemo runs the tests of the demo, all on one cluster. Each test uses its own visitors.
// The test that kills the ingresses is the last one. Visitors' rights and the rules of the limit
// are covered by tests in other packages (TestAccessMatrix, TestDemoLimit, TestClientAddr).
func TestChaosDemo(t *testing.T) { //nolint:tparallel // the last subtest kills the ingresses
	t.Parallel()
	first, second := demoCluster(t)
	t.Run("nothing_crashes", func(t *testing.T) {
		for name, test := range map[string]func(*testing.T, *edge, *edge){
			"burst_over_two_ingresses":  demoBurst,
			"visitors_share_no_session": demoSessions,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, first, second)
			})
		}
	})
	t.Run("limit_outlives_an_ingress", func(t *testing.T) { //nolint:paralleltest // it kills the ingresses
		demoLimitOutlivesAnIngress(t, first, second)
	})
}

// demoBurst sends many requests of one visitor simultaneously, half of them to each ingress.
// Together, the ingresses must accept exactly as many requests as the limit allows.
func demoBurst(t *testing.T, first, second *edge) { //nolint:thelper // a subtest, not a helper
	const burst = 50
	v := visitor("203.0.113.1")
	began := time.Now()
	answers := make([]api.Answer, burst)
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
		if a.Status == http.StatusOK {
			wantLimit(t, a)
			passed++
			continue
		}
		wantTurnedAway(t, a)
	}

	if passed != demoLimit {
		t.Fatalf("accepted %d of %d requests, want %d", passed, burst, demoLimit)
	}
}

const (
	codeWord     = "heron"
	tellCodeWord = "The code word is " + codeWord + "."
	askCodeWord  = "What is the code word?"
)

// demoSessions makes two visitors use the same session ID. Their sessions are separate, and each is
// available on every ingress.
func demoSessions(t *testing.T, first, second *edge) { //nolint:thelper // a subtest, not a helper
	one, two := visitor("203.0.113.3"), visitor("203.0.113.4")
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

// demoLimitOutlivesAnIngress kills one of two ingresses between a visitor's requests. The visitor's
// limit stays in effect.
func demoLimitOutlivesAnIngress(t *testing.T, first, second *edge) { //nolint:thelper // a subtest, not a helper
	ingresses := []*edge{first, second}
	v := visitor("")
	began := time.Now()
	for n := range demoLimit {
		if n == demoLimit/2 {
			first.Kill9()
			first.Restart()
		}
		got := v.chat(t.Context(), ingresses[n%2], "limit", "message "+strconv.Itoa(n))
		got.Want(t, http.StatusOK)
		if left := wantLimit(t, got); left != demoLimit-n-1 {
			t.Fatalf("remaining after %d requests = %d", n+1, left)
		}
	}

	for _, in := range ingresses {
		wantTurnedAway(t, v.chat(t.Context(), in, "limit", "one too many"))
	}

	second.Kill9() // the cached rejections are lost with the process
	second.Restart()
	wantTurnedAway(t, v.chat(t.Context(), second, "limit", "after the restart"))
	within(t, began)
}
