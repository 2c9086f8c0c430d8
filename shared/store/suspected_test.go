package store_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/store/budgetdb"
	"parley/shared/store/rundb"
	"parley/shared/testkit"
)

// A run that cannot be removed does not prevent the removal of other runs.
func TestRetentionPassesByARunThatCannotBeRemoved(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	accepted := b.accept(wideWindow, b.many(9, b.automation)...)
	for _, a := range accepted {
		b.finish(b.mustClaim(a.Run.Run.ID), "done")
	}
	stuck := accepted[4].Run.Run.ID
	b.exec(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'it stays'; END $$`)
	b.exec(`CREATE TRIGGER refuse BEFORE DELETE ON runs FOR EACH ROW WHEN (OLD.id = '` + stuck + `') EXECUTE FUNCTION refuse()`)
	b.exec(`UPDATE runs SET sweep_after = now() - interval '1 hour', expires_at = now() - interval '1 hour'`)
	if _, err := b.s.Sessions.DeleteExpired(t.Context(), 100); err == nil {
		t.Error("no error reports the run that cannot be removed")
	}
	if got := b.text(`SELECT string_agg(id, ' ') FROM runs`); got != stuck {
		t.Errorf("remaining runs = %s, want %s", got, stuck)
	}
	if n, err := b.s.Sessions.DeleteExpired(t.Context(), 100); n != 0 || err != nil {
		t.Errorf("the run is checked again immediately: %d, %v", n, err)
	}
}

// A statement that takes long to prepare does not delay other statements.
func TestASlowPrepareDelaysNoOtherStatement(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	lock, err := b.raw.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Rollback() }()
	if _, err := lock.ExecContext(t.Context(), `LOCK TABLE agents IN ACCESS EXCLUSIVE MODE`); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	slow := make(chan error, 1)
	go func() {
		_, err := b.s.Agents.Agent(ctx, b.org, b.agent)
		slow <- err
	}()
	b.until(`SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()`)
	quick, done := context.WithTimeout(t.Context(), testkit.Scaled(3*time.Second)) // without concurrent preparation, this statement would wait 5 s
	defer done()
	if _, err := b.s.Runs.RunsByKey(quick, []rundb.KeyRef{{OrganizationID: b.org, Hash: []byte("x")}}); err != nil {
		t.Errorf("another statement: %v", err)
	}
	cancel()
	if err := <-slow; err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the slow one: %v", err)
	}
}

// until repeats a query until it returns a count above 0.
func (b *testEnv) until(query string) {
	b.Helper()
	for n := 0; n == 0; {
		if err := b.raw.QueryRowContext(b.Context(), query).Scan(&n); err != nil {
			b.Fatal(err)
		}
	}
}

// One transaction computes the usage of a period. Transactions that need the same result wait for
// it.
func TestBudgetIsSeededByOneTransaction(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	held := b.mustClaim(b.accept(wideWindow, b.automation())[0].Run.Run.ID).Held()
	budget := b.budget(domain.BudgetOrganization, "", domain.BudgetTokens, 1000)
	b.exec(`DELETE FROM budget_counts`)
	first, err := b.raw.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = first.Rollback() }()
	const open = `SELECT open_budget(k, budget_start(k.period, clock_timestamp())) FROM budgets k WHERE id = $1`
	if _, err := first.ExecContext(t.Context(), open, budget); err != nil {
		t.Fatal(err)
	}
	reserved := make(chan error, 1)
	go func() {
		_, _, err := b.s.Budgets.Reserve(t.Context(), budgetdb.Hold{ID: id.New("hold"), Held: held, Amounts: budgetdb.Amounts{Tokens: 10}})
		reserved <- err
	}()
	b.until(`SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()`)
	if got := b.text(`SELECT wait_event FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()`); got != "advisory" {
		t.Errorf("the second waits for %s, after it has read the runs itself", got)
	}
	if err := first.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := <-reserved; err != nil {
		t.Error(err)
	}
}
