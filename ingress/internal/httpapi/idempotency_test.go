package httpapi

import (
	"testing"

	"parley/shared/domain"
)

// triggered sends a run-automation request with an idempotency key and returns the run's id. The
// argument message is the content of the request.
func (a *runEnv) triggered(agentID, key, message string, headers ...string) string {
	a.t.Helper()
	return a.ok("POST", "/api/internal/run-automation",
		`{"target":"`+agentID+`","input":{"message":"`+message+`"},"idempotencyKey":"`+key+`"}`, append(headers, "Prefer: respond-async")...).text(a.t, "id")
}

// All API keys of an organization share their idempotency keys for automations, and so do all API
// keys of a user. A repeated request with another of these API keys gets the existing run.
func TestIdempotencyKeysBelongToTheCaller(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	agentID := a.newAgent(h)
	second, _ := a.newKey(h, h.admin, domain.KeyScopeOrganization)
	memberSecond, _ := a.newKey(h, h.member, domain.KeyScopeUser)
	ownerSecond, _ := a.newKey(h, h.owner, domain.KeyScopeUser)
	another := a.person("another")
	a.enter(another, h.org, domain.RoleMember)
	anotherKey, _ := a.newKey(h, another, domain.KeyScopeUser)

	callers := map[string][2]string{ // each caller has two keys
		"organization": {h.key, second}, "member": {h.memberKey, memberSecond}, "another member": {anotherKey, anotherKey},
		"owner": {h.ownerKey, ownerSecond},
	}
	runs := map[string]string{}
	for who, keys := range callers {
		// The messages differ. If two callers shared an idempotency key, the status would be 422.
		runID := a.triggered(agentID, "nightly", who, keys[0], h.header)
		if again := a.triggered(agentID, "nightly", who, keys[1], h.header); again != runID {
			t.Errorf("two keys of %s began the runs %s and %s", who, runID, again)
		}
		for other, theirs := range runs {
			if theirs == runID {
				t.Errorf("%s was given the run of %s", who, other)
			}
		}
		runs[who] = runID
		for _, key := range keys {
			a.ok("GET", "/api/runs?id="+runID, "", key, h.header)
		}
	}
	a.finish("answer", runs["organization"], runs["member"])
	for _, who := range []string{"organization", "member"} {
		got := a.ok("POST", "/api/internal/run-automation", `{"target":"`+agentID+`","input":{"message":"`+who+`"},"idempotencyKey":"nightly"}`,
			callers[who][1], h.header)
		if got.text(t, "id") != runs[who] || got.header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("replay to %s: %v %s", who, got.header, got.body)
		}
	}
	reuse := `{"target":"` + agentID + `","input":{"message":"other"},"idempotencyKey":"nightly"}`
	a.from("POST", "/api/internal/run-automation", reuse, memberSecond, h.header).want(t, "another request", 422, "idempotency_key_reused")
}

// A member can read, list and cancel the runs that the member's keys have triggered, with any of
// the member's credentials. No other member can.
func TestMembersShareTheirAutomations(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	agentID := a.newAgent(h)
	second, _ := a.newKey(h, h.member, domain.KeyScopeUser)
	another := a.person("another")
	a.enter(another, h.org, domain.RoleMember)
	runID := a.triggered(agentID, "k", "m", h.memberKey, h.header)
	chatID := a.newChat(h, agentID, "mine", second, h.header)
	for who, headers := range map[string][]string{"key": {h.memberKey, h.header}, "second key": {second, h.header}, "login": {h.member.auth, h.header}} {
		listed := map[any]bool{}
		list := a.ok("GET", "/api/runs", "", headers...)
		for _, run := range list.json(t, "data").([]any) {
			listed[run.(map[string]any)["id"]] = true
		}
		if !listed[runID] || listed[chatID] != (who == "second key") {
			t.Errorf("the member's %s lists %s", who, list.body)
		}
		sessions := a.ok("GET", "/api/sessions", "", headers...)
		if n := len(sessions.json(t, "data").([]any)); n != map[bool]int{true: 2, false: 1}[who == "second key"] {
			t.Errorf("the member's %s lists %s", who, sessions.body)
		}
		a.ok("GET", "/api/runs?timeline=1&id="+runID, "", headers...)
		named := a.ok("GET", "/api/sessions?principal=system:"+h.member.id, "", headers...)
		sessionID := named.text(t, "data.0.id")
		a.ok("GET", "/api/sessions?principal=system:"+h.member.id+"&agentId="+agentID+"&id="+sessionID, "", headers...)
	}
	for who, headers := range map[string][]string{"another member": {another.auth, h.header}} {
		a.from("GET", "/api/runs?id="+runID, "", headers...).want(t, who, 404, "not_found")
		a.from("POST", "/api/runs?action=cancel&id="+runID, "", headers...).want(t, who, 404, "not_found")
		if got := a.ok("GET", "/api/sessions?principal=system:"+h.member.id, "", headers...); got.json(t, "data.0") != nil {
			t.Errorf("%s lists %s", who, got.body)
		}
	}
	a.from("GET", "/api/runs?id="+chatID, "", h.memberKey, h.header).want(t, "the other key's chat", 404, "not_found")
	a.ok("POST", "/api/runs?action=cancel&id="+runID, "", second, h.header)
}

// A replay does not return a run that the caller may no longer read.
func TestReplaysRequireReadPermission(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	agentID := a.newAgent(h)
	promoted := a.person("promoted")
	a.enter(promoted, h.org, domain.RoleAdmin)
	key, keyID := a.newKey(h, promoted, domain.KeyScopeUser)
	runID := a.triggered(agentID, "k", "m", key, h.header)
	a.finish("answer", runID)
	a.exec(`UPDATE memberships SET role = 'member' WHERE org_id = $1 AND user_id = $2`, h.org, promoted.id)
	a.api.Auth.ForgetKey(keyID)
	a.from("GET", "/api/runs?id="+runID, "", key, h.header).want(t, "the run", 404, "not_found")
	body := `{"target":"` + agentID + `","input":{"message":"m"},"idempotencyKey":"k"}`
	a.from("POST", "/api/internal/run-automation", body, key, h.header).want(t, "its replay", 403, "permission_denied")
}

// A key created by rotation has access to the sessions and idempotency keys of the old key.
func TestRotatedKeysStayOnePrincipal(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	agentID := a.newAgent(h)
	for scope, owner := range map[domain.KeyScope]person{domain.KeyScopeOrganization: h.owner, domain.KeyScopeUser: h.member} {
		first, keyID := a.newKey(h, owner, scope)
		chat := func(key, message, idempotencyKey string) string {
			t.Helper()
			return a.ok("POST", "/api/agents?action=chat&id="+agentID, `{"sessionId":"s","message":"`+message+`"}`,
				key, h.header, "Idempotency-Key: "+idempotencyKey, "Prefer: respond-async").text(t, "id")
		}
		begun := chat(first, "one", "k")
		a.finish("answer", begun)
		key := first
		for n := range 2 {
			rotated := a.ok("POST", "/api/keys?action=rotate&id="+keyID, "", owner.auth, h.header)
			key, keyID = "X-Api-Key: "+rotated.text(t, "key"), rotated.text(t, "id")
			if again := chat(key, "one", "k"); again != begun {
				t.Errorf("%s: the same chat under the same key ran twice after %d rotations", scope, n+1)
			}
		}
		a.finish("another", chat(key, "two", "k2"))
		session := a.ok("GET", "/api/sessions?id=s&agentId="+agentID, "", key, h.header)
		if session.json(t, "runs") != 2.0 || session.text(t, "messages.0.content") != "one" {
			t.Errorf("%s: the session of the successor is %s", scope, session.body)
		}
		if old := a.ok("GET", "/api/sessions?id=s&agentId="+agentID, "", first, h.header); string(old.body) != string(session.body) {
			t.Errorf("%s: the key that was rotated reads %s, its successor %s", scope, old.body, session.body)
		}
		a.ok("GET", "/api/runs?id="+begun, "", key, h.header)
		if other, _ := a.newKey(h, owner, scope); chat(other, "one", "k") == begun {
			t.Errorf("%s: a key that succeeds no other is given the run", scope)
		}
	}
}
