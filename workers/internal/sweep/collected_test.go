package sweep

import (
	"context"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"parley/shared/bus"
	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/secrets"
	"parley/shared/store"
	"parley/shared/store/accountdb"
	"parley/shared/store/hookdb"
	"parley/shared/store/queuedb"
	"parley/shared/testkit"
)

// When the time for coalescing deliveries has passed, the run is queued exactly once, even if
// several sweepers work at the same time. A change of the organization's runs is published.
func TestCoalescedRunsAreDispatched(t *testing.T) {
	t.Parallel()
	st, b := open(t, testkit.Postgres(t), testkit.NATS(t))
	delivery := deliveryTo(t, st)
	const window = 100 * time.Millisecond
	delivery.Collect = &queuedb.Collect{KeyHash: contract.Hash("k"), Window: window, MaxWait: window}
	if out, err := st.Queue.AcceptDeliveries(t.Context(), []queuedb.NewDelivery{delivery}); err != nil || out[0].Err != nil || out[0].Job != nil {
		t.Fatalf("delivering: %+v, %v", out, err)
	}
	heard := listen(t, b, delivery.OrganizationID)
	sweepers := []*Sweeper{New(st, b, zerolog.Nop()), New(st, b, zerolog.Nop())}
	var bells []string
	lane := b.Lane(domain.LaneAutomation)
	for deadline := time.Now().Add(20 * time.Second); len(bells) == 0 && time.Now().Before(deadline); {
		for _, s := range sweepers {
			if err := s.sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if err := lane.Fetch(t.Context(), 10, 100*time.Millisecond, func(bell *bus.JobMessage) { bells = append(bells, bell.RunID) }); err != nil {
			t.Fatal(err)
		}
	}
	if len(bells) != 1 || bells[0] != delivery.Run.ID {
		t.Errorf("job messages for %v, want %s", bells, delivery.Run.ID)
	}
	select {
	case got := <-heard:
		if got != (bus.Change{OrganizationID: delivery.OrganizationID, Kind: domain.ChangedRuns}) {
			t.Errorf("received %+v", got)
		}
	case <-time.After(20 * time.Second):
		t.Error("no change was received")
	}
	claims, err := st.Executions.Claim(context.WithoutCancel(t.Context()), []string{delivery.Run.ID})
	if err != nil || claims[0].Run == nil {
		t.Fatalf("claiming: %+v, %v", claims, err)
	}
	in, err := claims[0].Run.Input()
	if err != nil || string(in.Data) != `{"deliveries":{"count":1,"ids":["one"]}}` {
		t.Errorf("input %+v, %v", in, err)
	}
}

// deliveryTo creates an organization with a hook, and a delivery to it.
func deliveryTo(t *testing.T, st *store.Store) queuedb.NewDelivery {
	t.Helper()
	org, agent := newAgent(t, st)
	k := secrets.NewAPIKey()
	key, err := st.Organizations.CreateKey(t.Context(), accountdb.Actor{OrganizationID: org, Role: domain.RoleAdmin}, accountdb.NewKey{
		ID: k.ID, Scope: domain.KeyScopeOrganization, Name: "k", SecretHash: k.Hash, LastFour: k.LastFour,
	})
	if err != nil {
		t.Fatal(err)
	}
	hook, err := st.Hooks.CreateHook(t.Context(), hookdb.NewHook{
		Hook:           domain.Hook{ID: id.New(id.Hook), Name: "h", AgentID: agent, KeyID: key.ID, Source: domain.HookGitHub, Enabled: true},
		OrganizationID: org,
	})
	if err != nil {
		t.Fatal(err)
	}
	run := queuedb.NewRun{
		ID: id.New(id.Run), OrganizationID: org, AgentID: agent, CallerKind: domain.CallerSystem, Principal: "system",
		TriggerType: "webhook", Input: []byte(`{"message":"hi"}`), Lane: domain.LaneAutomation, Retention: time.Hour, Deadline: time.Minute,
	}
	run.SessionID, run.SessionKey, run.Dedupe = run.ID, contract.Hash(run.ID), run.ID
	return queuedb.NewDelivery{HookID: hook.ID, OrganizationID: org, ID: "one", Status: domain.DeliveryAccepted, Run: &run}
}
