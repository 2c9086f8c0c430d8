package httpapi

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"parley/ingress/internal/httpapi/voice"
	"parley/shared/domain"
	"parley/shared/testkit"
)

const secretsPath = voice.RealtimePath + "/client_secrets"

// secretFor creates a client secret for an agent.
func (a *runEnv) secretFor(agentID, query, settings string, headers ...string) (secret, sessionID string) {
	a.t.Helper()
	got := a.ok("POST", secretsPath+query, `{"session":{"type":"realtime","model":"`+agentID+`"`+settings+`}}`, headers...)
	return got.text(a.t, "value"), got.text(a.t, "session.id")
}

// asProtocol returns the header in which browsers send a credential as a subprotocol.
func asProtocol(credential string) string {
	return offered + "realtime, openai-insecure-api-key." + credential
}

// A page uses a client secret to talk with an agent. The connection acts as the creator of the
// secret, with the session and the settings that the secret contains.
func TestAPageConnectsWithAClientSecret(t *testing.T) {
	t.Parallel()
	b := newVoiceEnv(t, manyRequests)
	b.startWorker(func(runID, message string) { b.end(runID, answers("re: "+message)) })
	b.ok("PUT", "/api/agents?id="+b.agent, `{"widget":{"enabled":true,"allowedOrigins":["`+widgetPage+`"]}}`, b.owner.auth)
	secret, sessionID := b.secretFor(b.agent, "", `,"output_modalities":["text"],"instructions":"Be brief."`,
		b.member.cookie, b.header, "Origin: http://parley.test", "Sec-Fetch-Site: same-origin")
	if !strings.HasPrefix(sessionID, "rt_") {
		t.Errorf("session %q", sessionID)
	}
	for i, c := range []struct{ query, origin string }{
		{"?model=" + b.agent, widgetPage}, {"", "http://parley.test"}, {"?session_id=" + sessionID, widgetPage},
	} {
		k := b.open(t, c.query, "Origin: "+c.origin, "Cookie: parley_session=x", asProtocol(secret))
		if k.id != sessionID || k.socket.Subprotocol() != "realtime" {
			t.Errorf("%v: session %q, protocol %q", c, k.id, k.socket.Subprotocol())
		}
		k.says("hello")
		status, text, runID := k.answered()
		run, err := b.store.Runs.RunByID(t.Context(), b.org, b.member.id, runID)
		must(t, err)
		if status != "completed" || text != "re: hello" || run.Run.SessionID != sessionID || run.Run.ExpiresAt == nil {
			t.Errorf("%v: %s %q %+v", c, status, text, run.Run)
		}
		var seq int
		var said string
		must(t, b.sql.QueryRowContext(t.Context(), `SELECT seq, input->>'instructions' FROM runs WHERE id = $1`, runID).Scan(&seq, &said))
		if seq != i+1 || said != "Be brief." {
			t.Errorf("%v: turn %d, instructed %q", c, seq, said)
		}
	}
	named, sessionID := b.secretFor(b.agent, "?session_id=ours", "", b.key)
	if k := b.open(t, "?model="+b.agent, "Authorization: Bearer "+named); k.id != "ours" || sessionID != "ours" {
		t.Errorf("sessions %q and %q", k.id, sessionID)
	}
}

// A client secret is valid only for connections with the agent, the session and the organization
// that it contains.
func TestAClientSecretOpensOnlyItsConnection(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h, away := a.newTestOrg("home"), a.newTestOrg("away")
	agent, another, theirs := a.newVoiceAgent(h), a.newVoiceAgent(h), a.newVoiceAgent(away)
	secret, sessionID := a.secretFor(agent, "", "", h.owner.auth)
	bearing := "Authorization: Bearer " + secret
	forged := a.api.Secrets.SealClientSecret([]byte(`{"k":"","h":"","o":"` + h.org + `","m":"` + agent + `","i":"s","x":99999999999}`))
	for name, c := range map[string]struct {
		query    string
		headers  []string
		status   int
		problems string
	}{
		"its own agent":        {"?model=" + agent, []string{bearing}, 426, "upgrade_required"},
		"its own session":      {"?session_id=" + sessionID, []string{bearing}, 426, "upgrade_required"},
		"its own organization": {"", []string{bearing, h.header}, 426, "upgrade_required"},
		"another agent":        {"?model=" + another, []string{bearing}, 403, "permission_denied"},
		"another's agent":      {"?model=" + theirs, []string{bearing}, 403, "permission_denied"},
		"no agent":             {"?model=", []string{bearing}, 400, "invalid_request model"},
		"another session":      {"?session_id=s", []string{bearing}, 403, "permission_denied"},
		"another organization": {"", []string{bearing, away.header}, 403, "organization_mismatch"},
		"another site's page":  {"", []string{bearing, "Origin: " + widgetPage}, 403, "permission_denied"},
		"tampered with":        {"", []string{bearing[:40] + otherThan(bearing[40]) + bearing[41:]}, 401, "unauthenticated"},
		"cut short":            {"", []string{bearing[:len(bearing)-1]}, 401, "unauthenticated"},
		"sealed by nobody":     {"", []string{"Authorization: Bearer " + forged}, 401, "unauthenticated"},
		"as a key":             {"?model=" + agent, []string{"X-Api-Key: " + secret}, 401, "unauthenticated"},
		"as a cookie":          {"?model=" + agent, []string{"Cookie: parley_session=" + secret}, 401, "unauthenticated"},
		"beside a key":         {"", []string{h.key, asProtocol(secret)}, 400, "conflicting_credentials"},
	} {
		a.from("GET", voice.RealtimePath+c.query, "", c.headers...).want(t, name, c.status, c.problems)
	}
	for _, r := range accessTable {
		target := strings.ReplaceAll(r.query, "$named", "s")
		for _, name := range kindNames() {
			target = strings.ReplaceAll(target, "$"+name, agent)
		}
		want := map[string]string{forAnyone: "", forLink: "", forPage: "", forVoice: "", forSystem: "401 api_key_required", forKey: "401 api_key_required"}
		expected, known := want[r.who]
		if !known {
			expected = "401 unauthenticated"
		}
		if expected == "" {
			continue
		}
		got := a.from(r.method, r.at(target), r.body, bearing)
		if seen := strconv.Itoa(got.status) + " " + got.problems(t); got.status != 401 || r.method != "HEAD" && seen != expected {
			t.Errorf("%s %s: %s", r.method, r.path, got.body)
		}
	}
}

// All problems of a request for a client secret are reported when the secret is created, and not
// when it is used.
func TestClientSecretsAreRefused(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h, away := a.newTestOrg("home"), a.newTestOrg("away")
	agent, silent, theirs := a.newVoiceAgent(h), a.newAgent(h), a.newVoiceAgent(away)
	system := a.newVoiceAgent(h, `,"allowedCallers":["system"]`)
	for name, c := range map[string]struct {
		body, problems string
		status         int
	}{
		"no session":         {`{}`, "invalid_request session", 400},
		"null":               {`{"session":null}`, "invalid_request session", 400},
		"no object":          {`{"session":"x"}`, "invalid_request session", 400},
		"no model":           {`{"session":{"type":"realtime"}}`, "invalid_request session.model", 400},
		"a model's number":   {`{"session":{"model":1}}`, "invalid_request session.model", 400},
		"unknown model":      {`{"session":{"model":"gpt-realtime"}}`, "not_found", 404},
		"another's":          {`{"session":{"model":"` + theirs + `"}}`, "not_found", 404},
		"not to talk with":   {`{"session":{"model":"` + silent + `"}}`, "invalid_request session.model", 400},
		"for systems":        {`{"session":{"model":"` + system + `"}}`, "caller_not_allowed", 403},
		"transcription":      {`{"session":{"model":"` + agent + `","type":"transcription"}}`, "invalid_request session.type", 400},
		"tools":              {`{"session":{"model":"` + agent + `","tools":[{"type":"function","name":"f"}]}}`, "invalid_request session.tools", 400},
		"another format":     {`{"session":{"model":"` + agent + `","audio":{"input":{"format":{"type":"audio/pcmu"}}}}}`, "invalid_request session.audio.input.format.type", 400},
		"too short a life":   {`{"session":{"model":"` + agent + `"},"expires_after":{"anchor":"created_at","seconds":9}}`, "invalid_request expires_after.seconds", 400},
		"too long a life":    {`{"session":{"model":"` + agent + `"},"expires_after":{"seconds":7201}}`, "invalid_request expires_after.seconds", 400},
		"another anchor":     {`{"session":{"model":"` + agent + `"},"expires_after":{"anchor":"now"}}`, "invalid_request expires_after.anchor", 400},
		"too many settings":  {`{"session":{"model":"` + agent + `","instructions":"` + strings.Repeat("x", 5000) + `"}}`, "invalid_request session", 400},
		"instructions, long": {`{"session":{"model":"` + agent + `","instructions":"` + strings.Repeat("x", 32_001) + `"}}`, "invalid_request session.instructions", 400},
	} {
		a.from("POST", secretsPath, c.body, h.key).want(t, name, c.status, c.problems)
	}
	good := `{"session":{"model":"` + agent + `"}}`
	a.from("POST", secretsPath+"?session_id=", good, h.key).want(t, "an empty session", 400, "invalid_request session_id")
	a.from("POST", secretsPath, good, h.owner.cookie, "Origin: https://evil.test").want(t, "another site's page", 403, "permission_denied")
	several := a.from("POST", secretsPath, `{"session":{"model":"`+agent+`","type":"x","tools":[1]},"expires_after":{"seconds":0}}`, h.key)
	for _, field := range []string{"session.type", "session.tools", "expires_after.seconds"} {
		if !strings.Contains(several.text(t, "error.message"), field) {
			t.Errorf("%s is not mentioned: %s", field, several.body)
		}
	}
	before := time.Now().Unix()
	for life, body := range map[int64]string{
		600: good, 7200: `{"session":{"model":"` + agent + `"},"expires_after":{"anchor":"created_at","seconds":7200},"more":1}`,
		10: `{"session":{"model":"` + agent + `"},"expires_after":{"seconds":10}}`,
	} {
		got := a.from("POST", secretsPath, body, h.key).want(t, body, 200, "")
		expires, _ := got.json(t, "expires_at").(float64)
		if late := int64(expires) - before - life; late < 0 || late > 60 {
			t.Errorf("%s: expires %d s late", body, late)
		}
	}
}

// A connection continues after its client secret has expired. It ends soon after the credential
// that created the client secret has become invalid.
func TestConnectionsEndWithTheirCredential(t *testing.T) {
	t.Parallel()
	b := newVoiceEnv(t, manyRequests)
	key, keyID := b.newKey(b.testOrg, b.owner, domain.KeyScopeUser)
	login := b.loginAgain(b.admin)
	leaver := b.person("leaver")
	b.enter(leaver, b.org, domain.RoleMember)
	byKey, _ := b.secretFor(b.agent, "", "", key, b.header)
	byLogin, _ := b.secretFor(b.agent, "", "", login.cookie, b.header, "Origin: http://parley.test")
	byLeaver, _ := b.secretFor(b.agent, "", "", leaver.auth, b.header)
	stays := b.open(t, "", asProtocol(func() string { s, _ := b.secretFor(b.agent, "", "", b.key); return s }()))
	demoted := b.open(t, "?model="+b.agent, b.adminKey, b.header)
	ending := []*voiceConn{
		b.open(t, "", asProtocol(byKey)), b.open(t, "?model="+b.agent, key, b.header),
		b.open(t, "", asProtocol(byLogin)), b.open(t, "?model="+b.agent, login.auth, b.header),
		b.open(t, "", asProtocol(byLeaver)),
	}
	began := time.Now()
	b.exec(`UPDATE memberships SET role = 'member' WHERE user_id = $1 AND org_id = $2`, b.admin.id, b.org)
	b.ok("DELETE", "/api/keys?id="+keyID, "", b.owner.auth)
	b.ok("POST", "/api/auth/logout", "", login.auth)
	b.ok("DELETE", "/api/organizations/members?id="+leaver.id, "", b.owner.auth)
	for i, k := range ending {
		if code, status := k.ended(); status != websocket.StatusPolicyViolation || time.Since(began) > testkit.Within(8*time.Second) {
			t.Errorf("connection %d ended with %q, %d, after %s", i, code, status, time.Since(began))
		}
	}
	for what, headers := range map[string]string{"key": byKey, "login": byLogin} {
		b.from("GET", voice.RealtimePath, "", "Authorization: Bearer "+headers).want(t, "secret of a revoked "+what, 401, "unauthenticated")
	}
	b.from("GET", voice.RealtimePath, "", "Authorization: Bearer "+byLeaver).want(t, "secret of one who has left", 403, "permission_denied")
	for _, k := range []*voiceConn{stays, demoted} { // the caller of demoted has a lower role now, but still owns the session
		k.send(inWriting)
		k.until("session.updated")
	}
}

// A caller whose role was lowered can continue their own session.
func TestAConnectionOutlivesAChangeOfRole(t *testing.T) {
	t.Parallel()
	b := newVoiceEnv(t, manyRequests)
	b.startWorker(func(runID, message string) { b.end(runID, answers("re: "+message)) })
	k := b.open(t, "?model="+b.agent, b.adminKey, b.header)
	k.send(inWriting)
	b.exec(`UPDATE memberships SET role = 'member' WHERE user_id = $1 AND org_id = $2`, b.admin.id, b.org)
	b.api.Auth.ForgetUser(b.admin.id)
	k.says("hello")
	if status, text, _ := k.answered(); status != "completed" || text != "re: hello" {
		t.Errorf("%s %s", status, text)
	}
}
