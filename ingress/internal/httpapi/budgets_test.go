package httpapi

import (
	"strconv"
	"strings"
	"sync"
	"testing"
)

// budget creates a budget for an automation that has no runs. It first deletes old budgets that the
// requests of the access table have created or changed, so that there are never too many.
func (a *runEnv) budget(h *testOrg) string {
	a.t.Helper()
	_, err := a.sql.ExecContext(a.t.Context(), `DELETE FROM budgets WHERE id IN (SELECT id FROM budgets WHERE org_id = $1 ORDER BY id DESC OFFSET 40)
		AND (most = 2000 OR subject_id NOT LIKE $2)`, h.org, h.word+"%")
	must(a.t, err)
	return a.ok("POST", "/api/budgets", `{"scope":"automation","subjectId":"`+h.word+a.fresh()+`","metric":"runs","period":"month","limit":1000}`,
		h.owner.auth, h.header).text(a.t, "id")
}

func TestBudgetsAreMadeAndChanged(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h, away := a.newTestOrg("home"), a.newTestOrg("away")
	agentID := a.newAgent(h)
	_, keyID := a.newKey(h, h.owner, "organization")
	_, own := a.newKey(h, h.owner, "user")
	made := a.ok("POST", "/api/budgets", `{"scope":"agent","subjectId":"`+agentID+`","metric":"sandboxSeconds","period":"day","limit":60}`, h.admin.auth, h.header)
	budgetID := made.text(t, "id")
	if made.json(t, "limit") != 60.0 || made.json(t, "used") != 0.0 || made.json(t, "reserved") != 0.0 || !strings.HasSuffix(made.text(t, "resetsAt"), "T00:00:00.000Z") {
		t.Errorf("made: %s", made.body)
	}
	a.ok("POST", "/api/budgets", `{"scope":"key","subjectId":"`+keyID+`","metric":"tokens","period":"month","limit":0}`, h.key)
	costs := a.ok("POST", "/api/budgets", `{"scope":"organization","metric":"costMicros","period":"day","limit":1000000000000000}`, h.key)
	if costs.json(t, "currency") != "CHF" || strings.Contains(string(made.body), "currency") {
		t.Errorf("a budget of costs: %s, one of time: %s", costs.body, made.body)
	}
	a.ok("PUT", "/api/budgets?id="+costs.text(t, "id"), string(costs.body), h.key)
	a.from("PUT", "/api/budgets?id="+costs.text(t, "id"), `{"currency":"EUR"}`, h.key).want(t, "another currency", 400, "invalid_request currency:invalid_value")
	if got := a.ok("PUT", "/api/budgets?id="+budgetID, `{"limit":90}`, h.key); got.json(t, "limit") != 90.0 || got.json(t, "metric") != "sandboxSeconds" {
		t.Errorf("changed: %s", got.body)
	}
	read := string(a.ok("GET", "/api/budgets?id="+budgetID, "", h.key).body)
	if got := a.ok("PUT", "/api/budgets?id="+budgetID, read, h.key); got.json(t, "limit") != 90.0 || got.json(t, "subjectId") != agentID {
		t.Errorf("put back as it was read: %s", got.body)
	}
	a.from("PUT", "/api/budgets?id="+budgetID, `{"id":"`+agentID+`","scope":"key","subjectId":null,"metric":"runs","period":"month","limit":1}`, h.key).want(t,
		"another budget", 400, "invalid_request id:invalid_value scope:invalid_value subjectId:invalid_value metric:invalid_value period:invalid_value")
	list := a.ok("GET", "/api/budgets?limit=2", "", h.key)
	rest := a.ok("GET", "/api/budgets?cursor="+list.text(t, "nextCursor"), "", h.key)
	if list.json(t, "data.0.scope") != "organization" || list.json(t, "data.0.subjectId") != nil || rest.json(t, "data.0.id") != budgetID || rest.json(t, "hasMore") != false {
		t.Errorf("listed: %s\n%s", list.body, rest.body)
	}
	for body, problems := range map[string]string{
		`{}`: "scope:required metric:required period:required limit:required",
		`{"scope":"all","metric":"minutes","period":"week","limit":-1}`:                                     "metric:invalid_value period:invalid_value limit:invalid_value scope:invalid_value",
		`{"scope":"organization","subjectId":"x","metric":"runs","period":"day","limit":1}`:                 "subjectId:conflict",
		`{"scope":"agent","metric":"runs","period":"day","limit":1000000000000001}`:                         "limit:invalid_value subjectId:required",
		`{"scope":"agent","subjectId":"` + a.newAgent(away) + `","metric":"runs","period":"day","limit":1}`: "subjectId:invalid_value",
		`{"scope":"key","subjectId":"` + own + `","metric":"runs","period":"day","limit":1}`:                "subjectId:invalid_value",
		`{"scope":"automation","subjectId":"","metric":"runs","period":"day","limit":1}`:                    "subjectId:invalid_value",
	} {
		a.from("POST", "/api/budgets", body, h.key).want(t, body, 400, "invalid_request "+problems)
	}
	again := `{"scope":"agent","subjectId":"` + agentID + `","metric":"sandboxSeconds","period":"day","limit":1}`
	second := a.from("POST", "/api/budgets", again, h.key)
	second.want(t, "a second one", 409, "conflict")
	got := second.text(t, "detail")
	if !strings.Contains(got, agentID) || !strings.Contains(got, "already has a budget of 90 seconds in sandboxes per day ("+budgetID+")") {
		t.Errorf("a second one: %s", got)
	}
	a.from("PUT", "/api/budgets?id="+budgetID, `{"limit":1}`, away.key).want(t, "another's", 404, "not_found")
	a.ok("DELETE", "/api/budgets?id="+budgetID, "", h.key)
	a.from("GET", "/api/budgets?id="+budgetID, "", h.key).want(t, "deleted", 404, "not_found")
}

// Concurrent requests never exceed a budget, whatever endpoints they use. Replays of accepted
// requests succeed.
func TestRunsStayWithinTheirBudget(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	agentID, other := a.newAgent(h), a.newAgent(h)
	a.newChat(h, agentID, "before", h.key)
	budgetID := a.ok("POST", "/api/budgets", `{"scope":"agent","subjectId":"`+agentID+`","metric":"runs","period":"month","limit":6}`, h.key).text(t, "id")
	chat := "/api/agents?action=chat&id=" + agentID
	ask := func(key string) answer {
		return a.from("POST", chat, `{"sessionId":"`+key+`","message":"m"}`, h.key, "Prefer: respond-async", "Idempotency-Key: "+key)
	}
	statuses, mu, all := map[int]int{}, sync.Mutex{}, sync.WaitGroup{}
	for n := range 30 {
		all.Go(func() {
			got := ask("k" + strconv.Itoa(n))
			mu.Lock()
			defer mu.Unlock()
			statuses[got.status]++
		})
	}
	all.Wait()
	if statuses[202] != 5 || statuses[429] != 25 {
		t.Fatalf("statuses of 30 concurrent requests: %v", statuses)
	}
	if got := a.ok("GET", "/api/budgets?id="+budgetID, "", h.key); got.json(t, "used") != 6.0 {
		t.Errorf("%s", got.body)
	}
	replays := 0
	for n := range 30 {
		if ask("k"+strconv.Itoa(n)).status == 202 {
			replays++
		}
	}
	if replays != 5 {
		t.Errorf("%d of the accepted ones are answered again", replays)
	}
	a.newChat(h, other, "s", h.key)
	refused := ask("fresh").want(t, "used up", 429, "budget_exceeded")
	agent := strconv.Quote(a.ok("GET", "/api/agents?id="+agentID, "", h.key).text(t, "name")) + " (" + agentID + ")"
	if seconds, err := strconv.Atoi(refused.header.Get("Retry-After")); err != nil || seconds < 1 || !strings.Contains(refused.text(t, "detail"), budgetID) ||
		!strings.Contains(refused.text(t, "detail"), " runs per month of the agent "+agent+" is used up") {
		t.Errorf("%v %s", refused.header, refused.body)
	}
	a.from("POST", "/api/internal/run-automation", `{"target":"`+agentID+`","input":{"message":"m"}}`, h.key).want(t, "automation", 429, "budget_exceeded")
	quota := a.from("POST", "/v1/chat/completions", `{"model":"`+agentID+`","messages":[{"role":"user","content":"m"}]}`, bearer(h.key))
	if quota.status != 429 || quota.json(t, "error.type") != "insufficient_quota" || quota.json(t, "error.code") != "budget_exceeded" || quota.header.Get("X-Should-Retry") != "false" {
		t.Errorf("to a client of OpenAI's: %d %s", quota.status, quota.body)
	}
	a.ok("PUT", "/api/budgets?id="+budgetID, `{"limit":7}`, h.key)
	ask("fresh").want(t, "with more", 202, "")
}

// The error for a used-up budget of costs contains the limit in the currency.
func TestBudgetOfCostsNamesItsCurrency(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	agentID := a.newAgent(h)
	a.newChat(h, agentID, "before", h.key)
	budgetID := a.ok("POST", "/api/budgets", `{"scope":"organization","metric":"costMicros","period":"month","limit":2500000}`, h.key).text(t, "id")
	_, err := a.sql.ExecContext(t.Context(), `UPDATE budget_counts SET used = 2500000 WHERE budget_id = $1`, budgetID)
	must(t, err)
	refused := a.from("POST", "/api/agents?action=chat&id="+agentID, `{"sessionId":"s","message":"m"}`, h.key).want(t, "used up", 429, "budget_exceeded")
	if detail := refused.text(t, "detail"); !strings.HasPrefix(detail, "the budget of 2.50 CHF per month of the organization is used up; ") {
		t.Errorf("detail: %s", detail)
	}
}

// Runs are counted separately for each key and each automation, also in the usage report.
func TestBudgetsOfKeysAndAutomations(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	agentID := a.newAgent(h)
	key, keyID := a.newKey(h, h.owner, "organization")
	trigger := func(by, automation string) answer {
		return a.from("POST", "/api/internal/run-automation", `{"target":"`+agentID+`","input":{"message":"m"}}`, by, "Prefer: respond-async", "X-Automation-Id: "+automation)
	}
	a.ok("POST", "/api/budgets", `{"scope":"automation","subjectId":"nightly","metric":"runs","period":"day","limit":1}`, h.key)
	a.ok("POST", "/api/budgets", `{"scope":"key","subjectId":"`+keyID+`","metric":"runs","period":"day","limit":2}`, h.key)
	trigger(h.key, "nightly").want(t, "the first of an automation", 202, "")
	trigger(key, "nightly").want(t, "the second of an automation", 429, "budget_exceeded")
	trigger(key, "daily").want(t, "the first by a key", 202, "")
	rotated := a.ok("POST", "/api/keys?action=rotate&id="+keyID, "", h.owner.auth, h.header)
	trigger("x-api-key: "+rotated.text(t, "key"), "daily").want(t, "the second, by the key that took its place", 202, "")
	trigger(key, "daily").want(t, "the third by either", 429, "budget_exceeded")
	trigger(h.key, "daily").want(t, "by another key", 202, "")
	got := a.ok("GET", "/api/usage?by=automation", "", h.key)
	if got.json(t, "groups.0.id") != "daily" || got.json(t, "groups.0.runs") != 3.0 || got.json(t, "groups.1.runs") != 1.0 || got.json(t, "groups.1.sandboxSeconds") != 0.0 {
		t.Errorf("by automation: %s", got.body)
	}
	if got := a.ok("GET", "/api/usage?by=key&keyId="+keyID+"&automationId=daily", "", h.key); got.json(t, "totals.runs") != 1.0 || got.json(t, "groups.0.id") != keyID {
		t.Errorf("by key: %s", got.body)
	}
	a.from("GET", "/api/usage?by=hour", "", h.key).want(t, "by what there is not", 400, "invalid_request by:invalid_value")
}
