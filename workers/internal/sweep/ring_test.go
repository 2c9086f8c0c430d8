package sweep

import (
	"testing"
	"time"

	"github.com/rs/zerolog"

	"parley/shared/bus"
	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/store"
	"parley/shared/testkit"
)

// A stream that was made anew has lost its doorbells: the sweeper rings for whoever is dispatched and was not heard, and for nobody else.
func TestAStreamThatIsMadeAnewIsRungFor(t *testing.T) {
	t.Parallel()
	st, err := store.Open(testkit.Postgres(t), 8)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	b, err := bus.Dial(testkit.NATS(t), "test", zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	account, err := st.SignUp(t.Context(), store.NewUser{Email: "a@example.com"}, store.NewLogin{TokenHash: []byte("x"), ExpiresAt: time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	agent, err := st.CreateAgent(t.Context(), account.Organization.ID, domain.Agent{ID: id.New(id.Agent), Name: "a", AllowedCallers: []domain.CallerKind{domain.CallerSystem}})
	if err != nil {
		t.Fatal(err)
	}
	run := store.NewRun{
		ID: id.New(id.Run), OrganizationID: account.Organization.ID, AgentID: agent.ID, CallerKind: domain.CallerSystem, Principal: "system",
		TriggerType: "api", Input: []byte(`{"message":"hi"}`), Lane: domain.LaneAutomation, Retention: time.Hour, Deadline: time.Hour,
	}
	run.SessionID, run.SessionKey, run.Dedupe = run.ID, contract.Hash(run.ID), run.ID
	if out, err := st.Accept(t.Context(), []store.NewRun{run}, window); err != nil || out[0].Job == nil { // whose doorbell is lost
		t.Fatalf("accepting: %+v, %v", out, err)
	}
	s, lane := New(window, st, b, zerolog.Nop()), b.Lane(domain.LaneAutomation)
	rings := func(want int) {
		t.Helper()
		if err := s.sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		heard := 0
		err := lane.Fetch(t.Context(), 1, time.Second, func(d *bus.Doorbell) { heard++; d.Ack() })
		if err != nil || heard != want {
			t.Errorf("%d doorbells, want %d, %v", heard, want, err)
		}
	}
	if _, err := b.EnsureStream(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.stream = time.Unix(1, 0) // it saw another one
	rings(1)
	rings(0) // not again at once
	claims, err := st.Claim(t.Context(), []string{run.ID})
	if err != nil || claims[0].Run == nil {
		t.Fatalf("claiming: %+v, %v", claims, err)
	}
	s.stream = time.Unix(1, 0)
	rings(0)
}
