package httpapi

import (
	"context"
	"database/sql/driver"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/httpapi/openai"
	"parley/ingress/internal/openaiapi"
	"parley/ingress/internal/openapi/openapitest"
	"parley/ingress/internal/ratelimit"
	"parley/shared/domain"
	"parley/shared/store"
	"parley/shared/testkit"
)

// v1Asks returns a valid request body for each path under /v1 at which clients call agents. The
// argument more contains additional fields of the body.
func v1Asks(agentID, more string) map[string]string {
	return map[string]string{
		"/v1/chat/completions": fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"m"}]%s}`, agentID, more),
		"/v1/responses":        fmt.Sprintf(`{"model":%q,"input":"m"%s}`, agentID, more),
	}
}

// tallied sets rate limits that do not refill. Tests can then count how much a request consumes.
func (a *runEnv) tallied(user int) ratelimit.Settings {
	a.t.Helper()
	limits := ratelimit.Settings{Demo: 2, User: user, System: user + 1}
	counted, err := ratelimit.New(&countingLimiter{used: map[string]int{}}, limits)
	must(a.t, err)
	a.rebuild(func(d *Deps) { d.Limits = counted })
	return limits
}

// A request with an invalid body counts against the rate limit, because the service had to read the
// body.
func TestRefusedBodiesOfOpenAICount(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	for path, body := range v1Asks(a.newAgent(h), `,"n":2,"prompt":{}`) {
		limits := a.tallied(4)
		for left := range 4 {
			wrong := []string{body, `{"model":`, `{}`, `{"model":"` + strings.Repeat("x", httpx.MaxMessageBody) + `"}`}[left]
			got := a.from("POST", path, wrong, h.memberKey, h.header)
			if tier, remaining := limitOn(t, got, limits); got.status != 400 && got.status != 413 || tier != "user" || remaining != 3-left {
				t.Errorf("%s: %d, %q, %d left\n%s", path, got.status, tier, remaining, got.body)
			}
		}
		a.from("POST", path, body, h.memberKey, h.header).want(t, path, 429, "rate_limited")
	}
}

// unreachableDB is a driver.Connector of an unreachable database. It counts the attempts to
// connect.
type unreachableDB struct{ times atomic.Int64 }

// Connect always fails.
func (d *unreachableDB) Connect(context.Context) (driver.Conn, error) {
	d.times.Add(1)
	return nil, driver.ErrBadConn
}

// Driver is never called.
func (d *unreachableDB) Driver() driver.Driver { return nil }

// The previous response is looked up only after the request has counted against the rate limit. A
// replay does not count against it.
func TestContinuingAResponseCountsFirst(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	agentID := a.newAgent(h)
	first := a.respond(`{"background":true,"input":"m","model":"`+agentID+`"}`, h.memberKey, h.header)
	after := func(responseID string) string {
		return `{"background":true,"input":"m","model":"` + agentID + `","previous_response_id":"` + responseID + `"}`
	}
	a.tallied(3)
	second := a.respond(after(first), h.memberKey, h.header, "Idempotency-Key: k")
	for range 2 {
		a.from("POST", "/v1/responses", after("resp_01h455vb4pex5vsknk084sn02q"), h.memberKey, h.header).
			want(t, "none", 400, "invalid_request previous_response_id")
	}
	if again := a.respond(after(first), h.memberKey, h.header, "Idempotency-Key: k"); again != second {
		t.Errorf("the replay is %s, not %s", again, second)
	}
	a.from("POST", "/v1/responses", after(second), h.memberKey, h.header, "Idempotency-Key: k").
		want(t, "the key, after another response", 422, "idempotency_key_reused")
	away := &unreachableDB{}
	a.rebuild(func(d *Deps) { d.Store = store.On(away, 1) })
	a.from("POST", "/v1/responses", after(first), h.memberKey, h.header).want(t, "beyond the limit", 429, "rate_limited")
	if n := away.times.Load(); n > 0 {
		t.Errorf("the response was looked up by %d connections", n)
	}
	a.tallied(3)
	a.from("POST", "/v1/responses", after(first), h.memberKey, h.header).want(t, "within it", 503, "unavailable")
	if away.times.Load() == 0 {
		t.Error("the response is looked up elsewhere")
	}
}

// While a request waits for its run, it has a slot. A request that does not wait takes none.
func TestWaitingForARunTakesSlots(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	agentID := a.newAgent(h)
	for path, body := range v1Asks(agentID, "") {
		a.api.StreamsPerCredential = 1
		// In this environment, every request that waits for a run gets the error unavailable,
		// because it cannot learn that the run has finished.
		begun := a.from("POST", path, body, h.key, "Idempotency-Key: k").want(t, path, 503, "unavailable")
		a.finish("answer", begun.header.Get(openai.HeaderRunID))
		for range 2 {
			a.from("POST", path, body, h.key, "Idempotency-Key: k").want(t, path+" again", 200, "")
		}
		a.api.StreamsPerCredential = 0
		full := a.from("POST", path, body, h.key, "Idempotency-Key: more").want(t, path+" without a seat", 429, "rate_limited")
		if full.header.Get("Retry-After") == "" || full.header.Get(openai.HeaderRunID) != "" {
			t.Errorf("%s: %v", path, full.header)
		}
	}
	a.respond(`{"background":true,"input":"m","model":"`+agentID+`"}`, h.key)
}

// After its key was revoked, a waiting request gets no answer. The run that it started continues.
func TestARevokedKeyGetsNoAnswer(t *testing.T) {
	t.Parallel()
	a := newWaitingRunEnv(t, unlimited)
	h := a.newTestOrg("home")
	begun := make(chan string, 2)
	a.startWorker(func(runID, _ string) { begun <- runID })
	requests := v1Asks(a.newAgent(h), "")
	key, keyID := a.newKey(h, h.owner, domain.KeyScopeOrganization)
	ctx, leave := context.WithTimeout(t.Context(), 2*time.Minute) // ends the requests if they get no response
	defer leave()
	answered := make(chan answer, len(requests))
	for path, body := range requests {
		req := httptest.NewRequestWithContext(ctx, "POST", path, strings.NewReader(body))
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-Api-Key", strings.TrimPrefix(key, "X-Api-Key: "))
		go func() {
			rec := openapitest.Serve(t, a.handler, req)
			answered <- answer{rec.Code, rec.Header(), rec.Body.Bytes()}
		}()
	}
	runs := []string{<-begun, <-begun}
	a.ok("DELETE", "/api/keys?id="+keyID, "", h.owner.auth, h.header)
	revoked := time.Now()
	for range requests {
		got := (<-answered).want(t, "revoked", 401, "unauthenticated")
		if took := time.Since(revoked); took > testkit.Within(10*time.Second) || got.header.Get(openai.HeaderRunID) == "" {
			t.Errorf("after %v: %v", took, got.header)
		}
	}
	for _, runID := range runs {
		a.end(runID, answers("answer"))
		if got := a.ok("GET", "/v1/responses/"+openaiapi.ResponseID(runID), "", h.key); got.text(t, "status") != "completed" {
			t.Errorf("the response's run: %s", got.body)
		}
	}
}

// Each caller has its own idempotency keys. If two callers in one organization use the same key,
// two runs start.
func TestKeysOfTwoCallersAreTwoRuns(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	for path, body := range v1Asks(a.newAgent(h), `,"stream":true`) {
		runs := map[string]bool{}
		for _, key := range []string{h.key, h.memberKey, h.adminKey} {
			first := a.ok("POST", path, body, key, h.header, "Idempotency-Key: k").header.Get(openai.HeaderRunID)
			again := a.ok("POST", path, body, key, h.header, "Idempotency-Key: k").header.Get(openai.HeaderRunID)
			if first == "" || again != first {
				t.Errorf("%s: run %s, and again %s", path, first, again)
			}
			runs[first] = true
		}
		if len(runs) != 3 {
			t.Errorf("%s: three callers have the runs %v", path, runs)
		}
	}
}
