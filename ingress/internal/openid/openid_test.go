package openid

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley/shared/apierr"
)

// TestDiscoveryIsRetried checks that concurrent callers share one discovery request. A failure is
// retried only after a pause, and a success is cached.
func TestDiscoveryIsRetried(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	var alive atomic.Bool
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		if !alive.Load() {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"issuer":"` + server.URL + `","authorization_endpoint":"` + server.URL + `/a","token_endpoint":"` + server.URL + `/t"}`))
	}))
	t.Cleanup(server.Close)
	clock := time.Now()
	p := New(Settings{Issuer: server.URL, ClientID: "parley", RedirectURL: "http://parley.test/back"})
	p.now = func() time.Time { return clock }
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if _, _, err := p.Begin(t.Context()); apierr.CodeFor(err) != apierr.Unavailable {
				t.Errorf("failing provider: %v", err)
			}
		})
	}
	wg.Wait()
	if n := calls.Load(); n != 1 {
		t.Errorf("a failing provider got %d requests", n)
	}
	alive.Store(true)
	clock = clock.Add(giveUpTime)
	for range 3 {
		address, a, err := p.Begin(t.Context())
		if err != nil || !strings.HasPrefix(address, server.URL+"/a?") || !strings.Contains(address, "state="+a.State) || strings.Contains(address, a.Verifier) {
			t.Errorf("working provider: %q, %v", address, err)
		}
	}
	if n := calls.Load(); n != 2 {
		t.Errorf("%d requests in total", n)
	}
}

func TestAttemptMatches(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		a     Attempt
		state string
		want  bool
	}{
		"own": {Attempt{State: "x"}, "x", true}, "another": {Attempt{State: "x"}, "y", false}, "nothing": {Attempt{}, "", false},
	} {
		if got := c.a.Matches(c.state); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
