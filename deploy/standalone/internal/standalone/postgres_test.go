package standalone

import (
	"context"
	"database/sql"
	"syscall"
	"testing"
	"time"

	_ "github.com/lib/pq"
	"github.com/rs/zerolog"

	"parley/shared/store"
)

// TestPostgresIsRestarted breaks the private server in two ways. In each case, a new server with
// the same address must replace it.
func TestPostgresIsRestarted(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(*testing.T, *privatePostgres, *sql.DB){
		"its process is killed": func(t *testing.T, p *privatePostgres, _ *sql.DB) {
			t.Helper()
			if err := syscall.Kill(p.server.PID(), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		},
		"new connections fail": func(t *testing.T, p *privatePostgres, db *sql.DB) {
			t.Helper()
			do := func(statement string) {
				if _, err := db.ExecContext(t.Context(), statement); err != nil {
					t.Fatal(err)
				}
			}
			do(`ALTER SYSTEM SET session_preload_libraries = 'missing'`)
			do(`SELECT pg_reload_conf()`)
			for broken := false; !broken && t.Context().Err() == nil; {
				other, err := sql.Open("postgres", p.dsn)
				if err != nil {
					t.Fatal(err)
				}
				broken = other.PingContext(t.Context()) != nil
				_ = other.Close()
			}
			do(`ALTER SYSTEM RESET session_preload_libraries`) // the running server uses the broken setting until it is restarted
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := startPostgres(t.Context(), t.TempDir(), zerolog.New(zerolog.NewTestWriter(t)))
			if err != nil {
				t.Fatal(err)
			}
			p.every = 50 * time.Millisecond
			if err := migrateDatabase(t.Context(), p.dsn); err != nil {
				t.Fatal(err)
			}
			db, err := sql.Open("postgres", p.dsn)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = db.Close() }()
			if err := db.PingContext(t.Context()); err != nil {
				t.Fatal(err)
			}
			first := p.server.PID()
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- p.run(ctx) }()
			fail(t, p, db)
			awaitRestart(t, p.dsn, ended)
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			if p.server.PID() == first {
				t.Error("the server was not restarted")
			}
		})
	}
}

// awaitRestart waits until a server that was started during the test accepts new connections.
func awaitRestart(t *testing.T, dsn string, ended <-chan error) {
	t.Helper()
	began := time.Now()
	st, err := store.Open(dsn, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = st.Close() }()

	for time.Since(began) < time.Minute {
		select {
		case err := <-ended:
			t.Fatalf("gave up: %v", err)
		case <-time.After(50 * time.Millisecond):
		}
		var young bool
		err := st.SQL().QueryRowContext(t.Context(), `SELECT pg_postmaster_start_time() > $1`, began).Scan(&young)
		if err == nil && young && st.CheckSchema(t.Context()) == nil {
			return
		}
	}

	t.Fatal("the server was not restarted")
}
