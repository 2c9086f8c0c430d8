package httpapi

import (
	"testing"
)

func TestUsageIsTheOrganizations(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h, away := a.newTestOrg("home"), a.newTestOrg("away")
	one, other := a.newAgent(h), a.newAgent(h)
	a.finish("answer", a.newChat(h, one, "s", h.member.auth, h.header))
	a.newChat(h, other, "s", h.key)
	a.newChat(away, a.newAgent(away), "s", away.key)
	for query, want := range map[string][4]float64{ // numbers of intervals, runs, completed runs and failed runs
		"":                          {7, 2, 1, 0},
		"?days=1":                   {24, 2, 1, 0},
		"?days=2&agentId=" + one:    {48, 1, 1, 0},
		"?days=90&agentId=" + other: {90, 1, 0, 0},
	} {
		got := a.ok("GET", "/api/usage"+query, "", h.admin.auth, h.header)
		data, _ := got.json(t, "data").([]any)
		last, _ := data[len(data)-1].(map[string]any)
		if float64(len(data)) != want[0] || got.json(t, "totals.runs") != want[1] || got.json(t, "totals.completed") != want[2] ||
			got.json(t, "totals.failed") != want[3] || last["runs"] != want[1] {
			t.Errorf("%s: %d intervals, %s", query, len(data), got.body)
		}
		if got.json(t, "currency") != "CHF" {
			t.Errorf("%s: costs in %v", query, got.json(t, "currency"))
		}
		if ended := got.json(t, "totals.p50Ms") != nil; ended != (want[2] > 0) {
			t.Errorf("%s: p50 %v", query, got.json(t, "totals.p50Ms"))
		}
	}
	if got := a.ok("GET", "/api/usage", "", away.admin.auth, away.header); got.json(t, "totals.runs") != 1.0 || got.json(t, "totals.completed") != 0.0 {
		t.Errorf("another organization, immediately after this one: %s", got.body)
	}
	for query, problems := range map[string]string{
		"days=0": "days:invalid_value", "days=91": "days:invalid_value", "days=-1": "days:invalid_value", "days=": "days:invalid_value",
		"days=07": "days:invalid_value", "days=1.5": "days:invalid_value", "days=1&days=1": "days:duplicate",
		"days=x": "days:invalid_value", "agentId=a&agentId=b": "agentId:duplicate",
	} {
		a.from("GET", "/api/usage?"+query, "", h.key).want(t, query, 400, "invalid_request "+problems)
	}
}
