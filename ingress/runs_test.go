package ingress_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"parley/shared/domain"
	"parley/shared/id"
)

const runPath = "/api/internal/run-automation"

func trigger(agent, more string) string {
	return fmt.Sprintf(`{"target":%q,"input":{"message":"hi"}%s}`, agent, more)
}

func TestAutomationIsAnsweredWithItsRun(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, defaults())
	r.echo()
	run := r.call("POST", runPath, r.asKey("x-trigger-type", "schedule", "x-automation-id", "nightly ☾"), trigger(r.agent, `,"idempotencyKey":"k"`)).run(200)
	if run.Status != domain.RunCompleted || *run.Message != "echo: hi" || run.Output.Message != "echo: hi" || run.Trigger.Type != "schedule" ||
		*run.Trigger.AutomationID != "nightly ☾" || *run.IdempotencyKey != "k" || run.Attempts != 1 || *run.AgentID != r.agent {
		t.Errorf("run %+v", run)
	}
	if kept := run.ExpiresAt.Sub(run.FinishedAt.Time); kept != 24*time.Hour {
		t.Errorf("kept for %s", kept)
	}
	run = r.call("POST", runPath, r.asKey(), trigger(r.agent, `,"ttlOverride":172800,"sessionId":"mine"`)).run(200)
	if kept := run.ExpiresAt.Sub(run.FinishedAt.Time); kept != 48*time.Hour || run.SessionID != "mine" || run.Trigger.Type != "api" {
		t.Errorf("kept for %s, session %s, trigger %+v", kept, run.SessionID, run.Trigger)
	}
}

func TestAutomationReplaysAttachesAndRefusesByKey(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, defaults())
	r.echo()
	const keyed = `,"idempotencyKey":"k"`
	var mu sync.Mutex
	bodies := map[string]int{}
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			a := r.call("POST", runPath, r.asKey(), trigger(r.agent, keyed)).want(200)
			mu.Lock()
			defer mu.Unlock()
			bodies[a.body]++
		})
	}
	wg.Wait()
	if len(bodies) != 1 {
		t.Fatalf("one key got %d different responses: %v", len(bodies), bodies)
	}
	again := r.call("POST", runPath, r.asKey("Idempotency-Key", "k"), trigger(r.agent, "")).want(200)
	if again.header.Get("Idempotency-Replayed") != "true" || bodies[again.body] != 50 {
		t.Errorf("replay: %v %s", again.header, again.body)
	}
	reordered := fmt.Sprintf(`{"idempotencyKey":"k","input":{"message":"hi"},"target":%q,"ttlOverride":5}`, r.agent)
	r.call("POST", runPath, r.asKey(), reordered).want(200)
	p := r.call("POST", runPath, r.asKey(), strings.Replace(trigger(r.agent, keyed), "hi", "ho", 1)).problem(422)
	if p.Code != "idempotency_key_reused" {
		t.Errorf("code %s", p.Code)
	}
	// Deleting the agent does not change the response to a repeated request.
	r.call("DELETE", "/api/agents?id="+r.agent, r.asKey(), "").want(200)
	r.call("POST", runPath, r.asKey(), trigger(r.agent, keyed)).want(200)
	r.call("POST", runPath, r.asKey(), trigger(r.agent, "")).problem(400)
}

func TestAutomationRefusesBadRequestsNamingTheField(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, defaults())
	userOnly := r.newAgent(`"user"`)
	ok := trigger(r.agent, "")
	long := strings.Repeat("x", 32_001)
	for name, tc := range map[string]struct {
		headers head
		body    string
		status  int
		code    string
		field   string
	}{
		"no key":             {head{}, ok, 401, "api_key_required", ""},
		"bearer":             {head{"Authorization": "Bearer " + r.token}, ok, 401, "api_key_required", ""},
		"bad key":            {head{"x-api-key": "ak_nope"}, ok, 401, "unauthenticated", ""},
		"browser":            {r.asKey("Origin", "https://example.com"), ok, 403, "server_to_server_only", ""},
		"fetch metadata":     {r.asKey("Sec-Fetch-Site", "same-origin"), ok, 403, "server_to_server_only", ""},
		"demo":               {head{"x-tenant-id": "tenant_demo"}, ok, 403, "demo_restricted", ""},
		"not for systems":    {r.asKey(), trigger(userOnly, ""), 403, "caller_not_allowed", ""},
		"unknown agent":      {r.asKey(), trigger(id.New(id.Agent), ""), 400, "invalid_request", "target"},
		"malformed agent":    {r.asKey(), trigger("ag_x", ""), 400, "invalid_request", "target"},
		"template":           {r.asKey(), trigger("tpl_support", ""), 400, "invalid_request", "target"},
		"content type":       {r.asKey("Content-Type", "text/plain"), ok, 415, "unsupported_media_type", ""},
		"too large":          {r.asKey(), `{"target":"` + strings.Repeat("x", 2<<20) + `"}`, 413, "payload_too_large", ""},
		"no JSON":            {r.asKey(), `{`, 400, "invalid_request", "body"},
		"no target":          {r.asKey(), `{"input":{"message":"hi"}}`, 400, "invalid_request", "target"},
		"no input":           {r.asKey(), `{"target":"` + r.agent + `"}`, 400, "invalid_request", "input"},
		"no message":         {r.asKey(), `{"target":"` + r.agent + `","input":{}}`, 400, "invalid_request", "input.message"},
		"null message":       {r.asKey(), `{"target":"` + r.agent + `","input":{"message":null}}`, 400, "invalid_request", "input.message"},
		"number as message":  {r.asKey(), `{"target":"` + r.agent + `","input":{"message":1}}`, 400, "invalid_request", "input.message"},
		"empty message":      {r.asKey(), `{"target":"` + r.agent + `","input":{"message":""}}`, 400, "invalid_request", "input.message"},
		"NUL":                {r.asKey(), `{"target":"` + r.agent + `","input":{"message":"a\u0000"}}`, 400, "invalid_request", "input.message"},
		"duplicate":          {r.asKey(), `{"target":"` + r.agent + `","input":{"message":"a","message":"b"}}`, 400, "invalid_request", "input.message"},
		"unknown field":      {r.asKey(), trigger(r.agent, `,"color":1`), 400, "invalid_request", "color"},
		"case of a name":     {r.asKey(), trigger(r.agent, `,"TtlOverride":1`), 400, "invalid_request", "TtlOverride"},
		"empty key":          {r.asKey(), trigger(r.agent, `,"idempotencyKey":""`), 400, "invalid_request", "idempotencyKey"},
		"long key":           {r.asKey(), trigger(r.agent, `,"idempotencyKey":"`+long[:256]+`"`), 400, "invalid_request", "idempotencyKey"},
		"two keys":           {r.asKey("Idempotency-Key", "b"), trigger(r.agent, `,"idempotencyKey":"a"`), 400, "invalid_request", "Idempotency-Key"},
		"zero ttl":           {r.asKey(), trigger(r.agent, `,"ttlOverride":0`), 400, "invalid_request", "ttlOverride"},
		"large ttl":          {r.asKey(), trigger(r.agent, `,"ttlOverride":2592001`), 400, "invalid_request", "ttlOverride"},
		"broken ttl":         {r.asKey(), trigger(r.agent, `,"ttlOverride":1.5`), 400, "invalid_request", "ttlOverride"},
		"text ttl":           {r.asKey(), trigger(r.agent, `,"ttlOverride":"60"`), 400, "invalid_request", "ttlOverride"},
		"long session":       {r.asKey(), trigger(r.agent, `,"sessionId":"`+long[:129]+`"`), 400, "invalid_request", "sessionId"},
		"empty session":      {r.asKey(), trigger(r.agent, `,"sessionId":""`), 400, "invalid_request", "sessionId"},
		"trigger type":       {r.asKey("x-trigger-type", "Schedule"), ok, 400, "invalid_request", "x-trigger-type"},
		"automation id":      {r.asKey("x-automation-id", long[:129]), ok, 400, "invalid_request", "x-automation-id"},
		"empty automation":   {r.asKey("x-automation-id", ""), ok, 400, "invalid_request", "x-automation-id"},
		"GET":                {r.asKey(), "", 405, "method_not_allowed", ""},
		"foreign org header": {r.asKey("x-organization-id", id.New(id.Organization)), ok, 403, "organization_mismatch", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			method := http.MethodPost
			if name == "GET" {
				method = http.MethodGet
			}
			a := r.call(method, runPath, tc.headers, tc.body)
			a.t = t
			p := a.problem(tc.status)
			if p.Code != tc.code || tc.field != "" && (len(p.Errors) == 0 || p.Errors[0].Field != tc.field) {
				t.Errorf("got %s", a.body)
			}
		})
	}
}

func TestARunThatExceedsTheWaitIsAccepted(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, defaults())
	keyed := trigger(r.agent, `,"idempotencyKey":"k"`)
	a := r.call("POST", runPath, r.asKey("Prefer", "respond-async"), keyed)
	run := a.run(202)
	if run.Status != domain.RunQueued || a.header.Get("Location") != "/api/runs?id="+run.ID || a.header.Get("Retry-After") == "" {
		t.Errorf("%v %s", a.header, a.body)
	}
	if again := r.call("POST", runPath, r.asKey("Prefer", "wait=0"), keyed).run(202); again.ID != run.ID {
		t.Errorf("the key started another run")
	}
	began := time.Now()
	if open := r.call("GET", "/api/runs?wait=1&id="+run.ID, r.asKey(), "").run(200); open.Status != domain.RunQueued || time.Since(began) < time.Second {
		t.Errorf("a long poll ended after %s with %s", time.Since(began), open.Status)
	}
	for _, prefer := range []string{"respond-async; handling=lenient", "foo, respond-async", "wait=0", "wait=1"} {
		r.call("POST", runPath, r.asKey("Prefer", prefer), keyed).want(202)
	}
	polled := make(chan domain.Run)
	go func() { polled <- r.call("GET", "/api/runs?wait=10&id="+run.ID, r.asKey(), "").run(200) }()
	r.echo()
	if got := <-polled; got.Status != domain.RunCompleted {
		t.Errorf("the long poll = %s", got.Status)
	}
	if far := r.call("POST", runPath, r.asKey("Prefer", "wait=10000000000"), trigger(r.agent, `,"idempotencyKey":"a b \ud83d\udc69\u200d\ud83d\udcbb"`)).run(200); far.Status != domain.RunCompleted {
		t.Errorf("status after a very long wait = %s", far.Status)
	}
	if replay := r.call("POST", runPath, r.asKey("Prefer", "respond-async"), keyed); replay.run(200).ID != run.ID || replay.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("replay of a finished run: %s", replay.body)
	}
}

func TestCancelEndsARunForEveryWaiter(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, defaults())
	keyed := trigger(r.agent, `,"idempotencyKey":"k"`)
	run := r.call("POST", runPath, r.asKey("Prefer", "respond-async"), keyed).run(202)
	waited := make(chan domain.Run)
	go func() { waited <- r.call("POST", runPath, r.asKey(), keyed).run(200) }()
	first := r.call("POST", "/api/runs?action=cancel&id="+run.ID, r.asKey(), "").want(200)
	if first.run(200).Status != domain.RunCancelled || (<-waited).Status != domain.RunCancelled {
		t.Errorf("cancel = %s", first.body)
	}
	if again := r.call("POST", "/api/runs?action=cancel&id="+run.ID, r.asKey(), ""); again.body != first.body {
		t.Errorf("cancelling again changed the run: %s", again.body)
	}
}

func TestRunsAreVisibleOnlyToTheirOrganization(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, defaults())
	r.echo()
	run := r.call("POST", runPath, r.asKey("x-automation-id", "a"), trigger(r.agent, `,"sessionId":"s"`)).run(200)
	r.call("POST", runPath, r.asKey(), trigger(r.agent, "")).run(200)
	var other struct{ Token string }
	r.call("POST", "/api/auth/signup", nil, `{"email":"eve@example.com","password":"correct horse battery"}`).into(&other, 201)
	foreign := head{"Authorization": "Bearer " + other.Token}
	for _, path := range []string{"/api/runs?id=" + run.ID, "/api/runs?id=" + id.New(id.Run), "/api/runs?id=run_x", "/api/runs?id=" + r.agent} {
		r.call("GET", path, foreign, "").problem(404)
	}
	r.call("POST", "/api/runs?action=cancel&id="+run.ID, foreign, "").problem(404)
	var list struct {
		Data       []domain.RunSummary
		HasMore    bool
		NextCursor string
	}
	r.call("GET", "/api/runs", foreign, "").into(&list, 200)
	if len(list.Data) != 0 {
		t.Errorf("another organization sees %d runs", len(list.Data))
	}
	r.call("GET", "/api/runs?limit=1", r.asKey(), "").into(&list, 200)
	if len(list.Data) != 1 || !list.HasMore {
		t.Fatalf("first page %+v", list)
	}
	r.call("GET", "/api/runs?limit=1&cursor="+list.NextCursor, r.asKey(), "").into(&list, 200)
	if len(list.Data) != 1 || list.HasMore || list.Data[0].ID != run.ID {
		t.Errorf("second page %+v", list)
	}
	for filter, want := range map[string]int{"agentId=" + r.agent: 2, "sessionId=s": 1, "automationId=a": 1, "status=completed": 2, "status=failed": 0} {
		r.call("GET", "/api/runs?"+filter, r.asKey(), "").into(&list, 200)
		if len(list.Data) != want {
			t.Errorf("%s: %d runs, want %d", filter, len(list.Data), want)
		}
	}
	for path, field := range map[string]string{"?limit=0": "limit", "?limit=101": "limit", "?cursor=x": "cursor", "?status=x": "status", "?wait=-1&id=" + run.ID: "wait", "?wait=x&id=" + run.ID: "wait"} {
		if p := r.call("GET", "/api/runs"+path, r.asKey(), "").problem(400); len(p.Errors) == 0 || p.Errors[0].Field != field {
			t.Errorf("%s: %+v", path, p)
		}
	}
	for path, field := range map[string]string{"?action=cancel": "id", "?id=" + run.ID: "action", "?action=explode&id=" + run.ID: "action"} {
		if p := r.call("POST", "/api/runs"+path, r.asKey(), "").problem(400); len(p.Errors) == 0 || p.Errors[0].Field != field {
			t.Errorf("%s: %+v", path, p)
		}
	}
}

func TestChatRunsAgentsAndTemplates(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, defaults())
	r.echo()
	const body = `{"sessionId":"s","message":"hi"}`
	chat := "/api/agents?action=chat&id=" + r.agent
	run := r.call("POST", chat, r.asKey("Idempotency-Key", "k"), body).run(200)
	if *run.Message != "echo: hi" || run.Trigger.Type != "chat" || run.ExpiresAt != nil {
		t.Errorf("run %+v", run)
	}
	if again := r.call("POST", chat, r.asKey("Idempotency-Key", "k"), body); again.run(200).ID != run.ID || again.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("replay %s", again.body)
	}
	if other := r.call("POST", chat, head{"Authorization": "Bearer " + r.token, "Idempotency-Key": "k"}, body).run(200); other.ID == run.ID {
		t.Error("the same key of another caller returned the same run")
	}
	systemOnly := r.newAgent(`"system"`)
	for name, tc := range map[string]struct {
		path    string
		headers head
		body    string
		status  int
		code    string
		field   string
	}{
		"not for users":  {"&id=" + systemOnly, r.asKey(), body, 403, "caller_not_allowed", ""},
		"no target":      {"", r.asKey(), body, 400, "invalid_request", "id"},
		"two targets":    {"&template=tpl_support&id=" + r.agent, r.asKey(), body, 400, "invalid_request", "id"},
		"no session":     {"&id=" + r.agent, r.asKey(), `{"message":"hi"}`, 400, "invalid_request", "sessionId"},
		"no message":     {"&id=" + r.agent, r.asKey(), `{"sessionId":"s"}`, 400, "invalid_request", "message"},
		"no credential":  {"&id=" + r.agent, head{}, body, 401, "unauthenticated", ""},
		"demo and agent": {"&id=" + r.agent, head{"x-tenant-id": "tenant_demo"}, body, 403, "demo_restricted", ""},
		"no template":    {"&template=tpl_none", r.asKey(), body, 404, "not_found", ""},
		"no agent":       {"&id=" + id.New(id.Agent), r.asKey(), body, 404, "not_found", ""},
	} {
		a := r.call("POST", "/api/agents?action=chat"+tc.path, tc.headers, tc.body)
		if p := a.problem(tc.status); p.Code != tc.code || tc.field != "" && p.Errors[0].Field != tc.field {
			t.Errorf("%s: %s", name, a.body)
		}
	}
}

// A load balancer first sees /readyz fail on a stopping ingress. The port closes after the grace
// period.
func TestAStoppingIngressServesDuringItsGracePeriod(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, defaults())
	cfg := defaults()
	cfg.StopGrace = 3 * time.Second
	second, stop := r.serve(cfg, zerolog.Nop())
	r.callAt(second, "GET", "/readyz", nil, "").want(200)
	began, stopped := time.Now(), make(chan struct{})
	go func() { stop(); close(stopped) }()
	for r.callAt(second, "GET", "/readyz", nil, "").status != 503 {
		if time.Since(began) > cfg.StopGrace {
			t.Fatal("a stopping ingress stays ready")
		}
	}
	late := r.follow("POST", second+runPath, r.asKey("Prefer", "respond-async"), trigger(r.agent, "")).res
	if late.StatusCode != http.StatusAccepted || !late.Close {
		t.Errorf("a late request got status %d; its connection ends: %t", late.StatusCode, late.Close)
	}
	<-stopped
	if took := time.Since(began); took < cfg.StopGrace {
		t.Errorf("the ingress ended after %s", took)
	}
}

func TestAFullBacklogRefusesNewRunsAndReplaysOldOnes(t *testing.T) {
	t.Parallel()
	cfg := defaults()
	cfg.BacklogMax = 8 // 2 for each organization
	r := newTestEnv(t, cfg)
	for n := range 2 {
		r.call("POST", runPath, r.asKey("Prefer", "respond-async"), trigger(r.agent, fmt.Sprintf(`,"idempotencyKey":"%d"`, n))).want(202)
	}
	deadline := time.Now().Add(10 * time.Second)
	for {
		a := r.call("POST", runPath, r.asKey("Prefer", "respond-async"), trigger(r.agent, ""))
		if a.status == 503 {
			if p := a.problem(503); p.Code != "overloaded" || a.header.Get("Retry-After") == "" {
				t.Errorf("refusal %s", a.body)
			}
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("a full backlog refused no run")
		}
	}
	r.call("POST", runPath, r.asKey("Prefer", "respond-async"), trigger(r.agent, `,"idempotencyKey":"0"`)).want(202)
}
