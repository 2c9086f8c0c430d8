package store_test

import (
	"encoding/json"
	"strings"
	"testing"

	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/store/executiondb"
	"parley/shared/store/lease"
)

// waitsForClient returns a run that waits for the results of the calls c1 and c2.
func (b *testEnv) waitsForClient(session string) lease.Held {
	b.Helper()
	held := b.mustClaim(b.accept(wideWindow, b.run("", session))[0].Run.Run.ID).Held()
	action := domain.RequiredAction{Kind: domain.ActionClientTools}
	for _, id := range []string{"c1", "c2"} {
		b.prepare(held, effect(id, domain.SideEffectUnsafe), true)
		action.Calls = append(action.Calls, domain.ClientCall{ToolCallID: id, Name: "pay", Input: json.RawMessage(`{}`)})
	}
	out, err := b.s.Executions.Park(b.Context(), held, action, executiondb.Chunk{})
	if err != nil || !out.Parked || out.Action.Kind != domain.ActionClientTools {
		b.Fatalf("parking: %+v, %v", out, err)
	}
	return held
}

func (b *testEnv) results(held lease.Held, outputs ...string) (executiondb.Decided, error) {
	b.Helper()
	var results []domain.ClientResult
	for i := 0; i+1 < len(outputs); i += 2 {
		results = append(results, domain.ClientResult{ToolCallID: outputs[i], Output: json.RawMessage(outputs[i+1])})
	}
	return b.s.Executions.TakeResults(b.Context(), b.org, "", held.RunID, results, "usr_1")
}

// Only the first complete list of results counts. Sending the same results again changes nothing.
// Different results are a conflict, even after the run has continued or finished.
func TestResultsOfTheClient(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	held := b.waitsForClient("s")
	if run := b.wantRun(held.RunID, domain.RunRequiresAction); len(run.RequiredAction.Calls) != 2 || run.RequiredAction.ToolCallID != "" {
		t.Errorf("the run waits for %+v", run.RequiredAction)
	}
	for _, wrong := range [][]string{{"c1", `1`}, {"c1", `1`, "c2", `2`, "c3", `3`}, {"c3", `3`}} {
		_, err := b.results(held, wrong...)
		wantCode(t, err, apierr.InvalidRequest)
	}
	if _, err := b.decide(held, domain.DecisionApprove); apierr.CodeFor(err) != apierr.InvalidRequest {
		t.Errorf("approving the client's call: %v", err)
	}

	out, err := b.results(held, "c2", `{"x": 2}`, "c1", `1`)
	if err != nil || !out.Resumed || out.Run.Run.Status != domain.RunQueued {
		t.Fatalf("%+v, %v", out, err)
	}
	check := func(stage string) {
		t.Helper()
		if again, err := b.results(held, "c1", `1`, "c2", `{"x":2}`); err != nil || again.Resumed {
			t.Errorf("%s, the same results: %+v, %v", stage, again, err)
		}
		_, err := b.results(held, "c1", `1`, "c2", `{"x":3}`)
		wantCode(t, err, apierr.VersionConflict)
	}
	check("resumed")

	next := b.mustClaim(held.RunID)
	for id, want := range map[string]string{"c1": `{"toolCallId":"c1","output":1}`, "c2": `{"toolCallId":"c2","output":{"x":2}}`} {
		e, held, err := b.s.Executions.PrepareEffect(t.Context(), next.Held(), effect(id, domain.SideEffectUnsafe), true)
		if err != nil || !held || e.State != domain.EffectDone || string(e.Outcome) != want {
			t.Errorf("the effect %s is %+v, %v, %v", id, e, held, err)
		}
	}
	b.finish(next, "done")
	check("finished")
}

// A run fails if the client's results do not arrive in time. Results that arrive later are a
// conflict.
func TestLateResultsOfTheClient(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	held := b.waitsForClient("s")
	b.exec(`UPDATE open_runs SET action_expires_at = clock_timestamp(), required_action = jsonb_set(required_action::jsonb, '{expiresAt}', '"2020-01-01T00:00:00.000Z"')::json WHERE run_id = $1`, held.RunID)
	_, err := b.results(held, "c1", `1`, "c2", `2`)
	wantCode(t, err, apierr.VersionConflict)
	if ended, err := b.s.Executions.EndUnanswered(t.Context(), 10); err != nil || len(ended) != 1 {
		t.Fatalf("%+v, %v", ended, err)
	}
	b.wantRun(held.RunID, domain.RunFailed)
	if result := b.text(`SELECT result FROM runs WHERE id = $1`, held.RunID); !strings.Contains(result, `"code":"action_expired"`) {
		t.Error(result)
	}
	_, err = b.results(held, "c1", `1`, "c2", `2`)
	wantCode(t, err, apierr.VersionConflict)
}
