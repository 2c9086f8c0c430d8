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
	"parley/shared/store/accountdb"
	"parley/shared/store/queuedb"
	"parley/shared/testkit"
)

// A sweeper ends the overdue runs that another sweeper has not in hand: it does not stop at those.
func TestSweepersShareOverdueRuns(t *testing.T) {
	t.Parallel()
	dsn := testkit.Postgres(t)
	st, err := store.Open(dsn, 8)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	b, err := bus.Dial(testkit.NATS(t), "test", zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	account, err := st.Accounts.SignUp(t.Context(), accountdb.NewUser{Email: "a@example.com"}, accountdb.NewLogin{TokenHash: []byte("x"), ExpiresAt: time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	org := account.Organization.ID
	agent, err := st.Agents.CreateAgent(t.Context(), org, domain.Agent{ID: id.New(id.Agent), Name: "a", AllowedCallers: []domain.CallerKind{domain.CallerSystem}})
	if err != nil {
		t.Fatal(err)
	}
	runs := make([]queuedb.NewRun, 900)
	for i := range runs {
		run := id.New(id.Run)
		runs[i] = queuedb.NewRun{
			ID: run, OrganizationID: org, AgentID: agent.ID, CallerKind: domain.CallerSystem, Principal: "system", SessionID: run, OwnSession: true,
			SessionKey: contract.Hash(run), TriggerType: "api", Input: []byte(`{"message":"hi"}`), Lane: domain.LaneAutomation, Dedupe: run,
			Retention: time.Hour, Deadline: time.Minute,
		}
	}
	if _, err := st.Queue.Accept(t.Context(), runs, window); err != nil {
		t.Fatal(err)
	}
	db := testkit.SQL(t, dsn)
	if _, err := db.ExecContext(t.Context(), `UPDATE open_runs SET deadline = now() - interval '1 second'`); err != nil {
		t.Fatal(err)
	}
	other, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Rollback() }()
	if _, err := other.ExecContext(t.Context(), `SELECT FROM open_runs ORDER BY run_id LIMIT 500 FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	s, left := New(window, st, b, zerolog.Nop()), 0
	for range 20 { // one, but for a machine that is very slow
		if err := s.endRuns(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := db.QueryRowContext(t.Context(), `SELECT count(*) FROM open_runs`).Scan(&left); err != nil {
			t.Fatal(err)
		}
		if left == 500 {
			return
		}
	}
	t.Errorf("%d runs are left, want the 500 that the other sweeper has in hand", left)
}
