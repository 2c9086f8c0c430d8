package httpapi

import (
	"encoding/base64"
	"strings"
	"testing"
)

func TestAutomationsAreListedByName(t *testing.T) {
	t.Parallel()
	a := newArena(t)
	h, away := a.newHouse("home"), a.newHouse("away")
	trigger := func(h *house, agentID, automation, kind string) string {
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
		page.text(t, "data.0.lastRun.id") != second || page.text(t, "data.0.lastRun.status") != "queued" || page.json(t, "hasMore") != true {
		t.Errorf("%s", page.body)
	}
	rest := a.ok("GET", "/api/automations?cursor="+page.text(t, "nextCursor"), "", h.key)
	if rest.text(t, "data.0.id") != "ünlü" || rest.json(t, "data.1") != nil || rest.json(t, "nextCursor") != nil {
		t.Errorf("%s", rest.body)
	}
	if got := a.ok("GET", "/api/runs?automationId=nightly", "", h.key); got.text(t, "data.0.id") != second || got.text(t, "data.1.id") != first {
		t.Errorf("its runs: %s", got.body)
	}
	encoded := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	for query, problems := range map[string]string{
		"limit=0": "limit:invalid_value", "limit=101&cursor=": "limit:invalid_value cursor:invalid_value", "cursor=*": "cursor:invalid_value",
		"cursor=" + encoded("a\x00"): "cursor:invalid_value", "cursor=" + encoded("\xff"): "cursor:invalid_value",
		"cursor=" + encoded(strings.Repeat("ü", 129)): "cursor:invalid_value", "cursor=YQ&cursor=YQ": "cursor:duplicate",
	} {
		a.from("GET", "/api/automations?"+query, "", h.key).want(t, query, 400, "invalid_request "+problems)
	}
	a.ok("GET", "/api/automations?cursor="+encoded(strings.Repeat("ü", 128)), "", h.key)
}
