package httpapi

import (
	"strings"
	"testing"

	"parley/shared/domain"
	"parley/shared/store/executiondb"
)

// fail finishes an accepted run like a worker whose model call the provider has rejected.
func (a *runEnv) fail(runID string, refusal domain.ProviderError) {
	a.t.Helper()
	claim := a.claim(a.t, runID)
	if claim.Run == nil {
		a.t.Fatalf("run %s cannot be claimed: %+v", runID, claim)
	}
	must(a.t, a.store.Executions.NoteRefusal(a.t.Context(), claim.Run.Held(), refusal))
	run := claim.Run.Run()
	cause := &domain.RunError{Code: "model_rejected", Message: "The model provider rejected the request."}
	run.End(domain.RunFailed, cause, domain.At(claim.Run.Now), claim.Run.RetentionSecs)
	outcome, err := executiondb.NewOutcome(claim.Run.Held(), run)
	must(a.t, err)
	outcome.EndN = 3
	_, err = a.store.Executions.Finish(a.t.Context(), []executiondb.Outcome{outcome})
	must(a.t, err)
}

// TestOnlyAdminsSeeWhyAProviderRefused checks every response that contains the error of a run.
// Admins see the provider's response in whole runs and in timelines. Members see only Parley's own
// error.
func TestOnlyAdminsSeeWhyAProviderRefused(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	agentID := a.newAgent(h)
	const words = "the deployment tea-9 is gone"
	asked := "/api/agents?action=chat&id=" + agentID

	for name, c := range map[string]struct {
		headers []string
		admin   bool
	}{
		"the owner":              {[]string{h.owner.auth, h.header}, true},
		"an admin":               {[]string{h.admin.auth, h.header}, true},
		"the organization's key": {[]string{h.key}, true},
		"a member":               {[]string{h.member.auth, h.header}, false},
		"a member's key":         {[]string{h.memberKey, h.header}, false},
	} {
		keyed := append([]string{"Idempotency-Key: k" + a.fresh()}, c.headers...)
		body := `{"sessionId":"s` + a.fresh() + `","message":"hi"}`
		runID := a.ok("POST", asked, body, append(keyed, "Prefer: respond-async")...).text(t, "id")
		a.fail(runID, domain.ProviderError{Status: 404, Message: words})

		for what, got := range map[string]answer{
			"a replay":     a.ok("POST", asked, body, keyed...),
			"the run":      a.ok("GET", "/api/runs?id="+runID, "", c.headers...),
			"a long poll":  a.ok("GET", "/api/runs?id="+runID+"&wait=1", "", c.headers...),
			"a cancel":     a.ok("POST", "/api/runs?action=cancel&id="+runID, "", c.headers...),
			"the timeline": a.ok("GET", "/api/runs?timeline=1&id="+runID, "", c.headers...),
			"the list":     a.ok("GET", "/api/runs?limit=1", "", c.headers...),
			"the events":   a.ok("GET", "/api/runs?stream=1&id="+runID, "", c.headers...),
			"the AI SDK":   a.ok("GET", "/api/runs?format=ai-sdk&id="+runID, "", c.headers...),
			"the session":  a.ok("GET", "/api/sessions?limit=1", "", c.headers...),
			"the response": a.ok("GET", "/v1/responses/resp_"+strings.TrimPrefix(runID, "run_"), "", c.headers...),
		} {
			whole := what == "a replay" || what == "the run" || what == "a long poll" || what == "a cancel"
			shown := strings.Contains(string(got.body), words)
			if want := c.admin && (whole || what == "the timeline"); shown != want {
				t.Errorf("%s, %s: shown %v: %s", name, what, shown, got.body)
			}
			if c.admin && whole && (got.json(t, "error.provider.status") != 404.0 || got.text(t, "error.code") != "model_rejected" ||
				got.text(t, "finishReason") != "error" || got.json(t, "agentVersion") != 1.0) {
				t.Errorf("%s, %s: %s", name, what, got.body)
			}
		}
	}
}
