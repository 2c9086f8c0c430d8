package workers_test

import (
	"encoding/json"
	"testing"
	"time"

	"parley/shared/config"
	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/secrets"
	"parley/workers"
)

// startLate publishes the job message of a run that is not accepted, and returns the reply.
func (r *testEnv) startLate(agent, key string) (runID, reply string) {
	r.Helper()
	box, err := secrets.NewBox(secretsKey)
	if err != nil {
		r.Fatal(err)
	}
	runID = id.New(id.Run)
	replies, inbox := make(chan string, 1), r.bus.NewInbox()
	stop, err := r.bus.OnReplies(inbox, func(_ string, body []byte) { replies <- string(body) })
	if err != nil {
		r.Fatal(err)
	}
	defer stop()
	run := domain.LateRun{
		ID: runID, OrganizationID: r.org, AgentID: agent, CallerKind: string(domain.CallerSystem), Principal: "system", SessionID: "auto_" + runID,
		SessionHash: contract.Hash(runID), TriggerType: "api", Input: json.RawMessage(`{"message":"hi"}`), Retention: 3600,
		IdempotencyKey: key, KeyHash: contract.Hash(r.org, key), Fingerprint: contract.Hash("hi"),
	}
	plain, err := json.Marshal(run)
	if err != nil {
		r.Fatal(err)
	}
	_, err = r.bus.PublishLate(domain.Job{
		RunID: runID, OrganizationID: r.org, Lane: domain.LaneAutomation, Dedupe: runID, ReplyTo: inbox,
	}, box.SealBytes(plain, []byte(runID)))
	if err != nil {
		r.Fatal(err)
	}
	select {
	case reply = <-replies:
	case <-time.After(30 * time.Second):
		r.Fatal("no reply")
	}
	return runID, reply
}

// A worker stores a run with its result before it replies. A second run with the key is declined.
func TestWorkersStoreLateRuns(t *testing.T) {
	t.Parallel()
	r := newTestEnvOf(t, config.Workers{}, workers.RoleAgent)
	agent := r.agent("offline/echo")
	runID, reply := r.startLate(agent, "k")
	var run domain.Run
	if err := json.Unmarshal([]byte(reply), &run); err != nil || run.Status != domain.RunCompleted || run.Output.Message != "echo: hi" {
		t.Fatalf("reply %s, %v", reply, err)
	}
	stored, err := r.store.Runs.RunByID(t.Context(), r.org, "", runID)
	if err != nil {
		t.Fatal(err)
	}
	if body, err := stored.Result(); err != nil || string(body) != reply {
		t.Errorf("the row has %s, %v; the reply was %s", body, err, reply)
	}

	// The worker's copy of the agent's version is stale, which the insert detects.
	_, err = r.store.Agents.UpdateAgent(t.Context(), r.org, agent, 0, func(a *domain.Agent) error { a.SystemPrompt = "other"; return nil })
	if err != nil {
		t.Fatal(err)
	}
	if _, reply := r.startLate(agent, "k2"); reply != contract.Declined {
		t.Errorf("a run with the old version: %s", reply)
	}
	if _, reply := r.startLate(agent, "k3"); reply == contract.Declined {
		t.Error("a run with the new version is declined")
	}
	if _, reply := r.startLate(agent, "k"); reply != contract.Declined {
		t.Errorf("a second run with the key: %s", reply)
	}
}

// Runs that may call tools or models of other services are declined before they begin.
func TestWorkersDeclineRunsWithEffects(t *testing.T) {
	t.Parallel()
	r := newTestEnvOf(t, config.Workers{}, workers.RoleAgent)
	for name, agent := range map[string]string{
		"tools": r.agentWith("offline/echo", domain.Tools{WebSearch: &domain.Switch{Enabled: true}}),
		"model": r.agent("openai/gpt"),
	} {
		if runID, reply := r.startLate(agent, name); reply != contract.DeclinedAgent {
			t.Errorf("%s: %s of %s", name, reply, runID)
		}
	}
}
