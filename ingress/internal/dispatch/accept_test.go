package dispatch

import (
	"testing"
	"time"

	"github.com/rs/zerolog"

	"parley/shared/apierr"
	"parley/shared/bus"
	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/store/queuedb"
	"parley/shared/store/rundb"
)

// TestOnlyAcceptedRunsGetJobMessages checks that a job is published only after its run is saved. A
// worker that received the job earlier would find no run and discard the job.
func TestOnlyAcceptedRunsGetJobMessages(t *testing.T) {
	t.Parallel()
	d := newTestEnv(t)
	refused := queuedb.NewRun{
		ID: id.New(id.Run), OrganizationID: d.org, AgentID: id.New(id.Agent), CallerKind: domain.CallerSystem, Principal: "system",
		TriggerType: "api", Input: []byte(`{"message":"hi"}`), Lane: domain.LaneAutomation, Retention: time.Hour, Deadline: time.Minute,
	}
	refused.SessionID, refused.SessionKey, refused.Dedupe = refused.ID, contract.Hash(refused.ID), refused.ID
	if _, err := d.Submit(d.Context(), refused); apierr.CodeFor(err) != apierr.NotFound {
		t.Fatalf("a run without an agent: %v", err)
	}
	own := d.submit()
	defer d.Release(own)
	var heard []string
	must(t, d.bus.Lane(domain.LaneAutomation).Fetch(t.Context(), 1, 10*time.Second, func(b *bus.JobMessage) { heard = append(heard, b.RunID) }))
	if len(heard) != 1 || heard[0] != own.Run.Run.ID {
		t.Errorf("job messages for %v, accepted was %s", heard, own.Run.Run.ID)
	}
}

// TestAttachingReadsTheRunAgain checks that a run is read again as soon as a request begins to wait
// for it. Without this read, only the next poll would notice a run that has finished between its
// first read and the subscription.
func TestAttachingReadsTheRunAgain(t *testing.T) {
	t.Parallel()
	d := newTestEnv(t)
	ws := newWaiters(d.store, d.bus, zerolog.Nop()) // poll is not running for these waiters
	of := rundb.RunRef{OrganizationID: d.org, RunID: "run_1"}
	w := ws.attach(t.Context(), of, "")
	if due := ws.takeDue(false); len(due) != 1 || due[0] != of {
		t.Errorf("runs due now: %v", due)
	}
	ws.remove(w)
	if len(ws.runs) != 0 {
		t.Error("a removed wait is still registered")
	}
}
