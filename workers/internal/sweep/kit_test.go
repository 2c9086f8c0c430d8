package sweep

import (
	"testing"
	"time"

	"github.com/rs/zerolog"

	"parley/shared/bus"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/store"
	"parley/shared/store/accountdb"
)

// open opens a store and a bus for a sweeper.
func open(t *testing.T, dsn, natsURL string) (*store.Store, *bus.Bus) {
	t.Helper()
	st, err := store.Open(dsn, 8)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	if err := st.Queue.AnnounceSlots(t.Context(), "worker", slots, time.Hour); err != nil {
		t.Fatal(err)
	}
	b, err := bus.Dial(natsURL, "test", zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return st, b
}

// newAgent creates an organization with an agent.
func newAgent(t *testing.T, st *store.Store) (org, agent string) {
	t.Helper()
	login := accountdb.NewLogin{TokenHash: []byte("x"), ExpiresAt: time.Now().Add(time.Hour)}
	account, err := st.Accounts.SignUp(t.Context(), accountdb.NewUser{Email: "a@example.com"}, login)
	if err != nil {
		t.Fatal(err)
	}
	made, err := st.Agents.CreateAgent(t.Context(), account.Organization.ID, domain.Agent{
		ID: id.New(id.Agent), Name: "a", AllowedCallers: []domain.CallerKind{domain.CallerSystem},
	})
	if err != nil {
		t.Fatal(err)
	}
	return account.Organization.ID, made.ID
}
