package httpapi

import (
	"strings"
	"testing"

	"parley/ingress/internal/ratelimit"
	"parley/shared/domain"
)

const gathers = `"coalesce":{"key":"{{k}}","windowSeconds":3600,"maxWaitSeconds":3600}`

// deliverKeyed sends a new delivery with a coalescing key.
func (a *runEnv) deliverKeyed(hookID, key string) answer {
	a.t.Helper()
	return a.deliver(hookID, "github", a.fresh(), "push", `{"a":1,"k":"`+key+`"}`).want(a.t, key, 202, "")
}

// A delivery that joins a run does not count against a budget that limits the number of runs. If
// such a budget is used up, only deliveries that would start a run are refused.
func TestADeliveryThatJoinsIsWithinABudgetOfRuns(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	hookID := a.newHook(h, "github", gathers)
	budget := `{"scope":"automation","subjectId":"github hook","metric":"`
	a.ok("POST", "/api/budgets", budget+`runs","period":"month","limit":1}`, h.key)
	first := a.deliverKeyed(hookID, "one").text(t, "runId")
	if got := a.deliverKeyed(hookID, "one"); got.text(t, "runId") != first {
		t.Errorf("the delivery joins %s, want the run %s", got.body, first)
	}
	if got := a.deliverKeyed(hookID, "two"); got.text(t, "status") != "refused" || got.text(t, "error.code") != "budget_exceeded" {
		t.Errorf("begins one: %s", got.body)
	}
	if got := a.deliverKeyed(hookID, "one"); got.text(t, "runId") != first {
		t.Errorf("a later delivery joins %s, want the run %s", got.body, first)
	}
	a.ok("POST", "/api/budgets", budget+`tokens","period":"month","limit":0}`, h.key)
	if got := a.deliverKeyed(hookID, "one"); got.text(t, "status") != "refused" || !strings.Contains(got.text(t, "error.message"), "tokens") {
		t.Errorf("without tokens: %s", got.body)
	}
}

// Deliveries that start no run do not use up the rate limit.
func TestDeliveriesThatJoinCostNothing(t *testing.T) {
	t.Parallel()
	a := newRunEnvFor(t, newTestEnv(t, ratelimit.Settings{Demo: 1, User: 50, System: 51, Widget: unlimited.Widget}))
	h := a.newTestOrg("home")
	hookID := a.newHook(h, "github", gathers)
	for range 90 {
		a.deliverKeyed(hookID, "one")
	}
	runID := a.deliver(hookID, "github", a.fresh(), "push", `{"a":1}`).want(t, "a run of its own", 202, "").text(t, "runId")
	var held bool
	must(t, a.sql.QueryRowContext(t.Context(), `SELECT not_before IS NOT NULL FROM open_runs WHERE run_id = $1`, runID).Scan(&held))
	if held {
		t.Error("a run is put off for deliveries that began none")
	}
}

// After a hook's agent or key was changed, new deliveries do not join runs that were started before
// the change.
func TestAChangedHookBeginsAnotherRun(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	hookID := a.newHook(h, "github", gathers)
	_, keyID := a.newKey(h, h.owner, domain.KeyScopeOrganization)
	seen := map[string]bool{}
	for _, change := range []string{"{}", `{"agentId":"` + a.newAgent(h) + `"}`, `{"keyId":"` + keyID + `"}`} {
		a.ok("PUT", "/api/hooks?id="+hookID, change, h.key)
		runID := a.deliverKeyed(hookID, "one").text(t, "runId")
		if again := a.deliverKeyed(hookID, "one").text(t, "runId"); seen[runID] || again != runID {
			t.Errorf("%s: the runs %s, %s; before %v", change, runID, again, seen)
		}
		seen[runID] = true
	}
	a.ok("PUT", "/api/hooks?id="+hookID, `{"messageTemplate":"{{a}} else"}`, h.key)
	if runID := a.deliverKeyed(hookID, "one").text(t, "runId"); !seen[runID] {
		t.Error("another template begins another run")
	}
}
