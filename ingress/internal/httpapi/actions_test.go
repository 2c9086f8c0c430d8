package httpapi

import (
	"strings"
	"testing"

	"parley/shared/domain"
	"parley/shared/id"
)

// decide sends a decision about a tool call of a run.
func (a *runEnv) decide(runID, action, callID string, headers ...string) answer {
	a.t.Helper()
	return a.from("POST", "/api/runs?id="+runID+"&action="+action+"&toolCallId="+callID, "", headers...)
}

func TestWhatARunWaitsForIsShown(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	agentID := a.newAgent(h)
	chat := []string{"POST", "/api/agents?action=chat&id=" + agentID, `{"sessionId":"s","message":"m"}`}
	runID := a.ok(chat[0], chat[1], chat[2], h.key, "Idempotency-Key: k", "Prefer: respond-async").text(t, "id")
	other := a.newChat(h, agentID, "other", h.key)
	a.park(runID, "publish", domain.ActionApproval)
	one := a.ok("GET", "/api/runs?id="+runID, "", h.key)
	expires := one.text(t, "requiredAction.expiresAt")
	if one.text(t, "status") != "requires_action" || expires == "" {
		t.Fatalf("the run is %s", one.body)
	}
	want := `"requiredAction":{"kind":"approval","toolCallId":"call_1","name":"publish","input":{"publish":"publish"},"expiresAt":"` + expires + `"}`
	for name, got := range map[string]answer{
		"read":              one,
		"long poll":         a.ok("GET", "/api/runs?wait=1&id="+runID, "", h.key),
		"listed":            a.ok("GET", "/api/runs?agentId="+agentID, "", h.key),
		"filtered":          a.ok("GET", "/api/runs?status=requires_action", "", h.key),
		"asked for again":   a.from(chat[0], chat[1], chat[2], h.key, "Idempotency-Key: k").want(t, "again", 202, ""),
		"without a wait":    a.from(chat[0], chat[1], chat[2], h.key, "Idempotency-Key: k", "Prefer: respond-async").want(t, "again", 202, ""),
		"of another member": a.ok("GET", "/api/runs?id="+runID, "", h.admin.auth, h.header),
	} {
		if !strings.Contains(string(got.body), want) {
			t.Errorf("%s: %s lacks %s", name, got.body, want)
		}
	}
	if list := a.ok("GET", "/api/runs?status=requires_action", "", h.key); list.json(t, "data.1") != nil || strings.Contains(string(list.body), other) {
		t.Errorf("the action that waits for a decision: %s", list.body)
	}
	a.decide(runID, "approve", "call_1", h.key).want(t, "approving", 200, "")
	for _, path := range []string{"?id=" + runID, "?agentId=" + agentID} {
		if got := a.ok("GET", "/api/runs"+path, "", h.key); strings.Contains(string(got.body), "requiredAction") {
			t.Errorf("%s after the decision: %s", path, got.body)
		}
	}
	if list := a.ok("GET", "/api/runs?status=requires_action", "", h.key); list.json(t, "data.0") != nil {
		t.Errorf("the action that waits for a decision: %s", list.body)
	}
}

func TestEachDecisionHasItsAction(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	agentID := a.newAgent(h)
	all := append(domain.ActionApproval.Decisions(), domain.ActionUnknownOutcome.Decisions()...)
	for _, kind := range []domain.ActionKind{domain.ActionApproval, domain.ActionUnknownOutcome} {
		for _, right := range kind.Decisions() {
			what, runID := string(kind)+" "+string(right), a.newChat(h, agentID, a.fresh(), h.key)
			a.decide(runID, string(right), "call_1", h.key).want(t, what+" of a run that waits for nothing", 400, "invalid_request toolCallId:invalid_value")
			a.park(runID, "publish", kind)
			for _, wrong := range all {
				if !kind.Takes(wrong) {
					a.decide(runID, string(wrong), "call_1", h.key).want(t, what+" by "+string(wrong), 409, "conflict")
				}
			}
			a.decide(runID, string(right), "call_2", h.key).want(t, what+" of another call", 400, "invalid_request toolCallId:invalid_value")
			got := a.decide(runID, string(right), "call_1", h.key).want(t, what, 200, "")
			again := a.decide(runID, string(right), "call_1", h.key).want(t, what+" again", 200, "")
			status, code := "queued", ""
			if right == domain.DecisionAbandon {
				status, code = "failed", "outcome_unknown_abandoned"
			}
			if got.text(t, "status") != status || got.text(t, "error.code") != code || string(again.body) != string(got.body) {
				t.Errorf("%s gives %s, and again %s", what, got.body, again.body)
			}
			for _, other := range kind.Decisions() {
				if other != right {
					a.decide(runID, string(other), "call_1", h.key).want(t, what+", then "+string(other), 409, "version_conflict")
				}
			}
		}
	}
}

func TestDecisionsNameTheirCall(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	runID := a.newChat(h, a.newAgent(h), "s", h.key)
	a.park(runID, "publish", domain.ActionApproval)
	for query, problems := range map[string]string{
		"action=approve":                                "toolCallId:required",
		"action=approve&toolCallId=":                    "toolCallId:invalid_value",
		"action=approve&toolCallId=call_1&toolCallId=x": "toolCallId:duplicate",
		"action=approve&toolCallId=%00":                 "toolCallId:invalid_value",
		"action=approve&toolCallId=" + long(1001):       "toolCallId:too_long",
		"action=approve&toolCallId=" + long(1000):       "toolCallId:invalid_value",
		"action=Approve&toolCallId=call_1":              "action:invalid_value",
		"action=approved&toolCallId=call_1":             "action:invalid_value",
		"toolCallId=call_1":                             "action:invalid_value",
		"action=approve&action=deny&toolCallId=call_1":  "action:duplicate",
		"action=import-openapi&toolCallId=call_1":       "action:invalid_value",
		"action=requires_action&toolCallId=call_1":      "action:invalid_value",
		"action=cancel&toolCallId=call_1":               "toolCallId:conflict",
	} {
		a.from("POST", "/api/runs?id="+runID+"&"+query, "", h.key).want(t, query, 400, "invalid_request "+problems)
	}
	if got := a.ok("GET", "/api/runs?id="+runID, "", h.key); got.text(t, "status") != "requires_action" {
		t.Errorf("the run became %s", got.body)
	}
}

func long(n int) string { return strings.Repeat("x", n) }

func TestWhoMayDecide(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h, away := a.newTestOrg("home"), a.newTestOrg("away")
	agentID := a.newAgent(h)
	waiting := func(headers ...string) string {
		runID := a.newChat(h, agentID, a.fresh(), headers...)
		a.park(runID, "publish", domain.ActionApproval)
		return runID
	}
	members := waiting(h.member.auth, h.header)
	owners := waiting(h.owner.auth)
	for name, c := range map[string]struct {
		runID, problems string
		headers         []string
		status          int
	}{
		"nobody":                  {members, "unauthenticated", nil, 401},
		"a demo visitor":          {members, "demo_restricted", []string{sayDemo}, 403},
		"somebody elsewhere":      {members, "not_found", []string{away.owner.auth}, 404},
		"another member":          {owners, "not_found", []string{h.member.auth, h.header}, 404},
		"the member's key":        {members, "not_found", []string{h.memberKey, h.header}, 404},
		"no run":                  {id.New(id.Run), "not_found", []string{h.key}, 404},
		"no id":                   {"run_x", "not_found", []string{h.key}, 404},
		"a page of another place": {owners, "permission_denied", []string{h.owner.cookie, "Origin: https://evil.example.com"}, 403},
	} {
		a.decide(c.runID, "approve", "call_1", c.headers...).want(t, name, c.status, c.problems)
	}
	a.decide(members, "deny", "call_1", h.member.auth, h.header).want(t, "the member", 200, "")
	a.decide(owners, "approve", "call_1", h.admin.auth, h.header).want(t, "an admin", 200, "")
	var by string
	must(t, a.sql.QueryRowContext(t.Context(), `SELECT string_agg(decided_by, ' ' ORDER BY run_id) FROM effects`).Scan(&by))
	if by != h.member.id+" "+h.admin.id {
		t.Errorf("decided by %s", by)
	}
}

func TestDecisionsAboutRunsThatHaveEnded(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	agentID := a.newAgent(h)
	cancelled := a.newChat(h, agentID, "s", h.key)
	a.park(cancelled, "publish", domain.ActionApproval)
	ended := a.ok("POST", "/api/runs?action=cancel&id="+cancelled, "", h.key)
	if ended.text(t, "status") != "cancelled" || strings.Contains(string(ended.body), "requiredAction") {
		t.Errorf("cancelled while it waited: %s", ended.body)
	}
	a.decide(cancelled, "approve", "call_1", h.key).want(t, "too late", 409, "version_conflict")
	done := a.newChat(h, agentID, "t", h.key)
	a.park(done, "publish", domain.ActionApproval)
	a.decide(done, "approve", "call_1", h.key).want(t, "in time", 200, "")
	a.finish("done", done)
	if got := a.decide(done, "approve", "call_1", h.key).want(t, "the same again", 200, ""); got.text(t, "status") != "completed" {
		t.Errorf("the same again gives %s", got.body)
	}
	a.decide(done, "deny", "call_1", h.key).want(t, "otherwise", 409, "version_conflict")
	late := a.newChat(h, agentID, "u", h.key)
	a.park(late, "publish", domain.ActionApproval)
	a.ok("DELETE", "/api/sessions?id=u&agentId="+agentID, "", h.key)
	a.decide(late, "approve", "call_1", h.key).want(t, "of an erased run", 410, "erased")
}

func TestSources(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h, away := a.newTestOrg("home"), a.newTestOrg("away")
	text := "Zürich 🏔 苏黎世\nas it was read"
	sourceID := a.saveSource(a.newChat(h, a.newAgent(h), "s", h.owner.auth), "wiki", text)
	got := a.ok("GET", "/api/sources?id="+sourceID, "", h.member.auth, h.header)
	for path, want := range map[string]any{
		"id": sourceID, "url": "https://wiki.example.com/", "title": "wiki page", "language": "en", "text": text, "characters": 27.0, "truncated": true,
	} {
		if got.json(t, path) != want {
			t.Errorf("%s is %v, want %v", path, got.json(t, path), want)
		}
	}
	if len(got.text(t, "readAt")) != len("2026-11-21T09:31:00.412Z") {
		t.Errorf("read at %s", got.text(t, "readAt"))
	}
	foreign := a.saveSource(a.newChat(away, a.newAgent(away), "s", away.key), "away", "another's text")
	first := ""
	for name, sourceID := range map[string]string{
		"foreign": foreign, "missing": "src_" + strings.Repeat("0", 64), "capitals": strings.ToUpper(sourceID), "half of it": sourceID[:40],
		"more": sourceID + "0", "no prefix": sourceID[4:], "another prefix": "run_" + sourceID[4:], "a run": id.New(id.Run), "hex": "src_" + strings.Repeat("zz", 32),
	} {
		got := a.from("GET", "/api/sources?id="+sourceID, "", h.key).want(t, name, 404, "not_found")
		if first == "" {
			first = got.shown()
		}
		if got.shown() != first {
			t.Errorf("%s: %s differs from %s", name, got.body, first)
		}
	}
	a.from("GET", "/api/sources", "", h.key).want(t, "no id", 400, "invalid_request id:required")
	a.from("GET", "/api/sources?id="+sourceID+"&id="+sourceID, "", h.key).want(t, "two ids", 400, "invalid_request id:duplicate")
	a.from("GET", "/api/sources?id="+sourceID, "", sayDemo).want(t, "demo", 403, "demo_restricted")
	a.from("GET", "/api/sources?id="+sourceID, "").want(t, "nobody", 401, "unauthenticated")
	// Each organization stores its own copy of a text that its runs have read.
	same := a.saveSource(a.newChat(away, a.newAgent(away), "t", away.key), "away", text)
	if theirs := a.ok("GET", "/api/sources?id="+same, "", away.key); same != sourceID || theirs.text(t, "title") != "away page" {
		t.Errorf("the other organization reads %s", theirs.body)
	}
}

// TestActionsNeedTheirMethod sends each action with a wrong method. The error names the right
// method.
func TestActionsNeedTheirMethod(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	agentID := a.newAgent(h)
	for request, want := range map[string]string{
		"GET /api/agents?action=preview&id=" + agentID: "the action preview requires the method POST",
		"GET /api/agents?action=chat&id=" + agentID:    "the action chat requires the method POST",
		"HEAD /api/runs?action=cancel":                 "",
		"GET /api/runs?action=cancel":                  "the action cancel requires the method POST",
		"GET /api/runs?action=approve":                 "the actions of this path require the method POST",
		"DELETE /api/keys?action=rotate&id=" + h.keyID: "the action rotate requires the method POST",
	} {
		method, path, _ := strings.Cut(request, " ")
		got := a.from(method, path, "", h.key)
		if method == "HEAD" {
			if got.status != 400 {
				t.Errorf("%s: %d", request, got.status)
			}
			continue
		}
		got.want(t, request, 400, "invalid_request action:invalid_value")
		if message := got.text(t, "errors.0.message"); message != want {
			t.Errorf("%s: %s", request, message)
		}
	}
	a.from("GET", "/api/agents?action=fly", "", h.key).want(t, "an unknown action", 400, "invalid_request action:unknown_field")
}

// TestErrorsListTheActions sends requests without a valid action. The errors list the actions that
// the request's other parameters permit.
func TestErrorsListTheActions(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	for path, want := range map[string]string{
		"/api/agents?template=tpl_support":            "is required with template and must be chat",
		"/api/agents?id=" + a.newAgent(h):             "is required with id and must be one of chat, check, import-openapi, preview",
		"/api/agents?action=dance":                    "must be given once, and must be one of chat, check, import-openapi, preview",
		"/api/keys?id=" + h.keyID:                     "is required with id and must be rotate",
		"/api/keys?action=rotate&action=rotate&id=ak": "must be given once, and must be rotate",
		"/api/keys?template=tpl_support":              "is not a parameter of this operation",
	} {
		got := a.from("POST", path, `{"name":"n","scope":"organization"}`, h.key)
		if message := got.text(t, "errors.0.message"); got.status != 400 || message != want {
			t.Errorf("%s: %d %s", path, got.status, message)
		}
	}
}
