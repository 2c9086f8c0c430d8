package httpapi

import (
	"encoding/base64"
	"strconv"
	"strings"
	"testing"

	"parley/ingress/internal/httpapi/httpx"
)

func TestAutomationsAreListedByName(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h, away := a.newTestOrg("home"), a.newTestOrg("away")
	trigger := func(h *testOrg, agentID, automation, kind string) string {
		t.Helper()
		return a.ok("POST", "/api/internal/run-automation", `{"target":"`+agentID+`","input":{"message":"m"}}`, h.key,
			"Prefer: respond-async", "X-Automation-Id: "+automation, "X-Trigger-Type: "+kind).text(t, "id")
	}
	agentID := a.ok("POST", "/api/agents", `{"name":"n","systemPrompt":"p","allowedCallers":["system"]}`, h.key).text(t, "id")
	foreign := a.ok("POST", "/api/agents", `{"name":"n","systemPrompt":"p","allowedCallers":["system"]}`, away.key).text(t, "id")
	if got := a.ok("GET", "/api/automations", "", h.key); got.json(t, "data.0") != nil || got.json(t, "hasMore") != false {
		t.Errorf("without any: %s", got.body)
	}
	first := trigger(h, agentID, "nightly", "schedule")
	a.finish("answer", first)
	second := trigger(h, agentID, "nightly", "webhook")
	trigger(h, agentID, "ünlü", "api")
	trigger(away, foreign, "theirs", "api")
	page := a.ok("GET", "/api/automations?limit=1", "", h.admin.auth, h.header)
	if page.text(t, "data.0.id") != "nightly" || page.text(t, "data.0.agentId") != agentID || page.text(t, "data.0.triggerType") != "webhook" ||
		page.text(t, "data.0.lastRun.id") != second || page.text(t, "data.0.lastRun.status") != "queued" ||
		page.json(t, "data.0.lastRun.kept") != true || page.json(t, "hasMore") != true {
		t.Errorf("%s", page.body)
	}
	rest := a.ok("GET", "/api/automations?cursor="+page.text(t, "nextCursor"), "", h.key)
	if rest.text(t, "data.0.id") != "ünlü" || rest.json(t, "data.1") != nil || rest.json(t, "nextCursor") != nil {
		t.Errorf("%s", rest.body)
	}
	if got := a.ok("GET", "/api/runs?automationId=nightly", "", h.key); got.text(t, "data.0.id") != second || got.text(t, "data.1.id") != first {
		t.Errorf("runs of the automation: %s", got.body)
	}
	encoded := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	for query, problems := range map[string]string{
		"limit=0": "limit:invalid_value", "limit=101&cursor=*": "limit:invalid_value cursor:invalid_value", "cursor=": "cursor:invalid_value", "cursor=*": "cursor:invalid_value",
		"cursor=" + encoded("a\x00"): "cursor:invalid_value", "cursor=" + encoded("\xff"): "cursor:invalid_value",
		"cursor=" + encoded(strings.Repeat("ü", 129)): "cursor:invalid_value", "cursor=YQ&cursor=YQ": "cursor:duplicate",
	} {
		a.from("GET", "/api/automations?"+query, "", h.key).want(t, query, 400, "invalid_request "+problems)
	}
	a.ok("GET", "/api/automations?cursor="+encoded(strings.Repeat("ü", 128)), "", h.key)
}

// An automation whose runs were all removed is still listed, without the data of the runs, and its
// usage still counts.
func TestRemovedRunsKeepTheirUsage(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	agentID := a.ok("POST", "/api/agents", `{"name":"n","systemPrompt":"p","allowedCallers":["system"]}`, h.key).text(t, "id")
	runID := a.ok("POST", "/api/internal/run-automation", `{"target":"`+agentID+`","input":{"message":"m"}}`, h.key,
		"Prefer: respond-async", "X-Automation-Id: nightly", "X-Trigger-Type: schedule").text(t, "id")
	a.finish("answer", runID)
	a.exec(`UPDATE runs SET expires_at = now(), sweep_after = now() WHERE id = $1`, runID)
	if n, err := a.store.Sessions.DeleteExpired(t.Context(), 10); n != 1 || err != nil {
		t.Fatalf("%d runs were removed: %v", n, err)
	}
	a.from("GET", "/api/runs?id="+runID, "", h.key).want(t, "the run", 404, "not_found")
	list := a.ok("GET", "/api/automations", "", h.key)
	if list.text(t, "data.0.id") != "nightly" || list.text(t, "data.0.agentId") != agentID || list.text(t, "data.0.lastRun.id") != runID ||
		list.text(t, "data.0.lastRun.status") != "completed" || list.json(t, "data.0.lastRun.kept") != false {
		t.Errorf("%s", list.body)
	}
	if got := a.ok("GET", "/api/runs?automationId=nightly", "", h.key); got.json(t, "data.0") != nil {
		t.Errorf("runs of the automation: %s", got.body)
	}
	for query, runs := range map[string]float64{"": 1, "?days=1": 1, "?days=90&agentId=" + agentID: 1, "?agentId=" + a.newAgent(h): 0} {
		got := a.ok("GET", "/api/usage"+query, "", h.key)
		if got.json(t, "totals.runs") != runs || got.json(t, "totals.completed") != runs || (got.json(t, "totals.p95Ms") != nil) != (runs > 0) {
			t.Errorf("%s: %s", query, got.body)
		}
	}
	away := a.newTestOrg("away")
	if got := a.ok("GET", "/api/usage", "", away.key); got.json(t, "totals.runs") != 0.0 {
		t.Errorf("another organization: %s", got.body)
	}
	if got := a.ok("GET", "/api/automations", "", away.key); got.json(t, "data.0") != nil {
		t.Errorf("another organization: %s", got.body)
	}
}

// Runs that a member's key triggers belong to that member. The member can access neither the runs
// nor the sessions of the organization's automations.
func TestAMembersAutomationIsTheirOwn(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	agentID := a.newAgent(h)
	trigger := func(headers ...string) string {
		t.Helper()
		got := a.ok("POST", "/api/internal/run-automation", `{"target":"`+agentID+`","input":{"message":"m"},"sessionId":"s"}`,
			append(headers, "Prefer: respond-async")...)
		if at := got.header.Get("Location"); at != "/api/runs?id="+got.text(t, "id") {
			t.Errorf("Location: %s", at)
		}
		return got.text(t, "id")
	}
	own, others := trigger(h.memberKey, h.header), trigger(h.key)
	if got := a.ok("GET", "/api/runs", "", h.memberKey, h.header); got.text(t, "data.0.id") != own || got.json(t, "data.1") != nil {
		t.Errorf("listed: %s", got.body)
	}
	a.ok("GET", "/api/runs?id="+own, "", h.memberKey, h.header)
	a.ok("GET", "/api/runs?id="+own, "", h.key)
	a.from("GET", "/api/runs?id="+others, "", h.memberKey, h.header).want(t, "the organization's", 404, "not_found")
	for who, sessions := range map[string]int{h.memberKey: 1, h.key: 2} {
		for n := range 3 {
			if got := a.ok("GET", "/api/sessions", "", who, h.header).json(t, "data."+strconv.Itoa(n)); (got != nil) != (n < sessions) {
				t.Errorf("session %d of %d: %v", n, sessions, got)
			}
		}
	}
	a.ok("POST", "/api/runs?action=cancel&id="+own, "", h.memberKey, h.header)
}

func TestAutomationsHaveNamesThatCanBeRead(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"nightly ☾": true, "👩‍🚀 ünlü": true, "می\u200cخواهم": true, strings.Repeat("ü", 128): true,
		"": false, " ": false, "\u3000": false, strings.Repeat("ü", 129): false, "a\tb": false, "\u2028": false, "\u202e\u200b": false, "\u00ad": false, "\ue000": false, "\u0378": false, "\xff": false,
	} {
		found := &httpx.Problems{}
		httpx.CheckAutomationID(found, "x-automation-id", name)
		if (found.Err() == nil) != want {
			t.Errorf("%q: %v", name, found.Err())
		}
	}
}

func TestTriggerHeadersAreSentOnce(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	body := `{"target":"` + a.newAgent(h) + `","input":{"message":"m"}}`
	for _, name := range []string{"x-trigger-type", "x-automation-id"} {
		a.from("POST", "/api/internal/run-automation", body, h.key, name+": nightly", name+": nightly").
			want(t, name, 400, "invalid_request "+name+":duplicate")
	}
}
