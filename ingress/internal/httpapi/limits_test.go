package httpapi

import (
	"context"
	"database/sql/driver"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"parley/ingress/internal/dispatch"
	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/ratelimit"
	"parley/shared/id"
	"parley/shared/store/limitdb"
)

// countingLimiter is a store of rate limits that never refill, so that a test can count every
// request.
type countingLimiter struct {
	mu   sync.Mutex
	used map[string]int
	err  error
}

func (c *countingLimiter) CountDemo(_ context.Context, address string, limit int, window time.Duration) (limitdb.DemoVerdict, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return limitdb.DemoVerdict{}, c.err
	}
	allowed := c.used[address] < limit
	if allowed {
		c.used[address]++
	}
	return limitdb.DemoVerdict{Allowed: allowed, Remaining: limit - c.used[address], Reset: window}, nil
}

func (c *countingLimiter) LeaseTokens(_ context.Context, bucket string, capacity int, _ float64, want int) (limitdb.TokenGrant, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return limitdb.TokenGrant{}, c.err
	}
	got := min(want, capacity-c.used[bucket])
	c.used[bucket] += got
	return limitdb.TokenGrant{Granted: got, Left: float64(capacity - c.used[bucket])}, nil
}

// limitOn reads the rate limit headers. It returns the tier and the number of remaining requests.
// If the headers are missing, the tier is "".
func limitOn(t *testing.T, a answer, s ratelimit.Settings) (tier string, remaining int) {
	t.Helper()
	policies, limits := a.header[httpx.HeaderPolicy], a.header[httpx.HeaderLimit]
	if len(policies) == 0 && len(limits) == 0 {
		return "", 0
	}
	if len(policies) != 1 || len(limits) != 1 {
		t.Fatalf("headers %v", a.header)
	}
	tier, rest, _ := strings.Cut(strings.TrimPrefix(limits[0], `"`), `";r=`)
	left, reset, _ := strings.Cut(rest, ";t=")
	remaining, err := strconv.Atoi(left)
	must(t, err)
	if seconds, err := strconv.Atoi(reset); err != nil || seconds < 1 || seconds > 60 {
		t.Errorf("%s: t is not a number of seconds within the window", limits[0])
	}
	quota := map[string]int{"demo": s.Demo, "user": s.User, "system": s.System}[tier]
	if policies[0] != `"`+tier+`";q=`+strconv.Itoa(quota)+";w=60" {
		t.Errorf("policy %s beside %s", policies[0], limits[0])
	}
	return tier, remaining
}

// TestLimitsShowOnEveryAnswer sends requests in a fixed order. It checks how much each of them
// reduces the remaining number of requests, as shown in the headers.
func TestLimitsShowOnEveryAnswer(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("red")
	agentID := a.newAgent(h)
	settings := ratelimit.Settings{Demo: 8, User: 500, System: 1000}
	counts := &countingLimiter{used: map[string]int{}}
	limits, err := ratelimit.New(counts, settings)
	must(t, err)
	a.rebuild(func(d *Deps) { d.Limits = limits })
	left := map[string]int{"demo": settings.Demo, "user": settings.User, "system": settings.System}
	auto := func(target, more string) string {
		return `{"target":"` + target + `","input":{"message":"m"}` + more + `}`
	}
	const run, chat, later = "/api/internal/run-automation", "/api/agents?action=chat&id=", "Prefer: respond-async"
	user, key, demo := []string{h.owner.auth}, []string{h.key}, []string{"X-Tenant-Id: tenant_demo"}
	and := func(headers []string, more ...string) []string {
		return append(append([]string{}, headers...), more...)
	}
	for _, c := range []struct {
		name, method, target, body string
		headers                    []string
		status                     int
		tier                       string
		cost                       int
	}{
		{"list", "GET", "/api/agents", "", user, 200, "user", 1},
		{"unknown id", "GET", "/api/agents?id=" + id.New(id.Agent), "", user, 404, "user", 1},
		{"malformed query", "GET", "/api/agents?q=%zz", "", user, 400, "user", 1},
		{"bad body", "POST", "/api/agents", `{`, user, 400, "user", 1},
		{"other media type", "POST", "/api/agents", `{}`, and(user, "Content-Type: text/plain"), 415, "user", 1},
		{"unknown action", "POST", "/api/agents?action=dance", `{}`, user, 400, "user", 1},
		{"public list", "GET", "/api/agents/templates", "", user, 200, "user", 1},
		{"session", "GET", "/api/auth/session", "", user, 200, "user", 1},
		{"another organization", "GET", "/api/agents", "", and(user, "X-Organization-Id: "+id.New(id.Organization)), 403, "user", 1},
		{"another page's write", "POST", "/api/agents", smallAgent, []string{h.owner.cookie, "Origin: https://evil.test"}, 403, "user", 0},
		{"bad chat", "POST", chat + agentID, `{"message":1}`, user, 400, "user", 0},
		{"chat with nobody", "POST", chat + id.New(id.Agent), `{"sessionId":"s","message":"m"}`, and(user, later), 404, "user", 1},
		{"chat", "POST", chat + agentID, `{"sessionId":"s","message":"m"}`, and(user, later, "Idempotency-Key: k"), 202, "user", 1},
		{"attaching to it", "POST", chat + agentID, `{"sessionId":"s","message":"m"}`, and(user, later, "Idempotency-Key: k"), 202, "user", 0},
		{"its key again", "POST", chat + agentID, `{"sessionId":"s","message":"n"}`, and(user, "Idempotency-Key: k"), 422, "user", 0},
		{"no run", "POST", run, auto(agentID, `,"ttlOverride":0`), key, 400, "system", 0},
		{"no agent", "POST", run, auto("ag_x", ""), and(key, later), 400, "system", 1},
		{"from a browser", "POST", run, auto(agentID, ""), and(key, "Origin: https://a.test"), 403, "system", 0},
		{"no JSON where no body is read", "POST", "/api/runs?action=cancel&id=" + id.New(id.Run), "x", and(user, "Content-Type: text/plain"), 404, "user", 1},
		{"nor here", "POST", "/api/auth/logout", "x", and(user, "Content-Type: text/plain"), 415, "user", 1},
		{"run", "POST", run, auto(agentID, `,"idempotencyKey":"k"`), and(key, later), 202, "system", 1},
		{"attached", "POST", run, auto(agentID, `,"idempotencyKey":"k"`), and(key, later), 202, "system", 0},
		{"reused", "POST", run, auto(agentID, `,"idempotencyKey":"k","sessionId":"other"`), key, 422, "system", 0},
		{"a stray", "GET", "/api/nope", "", user, 404, "user", 0},
		{"another method", "PATCH", "/api/agents", "", user, 405, "user", 0},
		{"demo list", "GET", "/api/agents/templates", "", demo, 200, "demo", 1},
		{"demo elsewhere", "GET", "/api/sessions", "", demo, 403, "demo", 1},
		{"demo stray", "GET", "/api/nope", "", demo, 403, "demo", 1},
		{"bad demo chat", "POST", "/api/agents?action=chat&template=tpl_support", `{}`, demo, 400, "demo", 1},
		{"demo chat", "POST", "/api/agents?action=chat&template=tpl_support", `{"sessionId":"s","message":"m"}`, and(demo, later, "Idempotency-Key: k"), 202, "demo", 1},
		{"demo replay", "POST", "/api/agents?action=chat&template=tpl_support", `{"sessionId":"s","message":"m"}`, and(demo, later, "Idempotency-Key: k"), 202, "demo", 1},
		{"broken key", "GET", "/api/agents", "", []string{"X-Api-Key: ak_1"}, 401, "", 0},
		{"nobody", "GET", "/api/agents", "", nil, 401, "", 0},
		{"nobody's list", "GET", "/api/agents/templates", "", nil, 200, "", 0},
	} {
		got := a.do(c.method, c.target, c.body, c.headers...)
		tier, remaining := limitOn(t, got, settings)
		left[c.tier] -= c.cost
		if got.status != c.status || tier != c.tier || tier != "" && remaining != left[tier] {
			t.Errorf("%s: %d with tier %q and %d left, want %d, %q and %d\n%s", c.name, got.status, tier, remaining, c.status, c.tier, left[c.tier], got.body)
		}
	}
	a.wantMember(t, h, settings)
	counts.mu.Lock()
	counts.err = errors.New("the database is away")
	counts.mu.Unlock()
	for tier, headers := range map[string][]string{"user": {h.admin.auth}, "demo": demo} {
		got := a.do("GET", "/api/agents/templates", "", headers...)
		if shown, remaining := limitOn(t, got, settings); got.status != 500 || shown != tier || remaining != 0 {
			t.Errorf("%s without a database: %d with %q, %d left", tier, got.status, shown, remaining)
		}
	}
}

// wantMember checks that a member's requests without permission count against the member's rate
// limit.
func (a *runEnv) wantMember(t *testing.T, h *testOrg, settings ratelimit.Settings) {
	t.Helper()
	for n := range 2 {
		got := a.do("POST", "/api/agents", smallAgent, h.member.auth, h.header).want(t, "what a role forbids", 403, "permission_denied")
		if tier, remaining := limitOn(t, got, settings); tier != "user" || remaining != settings.User-1-n {
			t.Errorf("what a role forbids: %q, %d left", tier, remaining)
		}
	}
}

func TestReplaysAreFreeWhenTheLimitIsReached(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("red")
	agentID := a.newAgent(h)
	settings := ratelimit.Settings{Demo: 1, User: 2, System: 3}
	limits, err := ratelimit.New(&countingLimiter{used: map[string]int{}}, settings)
	must(t, err)
	a.rebuild(func(d *Deps) { d.Limits = limits })
	body := `{"target":"` + agentID + `","input":{"message":"m"},"idempotencyKey":"k"}`
	send := func(body string) answer {
		return a.do("POST", "/api/internal/run-automation", body, h.key, "Prefer: respond-async")
	}
	runID := send(body).want(t, "the run", 202, "").text(t, "id")
	a.finish("answer", runID)
	for range 2 {
		send(strings.Replace(body, `"k"`, `"`+a.fresh()+`"`, 1)).want(t, "within the limit", 202, "")
	}
	refused := send(strings.Replace(body, `"k"`, `"new"`, 1)).want(t, "over the limit", 429, "rate_limited")
	if tier, remaining := limitOn(t, refused, settings); tier != "system" || remaining != 0 || refused.header.Get("Retry-After") == "" {
		t.Errorf("refusal %v", refused.header)
	}
	for range 5 {
		replay := send(body).want(t, "replay", 200, "")
		if tier, remaining := limitOn(t, replay, settings); tier != "system" || remaining != 0 || replay.header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("replay %v", replay.header)
		}
	}
}

// TestReplaysAtAnotherIngress replays requests at an ingress process whose cache does not contain
// the idempotency keys.
func TestReplaysAtAnotherIngress(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("red")
	agentID, gone := a.newAgent(h), a.newAgent(h)
	settings := ratelimit.Settings{Demo: 1, User: 2, System: 100} // replays do not reach the limit, although their keys are not cached
	body := func(agent, key, message string) string {
		return `{"target":"` + agent + `","input":{"message":"` + message + `"},"idempotencyKey":"` + key + `"}`
	}
	send := func(body string) answer {
		return a.do("POST", "/api/internal/run-automation", body, h.key, "Prefer: respond-async")
	}
	for _, key := range []string{"first", "second", "third"} {
		a.finish("answer", send(body(agentID, key, "m")).want(t, "run", 202, "").text(t, "id"))
	}
	a.finish("answer", send(body(gone, "of the other", "m")).want(t, "run", 202, "").text(t, "id"))
	a.do("DELETE", "/api/agents?id="+gone, "", h.owner.auth).want(t, "delete agent", 200, "")

	var err error
	counter := &countingLimiter{used: map[string]int{}}
	counted, err := ratelimit.New(counter, settings)
	must(t, err)
	a.rebuild(func(d *Deps) { d.Limits, d.Dispatch = counted, running(t, a) })

	replays := func(what, key, agent string, left int) {
		t.Helper()
		replay := send(body(agent, key, "m")).want(t, what, 200, "")
		if tier, remaining := limitOn(t, replay, settings); tier != "system" || remaining != left || replay.header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("%s: %d left, headers %v", what, remaining, replay.header)
		}
	}
	send(body(agentID, a.fresh(), "m")).want(t, "a run", 202, "")
	replays("of a key within the limit", "first", agentID, settings.System-1)
	replays("of a key whose agent is gone", "of the other", gone, settings.System-1)
	send(body(agentID, "second", "something else")).want(t, "another request with a key", 422, "idempotency_key_reused")
	for range settings.System - 1 {
		send(body(agentID, a.fresh(), "m")).want(t, "within the limit", 202, "")
	}
	send(body(agentID, "new", "m")).want(t, "over the limit", 429, "rate_limited")
	replays("of a key over the limit", "third", agentID, 0)
	send(body(agentID, "first", "something else")).want(t, "another request with a key over the limit", 422, "idempotency_key_reused")

	counter.err = driver.ErrBadConn // the database is unreachable
	counted, err = ratelimit.New(counter, settings)
	must(t, err)
	a.rebuild(func(d *Deps) { d.Limits, d.Dispatch = counted, running(t, a) })
	send(body(agentID, "newer", "m")).want(t, "while nothing is counted", 503, "unavailable")
	send(body(agentID, "third", "m")).want(t, "a replay while nothing is counted", 200, "")
}

// running starts a dispatcher whose cache contains no idempotency keys.
func running(t *testing.T, a *runEnv) *dispatch.Dispatcher {
	t.Helper()
	d := dispatch.New(dispatch.Config{BacklogMax: 1_000_000}, a.store, a.bus, zerolog.Nop())
	done := make(chan error, 1)
	go func() { done <- d.Run(t.Context()) }()
	t.Cleanup(func() { must(t, <-done) })
	return d
}

// The values that a submission needs are looked up only once.
func TestASubmissionIsPreparedOnce(t *testing.T) {
	t.Parallel()
	asked, gone := 0, errors.New("gone")
	s := &dispatch.Submission{Before: func(context.Context) error { asked++; return gone }}
	for range 2 {
		if err := s.Prepare(t.Context()); !errors.Is(err, gone) {
			t.Errorf("prepared: %v", err)
		}
	}
	if asked != 1 {
		t.Errorf("looked up %d times", asked)
	}
}
