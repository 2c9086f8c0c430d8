package httpapi

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/ingress/internal/httpapi/hook"
	"parley/ingress/internal/httpapi/transfer"
	"parley/ingress/internal/ratelimit"
	"parley/shared/domain"
	"parley/shared/id"
)

// For every source, each signed delivery starts exactly one run. Unsigned deliveries start none.
func TestDeliveriesOfEverySource(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	for _, source := range domain.HookSources {
		t.Run(string(source), func(t *testing.T) {
			t.Parallel()
			a.sourceDelivers(t, h, string(source))
		})
	}
}

func (a *runEnv) sourceDelivers(t *testing.T, h *testOrg, source string) {
	t.Helper()
	more := []string{}
	if source == "hmac" || source == "token" {
		more = append(more, `"deliveryIdHeader":"X-Id"`)
	}
	hookID := a.newHook(h, source, more...)
	body := `{"a":"⟧{{b}}","id":"d1","event_id":"d1","type":"thing.made","b":1}`
	got := a.deliver(hookID, source, "d1", "thing.made", body, "Cookie: parley_session=x", "X-Api-Key: ak_x", "X-Tenant-Id: tenant_demo")
	got.want(t, "delivered", 202, "")
	runID := got.text(t, "runId")
	if got.text(t, "deliveryId") != "d1" || got.text(t, "status") != "accepted" || got.json(t, "duplicate") != false || got.json(t, "error") != nil {
		t.Errorf("taken: %s", got.body)
	}
	again := a.deliver(hookID, source, "d1", "thing.made", body, "X-Slack-Retry-Num: 1").want(t, "again", 202, "")
	if again.text(t, "runId") != runID || again.json(t, "duplicate") != true {
		t.Errorf("again: %s", again.body)
	}
	run := a.ok("GET", "/api/runs?id="+runID, "", h.key)
	if run.text(t, "trigger.type") != "webhook" || run.text(t, "trigger.automationId") != source+" hook" || run.text(t, "idempotencyKey") != "d1" {
		t.Errorf("the run: %s", run.body)
	}
	message, data := a.input(t, runID)
	head, _ := data["webhook"].(map[string]any)
	payload, _ := data["payload"].(map[string]any)
	if message != "It is ⟦{{b}}⟧." || head["source"] != source || head["event"] != "thing.made" || head["deliveryId"] != "d1" || payload["b"] != 1.0 {
		t.Errorf("the run was asked %q with %v", message, data)
	}
	for what, change := range map[string]func(*http.Request){
		"one byte changed": func(r *http.Request) {
			r.Body = httptest.NewRequestWithContext(t.Context(), "POST", "/", strings.NewReader(strings.Replace(body, "1", "2", 1))).Body
		},
		"six minutes old": func(r *http.Request) { signAs(r.Header, source, "d2", "e", body, time.Now().Add(-6*time.Minute)) },
		"nothing signed":  unsign,
		"doubled":         double,
	} {
		if source == "token" && what == "one byte changed" || what == "six minutes old" && !slices.Contains([]string{"stripe", "slack", "standard"}, source) {
			continue // the signature of this source does not cover the change
		}
		req := a.delivery(hookID, source, "d2", "e", body)
		change(req)
		if got := a.send(req).want(t, what, 401, "unauthenticated"); strings.Contains(string(got.body), hookSecret) {
			t.Errorf("%s: %s", what, got.body)
		}
	}
	if log := a.ok("GET", "/api/hooks/deliveries?status=accepted&hookId="+hookID, "", h.key); log.json(t, "data.1") != nil || log.json(t, "data.0.duplicates") != 1.0 {
		t.Errorf("the log: %s", log.body)
	}
}

// If a client address repeatedly sends deliveries with wrong signatures to a hook, the hook rejects
// all deliveries from this address for a while. Other addresses and hooks are not affected.
func TestWrongSignaturesAreBounded(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	clock := time.Now()
	a.api.hooks.Unsigned = ratelimit.NewFailures(3, time.Minute, func() time.Time { return clock })
	h := a.newTestOrg("home")
	hookID, other, shared := a.newHook(h, "hmac"), a.newHook(h, "hmac"), a.newHook(h, "github")
	send := func(what, hookID, address, secret string, status int, code string) answer {
		t.Helper()
		source, header := "hmac", "X-Signature"
		if hookID == shared {
			source, header = "github", "X-Hub-Signature-256"
		}
		req := a.delivery(hookID, source, a.fresh(), "push", `{"a":1}`)
		if req.RemoteAddr = address + ":1"; secret != hookSecret {
			req.Header.Set(header, "sha256="+strings.Repeat("0", 64))
		}
		return a.send(req).want(t, what, status, code)
	}
	for range 5 {
		send("right ones count for nothing", hookID, "192.0.2.1", hookSecret, 202, "")
	}
	for range 3 {
		send("wrong", hookID, "192.0.2.1", "wrong", 401, "unauthenticated")
	}
	for _, secret := range []string{"wrong", hookSecret} {
		got := send("after too many", hookID, "192.0.2.1", secret, 429, "rate_limited")
		if got.header.Get("Retry-After") != "60" {
			t.Errorf("Retry-After: %q", got.header.Get("Retry-After"))
		}
	}
	send("to another hook", other, "192.0.2.1", hookSecret, 202, "")
	send("from another address", hookID, "192.0.2.2", hookSecret, 202, "")
	clock = clock.Add(time.Minute)
	send("a minute later", hookID, "192.0.2.1", hookSecret, 202, "")
	for range 4 {
		send("wrong, of an address that others share", shared, "192.0.2.1", "wrong", 401, "unauthenticated")
	}
	large := func(what string, status int, code string) {
		t.Helper()
		req := a.delivery(shared, "github", a.fresh(), "push", `{"a":"`+strings.Repeat("x", transfer.SmallBody)+`"}`)
		req.RemoteAddr = "192.0.2.1:1"
		a.send(req).want(t, what, status, code)
	}
	large("a large one of that address, which is not verified", 429, "rate_limited")
	send("right, of that address", shared, "192.0.2.1", hookSecret, 202, "")
	large("a large one of that address once it is verified", 202, "")
}

var signatures = []string{"X-Hub-Signature-256", "Stripe-Signature", "X-Slack-Signature", "Webhook-Signature", "X-Signature", "X-Token"}

func unsign(r *http.Request) {
	for _, name := range signatures {
		r.Header.Del(name)
	}
}

func double(r *http.Request) {
	for _, name := range signatures {
		if value := r.Header.Get(name); value != "" {
			r.Header.Add(name, value)
		}
	}
}

func TestPingsAndChallenges(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	github, slack := a.newHook(h, "github"), a.newHook(h, "slack")
	for range 2 {
		got := a.deliver(github, "github", "p1", "ping", `{"zen":"Keep it logically awesome.","a":1}`).want(t, "ping", 200, "")
		if string(got.body) != `{"ok":true}` {
			t.Errorf("ping: %s", got.body)
		}
		got = a.deliver(slack, "slack", "", "", `{"token":"t","challenge":"3eZbrw1a","type":"url_verification"}`).want(t, "challenge", 200, "")
		if string(got.body) != `{"challenge":"3eZbrw1a"}` {
			t.Errorf("challenge: %s", got.body)
		}
	}
	a.deliver(slack, "slack", "", "", `{"challenge":"x","type":"url_verification"}`, "X-Slack-Signature: v0="+strings.Repeat("0", 64)).
		want(t, "a challenge of somebody else's", 401, "unauthenticated")
	log := a.ok("GET", "/api/hooks/deliveries?status=answered", "", h.key)
	if log.json(t, "data.1.duplicates") != 1.0 || log.json(t, "data.2") != nil || log.json(t, "data.0.runId") != nil {
		t.Errorf("the log: %s", log.body)
	}
}

// A delivery that starts no run is accepted and logged.
func TestDeliveriesWithoutRuns(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	of := func(hookID, body string) answer {
		t.Helper()
		return a.deliver(hookID, "github", a.fresh(), "issues", body).want(t, body, 202, "")
	}
	filtered := a.newHook(h, "github", `"filter":[{"path":"action","op":"in","value":["opened"]},{"path":"@event","op":"eq","value":"issues"}]`)
	if got := of(filtered, `{"a":1,"action":"closed"}`); got.text(t, "status") != "filtered" || got.json(t, "runId") != nil {
		t.Errorf("filtered: %s", got.body)
	}
	if got := of(filtered, `{"a":1,"action":"opened"}`); got.text(t, "status") != "accepted" {
		t.Errorf("passed: %s", got.body)
	}
	silent := a.newHook(h, "github", `"messageTemplate":"{{a}}"`)
	if got := of(silent, `{"b":1}`); got.text(t, "status") != "refused" || got.text(t, "error.code") != "invalid_request" {
		t.Errorf("an empty message: %s", got.body)
	}
	agentID := a.newAgent(h)
	hookID := a.ok("POST", "/api/hooks", hookBody(agentID, "github"), h.key).text(t, "id")
	a.ok("PUT", "/api/agents?id="+agentID, `{"allowedCallers":["user"]}`, h.key)
	if got := of(hookID, `{"a":1}`); got.text(t, "status") != "refused" || got.text(t, "error.code") != "caller_not_allowed" {
		t.Errorf("an agent for users: %s", got.body)
	}
	a.ok("DELETE", "/api/agents?id="+agentID, "", h.key)
	gone := of(hookID, `{"a":1}`)
	if gone.text(t, "status") != "refused" || gone.text(t, "error.code") != "not_found" || gone.json(t, "runId") != nil {
		t.Errorf("a deleted agent: %s", gone.body)
	}
	if log := a.ok("GET", "/api/hooks/deliveries?status=refused&hookId="+hookID, "", h.key); log.text(t, "data.1.error.code") != "caller_not_allowed" {
		t.Errorf("the log: %s", log.body)
	}
}

// Forms, plain text and empty bodies are valid payloads.
func TestDeliveriesOtherThanJSON(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	hookID := a.newHook(h, "github", `"messageTemplate":"{{a}} {{@payload}}"`)
	send := func(contentType, body, want string) {
		t.Helper()
		req, rec := a.delivery(hookID, "github", a.fresh(), "push", body), httptest.NewRecorder()
		req.Header.Set("Content-Type", contentType)
		a.handler.ServeHTTP(rec, req) // the OpenAPI document describes only JSON deliveries
		got := answer{rec.Code, rec.Header(), rec.Body.Bytes()}.want(t, body, 202, "")
		message, _ := a.input(t, got.text(t, "runId"))
		if message != want {
			t.Errorf("%s: %q, want %q", body, message, want)
		}
	}
	send("application/x-www-form-urlencoded", "payload="+url.QueryEscape(`{"a":1}`), `⟦1⟧ ⟦{"a":1}⟧`)
	send("text/plain", "some words", " ⟦some words⟧")
	send("", "\xff\xfe", " ")
	silent := a.newHook(h, "github", `"messageTemplate":"{{a}}"`)
	rec := httptest.NewRecorder()
	a.handler.ServeHTTP(rec, a.delivery(silent, "github", a.fresh(), "push", `{"a":`))
	if got := (answer{rec.Code, rec.Header(), rec.Body.Bytes()}); !strings.Contains(got.text(t, "error.message"), "the body is not JSON") {
		t.Errorf("broken JSON: %s", got.body)
	}
}

func TestDeliveryLog(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	hookID := a.newHook(h, "stripe", `"filter":[{"path":"a","op":"eq","value":1}]`)
	for _, body := range []string{`{"id":"evt_1","type":"x","a":1}`, `{"id":"evt_2","type":"y","a":2}`, `{"id":"evt_3","type":"z","a":1}`} {
		a.deliver(hookID, "stripe", "", "", body).want(t, body, 202, "")
	}
	at := "/api/hooks/deliveries?hookId=" + hookID
	first := a.ok("GET", at+"&limit=2", "", h.key)
	if first.text(t, "data.0.id") != "evt_3" || first.text(t, "data.1.status") != "filtered" || first.text(t, "data.1.event") != "y" || first.json(t, "data.0.kept") != true {
		t.Errorf("the first page: %s", first.body)
	}
	rest := a.ok("GET", at+"&cursor="+first.text(t, "nextCursor"), "", h.key)
	if rest.text(t, "data.0.id") != "evt_1" || rest.json(t, "hasMore") != false {
		t.Errorf("the second: %s", rest.body)
	}
	if got := a.ok("GET", "/api/hooks/deliveries?runId="+rest.text(t, "data.0.runId"), "", h.key); got.text(t, "data.0.id") != "evt_1" || got.json(t, "data.1") != nil {
		t.Errorf("the delivery found by its run: %s", got.body)
	}
	if filtered := a.ok("GET", at+"&id=evt_2", "", h.key); filtered.json(t, "kept") != false || filtered.json(t, "body") != nil {
		t.Errorf("the filtered delivery: %s", filtered.body)
	}
	a.from("POST", at+"&action=redeliver&id=evt_2", "", h.key).want(t, "what was filtered", 400, "invalid_request id:invalid_value")
	one := a.ok("GET", at+"&id=evt_3", "", h.key)
	if one.text(t, "body") != `{"id":"evt_3","type":"z","a":1}` || one.text(t, "contentType") != "application/json" || one.json(t, "bytes") != 31.0 {
		t.Errorf("one: %s", one.body)
	}
	a.from("GET", at+"&id=evt_4", "", h.key).want(t, "none", 404, "not_found")
	a.ok("PUT", "/api/hooks?id="+hookID, `{"filter":[{"path":"a","op":"eq","value":9}]}`, h.key)
	for n, from := range []string{"evt_3", "evt_3", "evt_3~redelivered-1"} {
		got := a.ok("POST", at+"&action=redeliver&id="+url.QueryEscape(from), "", h.key)
		if want := "evt_3~redelivered-" + string(rune('1'+n)); got.text(t, "deliveryId") != want || got.text(t, "status") != "accepted" || got.json(t, "duplicate") != false {
			t.Errorf("delivered again: %s, want %s", got.body, want)
		}
	}
	a.from("POST", at+"&action=redeliver&id=evt_4", "", h.key).want(t, "none", 404, "not_found")
	a.exec(`DELETE FROM runs WHERE id = $1`, one.text(t, "runId")) // removes the run, as the sweeper does after the retention period
	if bare := a.ok("GET", at+"&id=evt_3", "", h.key); bare.json(t, "kept") != false || bare.json(t, "body") != nil {
		t.Errorf("a delivery whose run was removed: %s", bare.body)
	}
	a.from("POST", at+"&action=redeliver&id=evt_3", "", h.key).want(t, "whose run is kept no longer", 400, "invalid_request id:invalid_value")
	if hook := a.ok("GET", "/api/hooks?id="+hookID, "", h.key); hook.json(t, "lastDeliveryAt") == nil {
		t.Errorf("the hook: %s", hook.body)
	}
	a.ok("PUT", "/api/hooks?id="+hookID, `{"enabled":false}`, h.key)
	a.from("POST", at+"&action=redeliver&id=evt_1", "", h.key).want(t, "while disabled", 409, "conflict")
	a.from("POST", "/api/hooks?id="+hookID+"&action=test", "", h.key).want(t, "a test while disabled", 409, "conflict")
	a.ok("PUT", "/api/hooks?id="+hookID, `{"enabled":true}`, h.key)
	if again := a.ok("POST", at+"&action=redeliver&id=evt_1", "", h.key); again.text(t, "status") != "accepted" {
		t.Errorf("after the hook was enabled: %s", again.body)
	}
}

// Deliveries with the same coalescing key are combined into one run.
func TestDeliveriesAreCoalesced(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	hookID := a.newHook(h, "github", `"coalesce":{"key":"{{pull_request.id}}","windowSeconds":3600,"maxWaitSeconds":3600}`)
	runs := map[string]string{}
	for _, n := range []string{"1", "1", "2", "1"} {
		got := a.deliver(hookID, "github", a.fresh(), "pull_request", `{"a":1,"pull_request":{"id":`+n+`}}`).want(t, n, 202, "")
		if got.text(t, "status") != "coalesced" || runs[n] != "" && runs[n] != got.text(t, "runId") {
			t.Errorf("%s: %s, want run %s", n, got.body, runs[n])
		}
		runs[n] = got.text(t, "runId")
	}
	if runs["1"] == runs["2"] {
		t.Errorf("two keys are one run: %v", runs)
	}
	if got := a.deliver(hookID, "github", a.fresh(), "push", `{"a":1}`); got.text(t, "status") != "accepted" {
		t.Errorf("without a key: %s", got.body)
	}
}

// Deliveries over the rate limit are accepted, and their runs are delayed.
func TestDeliveriesOverTheLimit(t *testing.T) {
	t.Parallel()
	a := newRunEnvFor(t, newTestEnv(t, ratelimit.Settings{Demo: 1, User: 50, System: 51, Widget: unlimited.Widget}))
	h := a.newTestOrg("home")
	hookID := a.newHook(h, "github")
	first := a.deliver(hookID, "github", "seen-before", "push", `{"a":1}`).want(t, "within the limit", 202, "")
	for range 69 {
		a.deliver(hookID, "github", a.fresh(), "push", `{"a":1}`).want(t, "over the limit", 202, "")
	}
	a.deliver(hookID, "github", a.fresh(), "ping", `{"a":1}`).want(t, "what is no run", 200, "")
	var held, all int
	must(t, a.sql.QueryRowContext(t.Context(), `SELECT count(not_before), count(*) FROM open_runs`).Scan(&held, &all))
	if all != 70 || held == 0 || held > 20 {
		t.Errorf("of %d runs %d are put off", all, held)
	}
	a.exec(`UPDATE hooks SET filter = '[{"path":"a","op":"eq","value":9}]' WHERE id = $1`, hookID)
	a.api.hooks.Hooks.Forget(hookID)
	for range 3 {
		if fresh := a.deliver(hookID, "github", a.fresh(), "push", `{"a":1}`); fresh.text(t, "status") != "filtered" || fresh.json(t, "duplicate") != false {
			t.Errorf("filtered in the meantime: %s", fresh.body)
		}
		again := a.deliver(hookID, "github", "seen-before", "push", `{"a":1}`)
		if again.json(t, "duplicate") != true || again.text(t, "runId") != first.text(t, "runId") || again.text(t, "status") != "accepted" {
			t.Errorf("seen before: %s", again.body)
		}
	}
}

// pathShown matches the parts of an error response that depend on the request's path.
var pathShown = regexp.MustCompile(`"instance":"[^"]*"|Content-Length: \d+`)

// If a hook rejects all deliveries, for whatever reason, the response is the same as for a hook
// that never existed.
func TestHooksThatAcceptNoDeliveries(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	shown := func(what, hookID string) string {
		t.Helper()
		a.api.hooks.Hooks.Forget(hookID)
		got := a.deliver(hookID, "github", a.fresh(), "push", `{"a":1}`).want(t, what, 404, "not_found")
		return pathShown.ReplaceAllString(got.shown(), "")
	}
	missing := shown("never existed", id.New(id.Hook))
	change := map[string]func(hookID string){
		"deleted":  func(hookID string) { a.ok("DELETE", "/api/hooks?id="+hookID, "", h.key) },
		"disabled": func(hookID string) { a.ok("PUT", "/api/hooks?id="+hookID, `{"enabled":false}`, h.key) },
		"key revoked": func(hookID string) {
			_, keyID := a.newKey(h, h.owner, domain.KeyScopeOrganization)
			a.ok("PUT", "/api/hooks?id="+hookID, `{"keyId":"`+keyID+`"}`, h.key)
			a.ok("DELETE", "/api/keys?id="+keyID, "", h.owner.auth, h.header)
		},
		"key expired": func(hookID string) {
			_, keyID := a.newKey(h, h.owner, domain.KeyScopeOrganization)
			a.ok("PUT", "/api/hooks?id="+hookID, `{"keyId":"`+keyID+`"}`, h.key)
			a.exec(`UPDATE api_keys SET expires_at = now() - interval '1 second' WHERE id = $1`, keyID)
		},
	}
	for what, do := range change {
		hookID := a.newHook(h, "github")
		a.deliver(hookID, "github", a.fresh(), "push", `{"a":1}`).want(t, what+", before", 202, "")
		do(hookID)
		if got := shown(what, hookID); got != missing {
			t.Errorf("%s: %s, want %s", what, got, missing)
		}
	}
	for _, hookID := range []string{"x", "hook_", id.New(id.Agent), "hook_8zzzzzzzzzzzzzzzzzzzzzzzzz", "..%2Fhooks", strings.Repeat("a", 5000)} {
		if got := shown(hookID, hookID); got != missing {
			t.Errorf("%.40s: %.200s, want %s", hookID, got, missing)
		}
	}
	a.from("GET", hook.ReceivePath+id.New(id.Hook), "").want(t, "another method", 405, "method_not_allowed")
}

// The id alone identifies a delivery if only one hook has a delivery with that id. If the query
// names a hook, the delivery must belong to that hook.
func TestDeliveriesAreReadByIDAlone(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h, other := a.newTestOrg("red"), a.newTestOrg("blue")
	first, second := a.newHookWithDelivery(h), a.newHookWithDelivery(h)
	a.deliver(second, "hmac", "d2", "", `{"a":"red"}`).want(t, "delivering", 202, "")
	a.deliver(a.newHookWithDelivery(other), "hmac", "d3", "", `{"a":"blue"}`).want(t, "delivering", 202, "")
	const path = "/api/hooks/deliveries?id="
	for query, hookID := range map[string]string{"d2": second, "d2&hookId=" + second: second, "d1&hookId=" + first: first} {
		if got := a.ok("GET", path+query, "", h.key); got.text(t, "hookId") != hookID || got.text(t, "body") != `{"a":"red"}` {
			t.Errorf("%s: %s", query, got.body)
		}
	}
	for _, query := range []string{"none", "d3", "%00", "%ff", "none&hookId=" + first, "d2&hookId=" + first, "d2&hookId=x"} {
		a.from("GET", path+query, "", h.key).want(t, query, 404, "not_found")
		a.from("POST", path+query+"&action=redeliver", "", h.key).want(t, "delivering again "+query, 404, "not_found")
	}
	a.from("GET", path+"d1", "", h.key).want(t, "of two hooks", 400, "invalid_request hookId:required")
	a.from("POST", path+"d2&action=redeliver", "", h.key).want(t, "delivering again without a hook", 400, "invalid_request hookId:required")
}
