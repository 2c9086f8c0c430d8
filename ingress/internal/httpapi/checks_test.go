package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/shared/bus"
	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/secrets"
)

// answerChecks responds, as workers do, to checks and to requests for the list of models. All checks
// succeed, and the list contains the offline models.
func (a *runEnv) answerChecks() {
	a.t.Helper()
	for kind, check := range map[string]string{
		contract.KindCheckModels: `{"checks":[{"kind":"model","name":"offline","ok":true,"detail":"answered","durationMs":2}]}`,
		contract.KindCheckTools:  `{"checks":[{"kind":"httpRequest","name":"call","ok":true,"detail":"connected","durationMs":3}]}`,
		contract.KindListModels:  `{"list":{"default":"offline","models":["offline","offline/echo"]}}`,
	} {
		stop, err := a.bus.ServeTool(kind, bus.ToolOptions{Slots: 8, Queue: 64}, func(context.Context, bus.ToolMessage) ([]byte, bool) {
			return []byte(check), true
		})
		must(a.t, err)
		a.t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			stop(ctx)
		})
	}
}

// fixedChecks is a WorkerCaller that records the claims and returns a fixed reply for each kind of
// check. For a kind without a reply, it responds as if there were no worker.
type fixedChecks struct {
	replies map[string]string

	mu     sync.Mutex
	claims map[string]contract.CheckClaims
}

func (f *fixedChecks) Call(_ context.Context, kind, capability string, body []byte, deadline time.Time) ([]byte, error) {
	signer, err := secrets.NewSigner(strings.Repeat("ab", 32))
	if err != nil {
		return nil, err
	}
	var claims contract.CheckClaims
	raw, err := signer.Verify(capability, body)
	if err = errors.Join(err, contract.ReadClaims(raw, &claims)); err != nil || time.Until(deadline) > 30*time.Second {
		return nil, fmt.Errorf("a check that a worker refuses, until %s: %w", deadline, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.claims[kind] = claims
	if f.replies[kind] == "" {
		return nil, bus.ErrNoToolWorker
	}
	return []byte(f.replies[kind]), nil
}

// If there is no worker to list the models, the error is unavailable.
func TestListOfModels(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	list := func() answer { return a.from("GET", "/api/agents/models", "", h.key) }
	if got := list().want(t, "the list", 200, ""); string(got.body) != `{"default":"offline","models":["offline","offline/echo"]}`+"\n" && string(got.body) != `{"default":"offline","models":["offline","offline/echo"]}` {
		t.Errorf("list = %s", got.body)
	}
	a.from("GET", "/api/agents/models", "", h.member.auth, h.header).want(t, "a member", 403, "permission_denied")
	a.rebuild(func(d *Deps) { d.Searches = &fixedChecks{claims: map[string]contract.CheckClaims{}} })
	if got := list().want(t, "no worker", 503, "unavailable"); got.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
}

func TestCheckOfConnections(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	agentID := a.newAgent(h)
	workers := &fixedChecks{claims: map[string]contract.CheckClaims{}, replies: map[string]string{
		contract.KindCheckModels: `{"checks":[{"kind":"model","name":"offline","ok":true,"detail":"answered","durationMs":2}]}`,
		contract.KindCheckTools:  `{"checks":[{"kind":"httpRequest","name":"call","ok":false,"detail":"The host could not be reached.","durationMs":3}]}`,
	}}
	a.rebuild(func(d *Deps) { d.Searches = workers })
	before := a.ok("GET", "/api/agents?id="+agentID, "", h.key)
	if string(before.raw(t, "lastCheck")) != "null" {
		t.Errorf("lastCheck = %s before any check", before.raw(t, "lastCheck"))
	}

	got := a.ok("POST", "/api/agents?id="+agentID+"&action=check", "", h.key)
	const checks = `[{"kind":"model","name":"offline","ok":true,"detail":"answered","durationMs":2},` +
		`{"kind":"httpRequest","name":"call","ok":false,"detail":"The host could not be reached.","durationMs":3}]`
	if got.json(t, "ok") != false || got.json(t, "version") != 1.0 || string(got.raw(t, "checks")) != checks {
		t.Errorf("check = %s", got.body)
	}
	for kind, claims := range workers.claims {
		want := contract.CheckClaims{OrganizationID: h.org, Kind: kind, AgentID: agentID, KeyID: claims.KeyID, Version: 1, Expires: claims.Expires}
		if claims != want || time.Until(claims.Expires) > 30*time.Second {
			t.Errorf("claims %+v, want %+v", claims, want)
		}
	}

	// The agent contains the result of its check, but its version is the same as before.
	after := a.ok("GET", "/api/agents?id="+agentID, "", h.member.auth, h.header)
	if string(after.raw(t, "lastCheck")) != string(got.body) || after.json(t, "version") != 1.0 {
		t.Errorf("lastCheck = %s, want %s", after.raw(t, "lastCheck"), got.body)
	}
	// A client may send back an agent that it read before the check.
	if saved := a.ok("PUT", "/api/agents?id="+agentID, string(before.body), h.key); string(saved.raw(t, "lastCheck")) != string(got.body) {
		t.Errorf("lastCheck = %s after a change", saved.raw(t, "lastCheck"))
	}

	// Without workers, the check fails and names the missing worker.
	workers.replies = nil
	got = a.ok("POST", "/api/agents?id="+agentID+"&action=check", "", h.key)
	if got.json(t, "ok") != false || got.text(t, "checks.0.kind") != "worker" || got.text(t, "checks.0.name") != "agent" ||
		got.text(t, "checks.1.name") != "tool" || got.json(t, "version") != 2.0 {
		t.Errorf("check without workers = %s", got.body)
	}

	// An agent without tools needs no tool worker.
	plain := a.ok("POST", "/api/agents", `{"name":"n","systemPrompt":"s"}`, h.key).text(t, "id")
	workers.replies = map[string]string{contract.KindCheckModels: `{"checks":[{"kind":"model","name":"offline","ok":true,"detail":"answered","durationMs":2}]}`}
	if got = a.ok("POST", "/api/agents?id="+plain+"&action=check", "", h.key); got.json(t, "ok") != true || got.json(t, "checks.1") != nil {
		t.Errorf("check of an agent without tools = %s", got.body)
	}

	a.from("POST", "/api/agents?id="+agentID+"&action=check", `{"a":1}`, h.key).want(t, "a body", 400, "invalid_request a:unknown_field")
	a.from("POST", "/api/agents?id="+agentID+"&action=check", "", h.member.auth, h.header).want(t, "a member", 403, "permission_denied")
	a.from("POST", "/api/agents?action=check", "", h.key).want(t, "no id", 400, "invalid_request id:required")
	a.from("POST", "/api/agents?id="+agentID+"&action=check", "", a.newTestOrg("away").key).want(t, "another organization", 404, "not_found")
}

func TestChecksAreLimited(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	agentID := a.newAgent(h)
	a.rebuild(func(d *Deps) { d.ChecksPerMinute = 2 })
	check := func() answer { return a.from("POST", "/api/agents?id="+agentID+"&action=check", "", h.key) }
	for range 2 {
		check().want(t, "allowed", 200, "")
	}
	if got := check().want(t, "one too many", 429, "rate_limited"); got.header.Get("Retry-After") == "" {
		t.Errorf("headers %v", got.header)
	}
	away := a.newTestOrg("away")
	a.from("POST", "/api/agents?id="+a.newAgent(away)+"&action=check", "", away.key).want(t, "another organization", 200, "")
}

// A check is rejected if a budget is used up or cannot cover the calls of the check. A check counts
// against the budgets of the caller's key. Budgets that limit the number of runs do not apply.
func TestBudgetsRefuseChecks(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	agentID := a.newAgent(h)
	workers := &fixedChecks{claims: map[string]contract.CheckClaims{}, replies: map[string]string{
		contract.KindCheckModels: `{"checks":[{"kind":"model","name":"offline","ok":true,"detail":"answered","durationMs":2}]}`,
		contract.KindCheckTools:  `{"checks":[]}`,
	}}
	a.rebuild(func(d *Deps) { d.Searches = workers })
	check := func() answer { return a.from("POST", "/api/agents?id="+agentID+"&action=check", "", h.key) }
	budget := func(metric string) string {
		body := `{"scope":"agent","subjectId":"` + agentID + `","metric":"` + metric + `","period":"day","limit":0}`
		return a.ok("POST", "/api/budgets", body, h.key).text(t, "id")
	}

	budget("runs")
	check().want(t, "a budget of runs", 200, "")
	tokens := budget("tokens")
	clear(workers.claims)
	got := check()
	got.want(t, "a budget of tokens", 429, "budget_exceeded")
	if !strings.Contains(got.text(t, "detail"), tokens) || got.header.Get("Retry-After") == "" || len(workers.claims) != 0 {
		t.Errorf("%v %s, and the workers got %v", got.header, got.body, workers.claims)
	}
	if last := a.ok("GET", "/api/agents?id="+agentID, "", h.key); last.json(t, "lastCheck.ok") != true {
		t.Errorf("a refused check replaced the last one: %s", last.body)
	}

	a.ok("PUT", "/api/budgets?id="+tokens, `{"limit":100}`, h.key)
	lacking := a.ok("GET", "/api/budgets?id="+tokens, "", h.key)
	workers.replies[contract.KindCheckModels] = `{"lacking":` + string(lacking.body) + `,"later":true}`
	got = check()
	got.want(t, "too little is left", 429, "budget_exceeded")
	if after, err := strconv.Atoi(got.header.Get("Retry-After")); err != nil || after > 30 {
		t.Errorf("Retry-After = %s", got.header.Get("Retry-After"))
	}
	if keyID := workers.claims[contract.KindCheckModels].KeyID; !strings.HasPrefix(keyID, "key_") {
		t.Errorf("the check is charged to the key %q", keyID)
	}
}

// The warnings of a finished run name the MCP servers that could not be reached.
func TestWarningsOfRuns(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	runID := a.newChat(h, a.newAgent(h), "s", h.member.auth, h.header)
	a.end(runID, func(r *domain.Run) {
		r.Message, r.Output = new("m"), &domain.Output{Message: "m"}
		r.Warnings = []domain.RunWarning{{Kind: domain.CheckMCP, Name: "crm", Message: "The host could not be reached."}}
	})
	got := a.ok("GET", "/api/runs?id="+runID, "", h.member.auth, h.header)
	const want = `[{"kind":"mcp","name":"crm","message":"The host could not be reached."}]`
	if string(got.raw(t, "warnings")) != want {
		t.Errorf("warnings = %s, want %s", got.raw(t, "warnings"), want)
	}
}

// raw returns the JSON of a field of the response.
func (a answer) raw(tb testing.TB, name string) json.RawMessage {
	tb.Helper()
	var members map[string]json.RawMessage
	if err := json.Unmarshal(a.body, &members); err != nil {
		tb.Fatalf("%s: %v", a.body, err)
	}
	return members[name]
}
