package store_test

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"testing"
	"time"

	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/store"
	"parley/shared/store/pg"
	"parley/shared/store/queuedb"
	"parley/shared/testkit"
)

// behindProxy returns a store that reaches PostgreSQL through a proxy. A test can make the proxy
// stop forwarding data.
func behindProxy(t *testing.T) (*store.Store, *testkit.FaultProxy, *sql.DB) {
	t.Helper()
	dsn := testkit.PostgresProcess(t).DSN()
	address, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	proxy := testkit.Proxy(t, address.Host)
	address.Host = proxy.Addr()
	s, err := store.Open(address.String(), 8)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, proxy, testkit.SQL(t, dsn)
}

// If an insert is committed but its reply is lost, the run is found by its id and not created
// again.
func TestAcceptFindsTheRunWhoseCommitWasNotAnswered(t *testing.T) {
	t.Parallel()
	s, proxy, raw := behindProxy(t)
	account, _ := signUp(t, s, "ada@example.com")
	agent, err := s.Agents.CreateAgent(t.Context(), account.Organization.ID, domain.Agent{
		ID: id.New(id.Agent), Name: "a", SystemPrompt: "p", AllowedCallers: []domain.CallerKind{domain.CallerSystem},
	})
	if err != nil {
		t.Fatal(err)
	}
	b := &testEnv{T: t, s: s, org: account.Organization.ID, agent: agent.ID}
	b.accept(wideWindow, b.run("", "")) // prepares the statement
	proxy.CutReplies()
	run := b.run("k", "")
	answered := make(chan []queuedb.Accepted, 1)
	go func() {
		out, err := s.Queue.Accept(context.WithoutCancel(t.Context()), []queuedb.NewRun{run})
		if err != nil {
			t.Errorf("accepting: %v", err)
		}
		answered <- out
	}()
	// The network recovers after the store has given up the silent connection and has begun to look
	// the run up.
	time.AfterFunc(16*time.Second, proxy.Restore)
	out := <-answered
	if len(out) != 1 || out[0].Err != nil || out[0].Existing || out[0].Run.Run.ID != run.ID {
		t.Fatalf("answer %+v", out)
	}
	var rows int
	if err := raw.QueryRowContext(t.Context(), `SELECT count(*) FROM runs WHERE idempotency_key = 'k'`).Scan(&rows); err != nil || rows != 1 {
		t.Errorf("%d rows, %v", rows, err)
	}
}

func TestASilentServerIsGivenUp(t *testing.T) {
	t.Parallel()
	s, proxy, _ := behindProxy(t)
	if err := s.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	proxy.Cut()
	began := time.Now()
	_, err := s.Runs.RunByID(t.Context(), "org_x", "", "run_x")
	if took := time.Since(began); took > 40*time.Second {
		t.Errorf("a call to a silent server took %s", took)
	}
	wantCode(t, pg.Unavailable(err), apierr.Unavailable)
}

// TestCheckSchemaNoticesNewConnectionsThatFail makes new connections fail while the pool's existing
// connections keep working.
func TestCheckSchemaNoticesNewConnectionsThatFail(t *testing.T) {
	t.Parallel()
	dsn := testkit.Postgres(t)
	st, err := store.Open(dsn, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	owner, err := store.OpenOwner(dsn, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = owner.Close() })
	if err := errors.Join(st.Ping(t.Context()), st.CheckSchema(t.Context())); err != nil {
		t.Fatal(err)
	}
	const breakIt = `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET session_preload_libraries = missing', current_database()); END $$`
	if _, err := owner.SQL().ExecContext(t.Context(), breakIt); err != nil {
		t.Fatal(err)
	}
	if err := st.Ping(t.Context()); err != nil {
		t.Errorf("the pool's connection: %v", err)
	}
	if err := st.CheckSchema(t.Context()); !pg.IsServerBroken(err) {
		t.Errorf("new connections fail and the check says %v", err)
	}
}
