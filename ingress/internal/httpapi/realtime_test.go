package httpapi

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"parley/ingress/internal/dispatch"
	"parley/ingress/internal/httpapi/pages"
	"parley/ingress/internal/httpapi/voice"
	"parley/ingress/internal/openaiapi"
	"parley/shared/domain"
	"parley/shared/id"
)

// A voice session is a chat. Its turns are runs in a session, and the earlier turns are the history
// of each run. The session can be read like any other.
func TestAVoiceConnectionIsAChat(t *testing.T) {
	t.Parallel()
	b := newVoiceEnv(t, manyRequests)
	b.startWorker(func(runID, message string) { b.end(runID, answers("re: "+message)) })
	k := b.open(t, "?model="+b.agent+"&session_id=s", b.owner.auth, offered+"realtime")
	if k.id != "s" || k.socket.Subprotocol() != "realtime" {
		t.Errorf("session %q, protocol %q", k.id, k.socket.Subprotocol())
	}
	k.send(inWriting)
	var runs []string
	for _, text := range []string{"one", "two"} {
		k.says(text)
		status, said, runID := k.answered()
		if status != "completed" || said != "re: "+text {
			t.Errorf("%s: %s %q", text, status, said)
		}
		runs = append(runs, runID)
	}
	session := b.ok("GET", "/api/sessions?id=s&agentId="+b.agent, "", b.owner.auth)
	for i, want := range []string{"one", "re: one", "two", "re: two"} {
		message := session.json(t, "messages."+string(rune('0'+i))).(map[string]any)
		if message["content"] != want || message["runId"] != runs[i/2] || message["interrupted"] != nil {
			t.Errorf("message %d: %v", i, message)
		}
	}
	run, err := b.store.Runs.RunByID(t.Context(), b.org, b.owner.id, runs[1])
	must(t, err)
	var stored domain.Run
	result, err := run.Result()
	must(t, err)
	must(t, json.Unmarshal(result, &stored))
	if stored.Trigger.Type != domain.TriggerChat || stored.SessionID != "s" || stored.ExpiresAt != nil || run.Target() != b.agent {
		t.Errorf("run %+v", stored)
	}
	must(t, k.socket.Close(websocket.StatusNormalClosure, ""))
	eventually(t, "the request's own line is written", func() bool {
		return strings.Contains(b.log.String(), `"status":101`) && strings.Contains(b.log.String(), `"session_id":"s"`)
	})
}

// A connection that names no session gets a new session. The runs of the new session are kept for a
// limited time.
func TestAnUnnamedVoiceSession(t *testing.T) {
	t.Parallel()
	b := newVoiceEnv(t, manyRequests)
	b.startWorker(func(runID, message string) { b.end(runID, answers("re: "+message)) })
	k, other := b.open(t, "?model="+b.agent, b.key), b.open(t, "?model="+b.agent, b.key)
	if !strings.HasPrefix(k.id, "rt_") || k.id == other.id {
		t.Errorf("sessions %q and %q", k.id, other.id)
	}
	k.send(inWriting)
	k.says("hello")
	_, _, runID := k.answered()
	run, err := b.store.Runs.RunByID(t.Context(), b.org, "", runID)
	must(t, err)
	if run.Run.ExpiresAt == nil || run.Run.ExpiresAt.Sub(run.Run.FinishedAt.Time) != dispatch.UnnamedRetention || run.Run.SessionID != k.id {
		t.Errorf("run %+v", run.Run)
	}
}

// A session belongs to a principal. If two principals name sessions alike and use the same agent,
// they still have separate sessions.
func TestVoiceSessionsNeverMeet(t *testing.T) {
	t.Parallel()
	b := newVoiceEnv(t, manyRequests)
	b.startWorker(func(runID, message string) { b.end(runID, answers("re: "+message)) })
	query := "?session_id=s&model=" + b.agent
	refs := map[int64]string{}
	for name, headers := range map[string][]string{
		"owner": {b.owner.auth}, "member": {b.member.auth, b.header}, "organization's key": {b.key}, "owner's key": {b.ownerKey, b.header},
	} {
		k := b.open(t, query, headers...)
		k.send(inWriting)
		k.says("from " + name)
		_, _, runID := k.answered()
		var ref int64
		var seq int
		must(t, b.sql.QueryRowContext(t.Context(), `SELECT session_ref, seq FROM runs WHERE id = $1`, runID).Scan(&ref, &seq))
		if refs[ref] != "" || seq != 1 {
			t.Errorf("%s continues the session of %q, as turn %d", name, refs[ref], seq)
		}
		refs[ref] = name
	}
	away := b.newTestOrg("away")
	for _, headers := range [][]string{{away.key}, {away.owner.auth}} {
		if k, got := b.dial(t, query, headers...); k != nil || got.status != 404 {
			t.Errorf("another organization is answered with %d", got.status)
		}
	}
}

// After an answer was cancelled, the session's history contains only the part of the answer that
// was played. Nothing is stored for an erased run.
func TestWhatAConnectionMayDoToRuns(t *testing.T) {
	t.Parallel()
	b := newVoiceEnv(t, manyRequests)
	ctx := t.Context()
	k := b.open(t, "?session_id=s&model="+b.agent, b.owner.auth)
	k.send(inWriting)
	k.says("hello")
	runID := k.until("response.created")["response"].(map[string]any)["metadata"].(map[string]any)["run_id"].(string)
	k.send(`{"type":"response.cancel"}`)
	if status, _, _ := k.answered(); status != "cancelled" {
		t.Errorf("a cancelled answer is %s", status)
	}
	b.becomes(runID, domain.RunCancelled)
	eventually(t, "the connection has noted what was heard", func() bool {
		var noted bool
		must(t, b.sql.QueryRowContext(ctx, `SELECT EXISTS (SELECT FROM heard WHERE run_id = $1)`, runID).Scan(&noted))
		return noted
	})
	must(t, b.store.Sessions.SavePlayback(ctx, b.org, runID, domain.Playback{Text: "I was", AudioMS: 5}))
	session := b.ok("GET", "/api/sessions?id=s&agentId="+b.agent, "", b.owner.auth)
	answered := session.json(t, "messages.1").(map[string]any)
	if answered["content"] != "I was" || answered["interrupted"] != true || answered["role"] != "assistant" || answered["runId"] != runID || answered["status"] != "cancelled" {
		t.Errorf("%s", session.body)
	}
	b.ok("DELETE", "/api/sessions?id=s&agentId="+b.agent, "", b.owner.auth)
	if err := b.store.Sessions.SavePlayback(ctx, b.org, runID, domain.Playback{Text: "I was"}); err == nil {
		t.Error("data of an erased run was stored")
	}
}

// becomes waits until a run has the status in the argument want.
func (b *voiceEnv) becomes(runID string, want domain.RunStatus) {
	b.t.Helper()
	eventually(b.t, "run "+runID+" is "+string(want), func() bool {
		run, err := b.store.Runs.RunByID(b.t.Context(), b.org, "", runID)
		must(b.t, err)
		return run.Run.Status == want
	})
}

// Each turn is checked like a separate request, with the caller's current permissions.
func TestTurnsAreRefusedOneByOne(t *testing.T) {
	t.Parallel()
	b := newVoiceEnv(t, manyRequests)
	b.tallied(14)
	b.startWorker(func(runID, message string) { b.end(runID, answers("re: "+message)) })
	k := b.open(t, "?model="+b.agent, b.memberKey, b.header)
	k.send(inWriting)
	turn := func(what, want string) {
		t.Helper()
		k.says(what)
		if status, text, _ := k.answered(); status+" "+text != want {
			t.Errorf("%s: %s %s, want %s", what, status, text, want)
		}
	}
	turn("good", "completed re: good")
	for _, c := range []struct{ what, body, want string }{
		{"callers", `{"allowedCallers":["system"]}`, "failed caller_not_allowed"},
		{"users", `{"allowedCallers":["user"]}`, "completed re: users"},
		{"voice off", `{"tools":{"voice":{"enabled":false}}}`, "failed voice_not_enabled"},
		{"voice on", `{"tools":{"voice":{"enabled":true}}}`, "completed re: voice on"},
	} {
		b.ok("PUT", "/api/agents?id="+b.agent, c.body, b.admin.auth)
		turn(c.what, c.want)
	}
	b.ok("DELETE", "/api/agents?id="+b.agent, "", b.owner.auth)
	for range 14 - 6 { // the rejected turns have counted against the limit, and so has the request for the connection
		turn("deleted", "failed model_not_found")
	}
	turn("too many", "failed rate_limited")
}

// An invalid request for a voice connection is rejected before the upgrade to a WebSocket.
func TestVoiceConnectionsAreRefused(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h, away := a.newTestOrg("home"), a.newTestOrg("away")
	agent, silent, theirs := a.newVoiceAgent(h), a.newAgent(h), a.newVoiceAgent(away, `,"widget":{"enabled":true,"allowedOrigins":["`+widgetPage+`"]}`)
	system := a.newVoiceAgent(h, `,"allowedCallers":["system"]`)
	widgetAgent := a.newVoiceAgent(h, `,"widget":{"enabled":true,"allowedOrigins":["`+widgetPage+`"]}`)
	for name, c := range map[string]struct {
		query    string
		headers  []string
		status   int
		problems string
	}{
		"no upgrade":                  {"?model=" + agent, []string{h.key}, 426, "upgrade_required"},
		"half an upgrade":             {"?model=" + agent, []string{h.key, "Upgrade: websocket"}, 426, "upgrade_required"},
		"another upgrade":             {"?model=" + agent, []string{h.key, "Connection: Upgrade", "Upgrade: h2c"}, 426, "upgrade_required"},
		"an old version":              {"?model=" + agent, append(slices.Clone(upgrades[:2]), h.key, "Sec-WebSocket-Version: 8"), 426, "upgrade_required"},
		"no model":                    {"", upgrading(h.key), 400, "invalid_request model"},
		"two models":                  {"?model=" + agent + "&model=" + agent, upgrading(h.key), 400, "invalid_request model"},
		"unknown model":               {"?model=gpt-realtime", upgrading(h.key), 404, "not_found"},
		"another organization's":      {"?model=" + theirs, upgrading(h.key), 404, "not_found"},
		"no agent to talk with":       {"?model=" + silent, upgrading(h.key), 400, "invalid_request model"},
		"no template to talk with":    {"?model=tpl_support", upgrading(h.key), 400, "invalid_request model"},
		"for systems alone":           {"?model=" + system, upgrading(h.key), 403, "caller_not_allowed"},
		"empty session":               {"?model=" + agent + "&session_id=", upgrading(h.key), 400, "invalid_request session_id"},
		"long session":                {"?model=" + agent + "&session_id=" + strings.Repeat("x", 129), upgrading(h.key), 400, "invalid_request session_id"},
		"session that is no text":     {"?model=" + agent + "&session_id=%00", upgrading(h.key), 400, "invalid_request session_id"},
		"the beta":                    {"?model=" + agent, upgrading(h.key, "OpenAI-Beta: realtime=v1"), 400, "invalid_request OpenAI-Beta"},
		"the beta as a protocol":      {"?model=" + agent, upgrading(h.key, offered+"realtime, openai-beta.realtime-v1"), 400, "invalid_request Sec-WebSocket-Protocol"},
		"another protocol":            {"?model=" + agent, upgrading(h.key, offered+"graphql-ws"), 400, "invalid_request Sec-WebSocket-Protocol"},
		"key as a protocol alone":     {"?model=" + agent, upgrading(offered + "openai-insecure-api-key." + h.key[11:]), 400, "invalid_request Sec-WebSocket-Protocol"},
		"malformed protocols":         {"?model=" + agent, upgrading(h.key, offered+"realtime,,"), 400, "invalid_request Sec-WebSocket-Protocol"},
		"two credentials":             {"?model=" + agent, upgrading(h.key, offered+"realtime, openai-insecure-api-key."+h.key[11:]), 400, "conflicting_credentials"},
		"another service's key":       {"?model=" + agent, upgrading("Authorization: Bearer sk-proj-x"), 401, "unauthenticated"},
		"nobody":                      {"?model=" + agent, upgrading(), 401, "unauthenticated"},
		"a cookie":                    {"?model=" + agent, upgrading(h.owner.cookie, "Origin: http://parley.test"), 401, "unauthenticated"},
		"the demo":                    {"?model=tpl_support", upgrading(sayDemo), 403, "demo_restricted"},
		"a visitor":                   {"?model=" + widgetAgent, upgrading(a.guest(widgetAgent, "").headers...), 403, "permission_denied"},
		"another site's page":         {"?model=" + agent, upgrading(h.key, "Origin: https://evil.test"), 403, "permission_denied"},
		"another site's page, a list": {"?model=" + widgetAgent, upgrading(h.key, "Origin: "+otherPage), 403, "permission_denied"},
		"another site's page, theirs": {"?model=" + theirs, upgrading(h.key, "Origin: https://evil.test"), 404, "not_found"},
		"a listed page, theirs":       {"?model=" + theirs, upgrading(h.key, "Origin: "+widgetPage), 404, "not_found"},
		"two origins":                 {"?model=" + widgetAgent, upgrading(h.key, "Origin: http://parley.test", "Origin: "+otherPage), 403, "permission_denied"},
		"a sandboxed page":            {"?model=" + widgetAgent, upgrading(h.key, "Origin: null"), 403, "permission_denied"},
		"listed, no upgrade":          {"?model=" + widgetAgent, []string{h.key, "Origin: " + widgetPage}, 426, "upgrade_required"},
		"own page, no upgrade":        {"?model=" + agent, []string{h.key, "Origin: http://parley.test"}, 426, "upgrade_required"},
		"own host, no upgrade":        {"?model=" + agent, []string{h.key, "Origin: http://example.com"}, 426, "upgrade_required"}, // the host of the tests' requests
	} {
		got := a.from("GET", voice.RealtimePath+c.query, "", c.headers...)
		got.want(t, name, c.status, c.problems)
		switch code := got.text(t, "error.code"); {
		case strings.Contains(name, "to talk with") && code != openaiapi.CodeVoiceNotEnabled, strings.Contains(name, "the beta") && code != openaiapi.CodeUnsupported:
			t.Errorf("%s: %s", name, got.body)
		}
		if c.status == 426 && (got.header.Get("Upgrade") != "websocket" || got.header.Get("Connection") != "Upgrade" || got.header.Get("Sec-WebSocket-Version") != "13") {
			t.Errorf("%s: %v", name, got.header)
		}
	}
}

// To every page, another organization's agent looks like an agent that does not exist. The response
// reveals neither the agent's widget nor the agent's settings.
func TestVoiceOfOthersIsMissing(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h, away := a.newTestOrg("home"), a.newTestOrg("away")
	widgetAgent := `,"widget":{"enabled":true,"allowedOrigins":["` + widgetPage + `"]}`
	models := []string{
		id.New(id.Agent), a.newVoiceAgent(away), a.newVoiceAgent(away, widgetAgent), a.newAgent(away), a.newVoiceAgent(away, widgetAgent+`,"allowedCallers":["system"]`),
	}
	var missing string
	for _, page := range [][]string{nil, {"Origin: http://parley.test"}, {"Origin: https://evil.test"}, {"Origin: " + widgetPage}, {"Origin: null"}} {
		for n, model := range models {
			got := a.from("GET", voice.RealtimePath+"?model="+model, "", upgrading(append(page, h.key, "X-Request-Id: same")...)...)
			got.header.Del("Ratelimit") // differs, because each request counts against the rate limit
			var shown strings.Builder
			must(t, got.header.Write(&shown))
			answered := strconv.Itoa(got.status) + "\n" + shown.String() + "\n" + string(got.body)
			if missing = cmp.Or(missing, answered); answered != missing || got.status != 404 {
				t.Errorf("%d to %v:\n%s\nnot\n%s", n, page, answered, missing)
			}
		}
	}
}

// upgrading returns the headers of a WebSocket request, followed by the given headers.
func upgrading(headers ...string) []string { return slices.Concat(upgrades, headers) }

// Only the pages of the dashboard may use the microphone and open voice connections. The
// Content-Security-Policy of these pages permits voice connections, because 'self' includes
// WebSockets of the same host.
func TestTheDashboardMayListen(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	ada := w.signUp("ada@example.com")
	for path, want := range map[string]string{
		pages.Dashboard: pages.OwnMicrophone, pages.Dashboard + "/agents": pages.OwnMicrophone, "/login": pages.NoMicrophone, "/signup": pages.NoMicrophone,
		"/widget/preview?agent=" + id.New(id.Agent): pages.NoMicrophone, "/docs": pages.NoMicrophone, "/docs/api": pages.NoMicrophone, "/docs/api/schemas": pages.NoMicrophone, "/docs/errors": pages.NoMicrophone,
	} {
		headers := []string{ada.cookie}
		if want == pages.NoMicrophone {
			headers = nil
		}
		a := w.do("GET", path, "", headers...)
		if got := a.header.Get("Permissions-Policy"); a.status != 200 || got != want {
			t.Errorf("%s: %d %q, want %q", path, a.status, got, want)
		}
		if policy := a.header.Get("Content-Security-Policy"); strings.HasPrefix(path, pages.Dashboard) && !strings.Contains(policy, "connect-src 'self'") {
			t.Errorf("%s: %s", path, policy)
		}
	}
}

// A voice connection takes the slots of a stream and releases these slots when the connection ends.
func TestVoiceConnectionsAreCounted(t *testing.T) {
	t.Parallel()
	b := newVoiceEnv(t, manyRequests)
	b.api.voice.VoicePerOrganization = 2
	query := "?model=" + b.agent
	first, second := b.open(t, query, b.key), b.open(t, query, b.owner.auth)
	full := b.from("GET", voice.RealtimePath+query, "", upgrading(b.admin.auth)...).want(t, "one too many", 429, "rate_limited")
	if full.header.Get("Retry-After") == "" {
		t.Errorf("no Retry-After: %v", full.header)
	}
	b.from("GET", voice.RealtimePath+query, "", b.key).want(t, "no upgrade takes no seat", 426, "upgrade_required")
	away := b.newTestOrg("away")
	b.open(t, "?model="+b.newVoiceAgent(away), away.key)
	must(t, first.socket.Close(websocket.StatusNormalClosure, ""))
	eventually(t, "the seat is given back", func() bool {
		third, _ := b.dial(t, query, b.key)
		return third != nil
	})
	b.api.voice.VoicePerOrganization, b.api.StreamsPerCredential = 100, 1
	b.from("GET", voice.RealtimePath+query, "", upgrading(b.key)...).want(t, "a credential's seat", 429, "rate_limited")
	b.open(t, query, b.member.auth, b.header)
	must(t, second.socket.Close(websocket.StatusNormalClosure, ""))
	b.api.voice.Stopping = func() bool { return true }
	b.from("GET", voice.RealtimePath+query, "", upgrading(b.admin.auth)...).want(t, "while the service stops", 503, "unavailable")
}
