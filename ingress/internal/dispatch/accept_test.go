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

// Nobody is rung for before the run is there: a worker that came first would take the doorbell for that of a run that has ended.
func TestOnlyAcceptedRunsAreRungFor(t *testing.T) {
	t.Parallel()
	d := newTestEnv(t)
	refused := queuedb.NewRun{
		ID: id.New(id.Run), OrganizationID: d.org, AgentID: id.New(id.Agent), CallerKind: domain.CallerSystem, Principal: "system",
		TriggerType: "api", Input: []byte(`{"message":"hi"}`), Lane: domain.LaneAutomation, Retention: time.Hour, Deadline: time.Minute,
	}
	refused.SessionID, refused.SessionKey, refused.Dedupe = refused.ID, contract.Hash(refused.ID), refused.ID
	if _, err := d.Submit(d.Context(), refused); apierr.CodeFor(err) != apierr.NotFound {
		t.Fatalf("a run of no agent: %v", err)
	}
	own := d.submit()
	defer d.Release(own)
	var heard []string
	must(t, d.bus.Lane(domain.LaneAutomation).Fetch(t.Context(), 1, 10*time.Second, func(b *bus.Doorbell) { heard = append(heard, b.RunID) }))
	if len(heard) != 1 || heard[0] != own.Run.Run.ID {
		t.Errorf("rung for %v, accepted was %s", heard, own.Run.Run.ID)
	}
}

// Between the look at a run and the subscription to its end it may end: whoever attaches looks again, and not when the poll does.
func TestAttachingLooksAgain(t *testing.T) {
	t.Parallel()
	d := newTestEnv(t)
	ws := newWaiters(d.store, d.bus, zerolog.Nop()) // which nobody polls
	of := rundb.RunRef{OrganizationID: d.org, RunID: "run_1"}
	w := ws.attach(t.Context(), of, "")
	if due := ws.takeDue(false); len(due) != 1 || due[0] != of {
		t.Errorf("to be read now: %v", due)
	}
	ws.remove(w)
	if len(ws.runs) != 0 {
		t.Error("a wait that was removed is left")
	}
}
