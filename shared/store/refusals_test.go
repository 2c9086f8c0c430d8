package store_test

import (
	"testing"

	"parley/shared/domain"
	"parley/shared/store/executiondb"
	"parley/shared/store/lease"
	"parley/shared/store/rundb"
)

// refuse records a provider's response for an attempt.
func (b *testEnv) refuse(held lease.Held, status int, message string) {
	b.Helper()
	b.must(b.s.Executions.NoteRefusal(b.Context(), held, domain.ProviderError{Status: status, Message: message}))
}

// wantRefusal checks which response of a provider is stored as the explanation of a run that failed
// with the given code.
func (b *testEnv) wantRefusal(what, runID, code string, want domain.ProviderError) {
	b.Helper()
	got, err := b.s.Runs.Refusal(b.Context(), b.org, runID, code)
	b.must(err)
	if got == nil {
		got = &domain.ProviderError{}
	}
	if *got != want {
		b.Errorf("%s: %+v", what, *got)
	}
}

// TestRefusalsExplainFailures checks that the response of a provider explains the run's failure,
// and that the timeline shows the response at the attempt that received it.
func TestRefusalsExplainFailures(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	runID := b.accept(wideWindow, b.run("", ""))[0].Run.Run.ID
	first := b.mustClaim(runID)
	b.refuse(first.Held(), 503, "over\x00loaded")
	b.wantTimeline("during the attempt", runID, "queue 1 completed", "attempt 1 running", "turn 1 running")

	busy := &domain.RunError{Code: "model_unavailable", Message: "later"}
	back := b.requeue(executiondb.Requeue{Held: first.Held(), Cause: busy})
	if !back.Done {
		t.Fatal("not requeued")
	}
	b.refuse(first.Held(), 500, "a late note")

	second := b.again(runID)
	if n, err := b.s.Executions.FailedSinceStep(t.Context(), second.Held(), busy.Code); err != nil || n != (executiondb.Failures{All: 1, Refused: 1}) {
		t.Errorf("%+v attempts failed, %v", n, err)
	}
	b.journal(second.Held(), 1, asksTurn)
	if n, err := b.s.Executions.FailedSinceStep(t.Context(), second.Held(), busy.Code); err != nil || n != (executiondb.Failures{}) {
		t.Errorf("%+v attempts failed since the last step, %v", n, err)
	}

	overloaded := domain.ProviderError{Status: 503, Message: "overloaded"}
	b.wantRefusal("the same code", runID, busy.Code, overloaded)
	b.wantRefusal("another code", runID, "model_rejected", domain.ProviderError{})

	denied := domain.ProviderError{Status: 401, Message: "no such key"}
	b.refuse(second.Held(), denied.Status, denied.Message)
	b.wantRefusal("the last attempt", runID, "model_rejected", denied)

	of, _, err := b.s.Runs.Timeline(t.Context(), b.org, "", runID)
	b.must(err)
	var on []domain.ProviderError
	for _, span := range of.Spans {
		if span.Provider != nil {
			on = append(on, *span.Provider)
		}
	}
	if len(on) != 2 || on[0] != overloaded || on[1] != denied {
		t.Errorf("on the timeline: %+v", on)
	}
}

// TestRunsNameTheirAgentsVersion checks the agent version in a run object: at acceptance, while the
// run is open, and in lists.
func TestRunsNameTheirAgentsVersion(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	accepted := b.accept(wideWindow, b.run("", ""))[0].Run
	runID := accepted.Run.ID
	version := func(what string, got *int, err error) {
		t.Helper()
		if err != nil || got == nil || *got != 1 {
			t.Errorf("%s: %v, %v", what, got, err)
		}
	}
	version("accepted", accepted.Run.AgentVersion, nil)

	b.exec(`INSERT INTO agent_configs SELECT target_id, 2, config, org_id FROM agent_configs WHERE target_id = $1`, *accepted.Run.AgentID)
	b.exec(`UPDATE agents SET version = 2 WHERE id = $1`, *accepted.Run.AgentID)
	read, err := b.s.Runs.RunByID(t.Context(), b.org, "", runID)
	version("read", read.Run.AgentVersion, err)

	version("claimed", b.mustClaim(runID).Run().AgentVersion, nil)
	if _, _, err := b.s.Executions.Cancel(t.Context(), b.org, "", runID); err != nil {
		t.Fatal(err)
	}
	listed, err := b.s.Runs.ListRuns(t.Context(), b.org, rundb.RunFilter{}, 9)
	if err != nil || len(listed) != 1 {
		t.Fatalf("%+v, %v", listed, err)
	}
	version("listed", listed[0].AgentVersion, err)
	if why := listed[0].FinishReason; why == nil || *why != domain.FinishCancelled {
		t.Errorf("a cancelled run finished by %v", why)
	}
}
