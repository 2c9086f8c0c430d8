package testkit

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lib/pq"
	"github.com/rs/zerolog"

	"parley/shared/store/pgserver"
)

// setUpWithin is the time limit for creating a server and its template database.
const setUpWithin = 5 * time.Minute

// Postgres returns the URL of a database that only this test uses. The database has Parley's schema
// and is empty. The URL's user is a superuser. The database is dropped at the end of the test, even
// if it has connections.
func Postgres(tb testing.TB) string {
	tb.Helper()
	server, err := testDatabases()
	if err != nil {
		tb.Fatalf("testkit: PostgreSQL: %v", err)
	}

	name := "test_" + strings.ToLower(rand.Text())
	if err := server.clone(tb.Context(), name); err != nil {
		tb.Fatalf("testkit: creating database: %v", err)
	}

	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), time.Minute)
		defer cancel()
		if err := server.drop(ctx, name); err != nil {
			tb.Errorf("testkit: dropping database: %v", err)
		}
	})
	return server.dsn(name)
}

// databases describes a server on which tests create databases.
type databases struct {
	dsn      func(database string) string
	admin    *sql.DB // connected to the server's maintenance database
	template string
	copying  string // clause of CREATE DATABASE that selects the fastest way to copy the template; empty: the server's default
}

// testDatabases is initialized once per test process, at its first use.
var testDatabases = sync.OnceValues(func() (*databases, error) {
	ctx, cancel := context.WithTimeout(context.Background(), setUpWithin)
	defer cancel()
	dsn, err := configuredPostgres()
	if err != nil {
		return nil, err
	}
	if dsn != "" {
		return newDatabases(ctx, dsn, func(name string) string { return withDatabase(dsn, name) })
	}
	server, err := privatePostgres(ctx)
	if err != nil {
		return nil, err
	}
	made, err := newDatabases(ctx, server.DSN("postgres"), server.DSN)
	if err != nil {
		return nil, err
	}
	// By default, PostgreSQL writes each copied page to the write-ahead log. Copying the files
	// instead requires two checkpoints, which cost almost nothing without fsync.
	made.copying = " STRATEGY = FILE_COPY"
	return made, nil
})

// privatePostgres starts a server that runs until this process ends. The kernel then signals the
// server to stop, and the reaper script makes sure that the server stops.
func privatePostgres(ctx context.Context) (*pgserver.Server, error) {
	own, err := ownResources()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(own.dir, "postgres")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating directory: %w", err)
	}
	if err := copyCluster(ctx, dir); err != nil {
		return nil, err
	}
	return pgserver.Start(ctx, pgserver.Config{Dir: dir, Log: zerolog.Nop(), Settings: privateSettings()})
}

func newDatabases(ctx context.Context, dsn string, of func(string) string) (*databases, error) {
	admin, err := sql.Open("postgres", dsn)
	if err != nil {
		return nil, fmt.Errorf("opening connection: %w", err)
	}
	admin.SetMaxOpenConns(4)
	admin.SetMaxIdleConns(1)
	made := &databases{dsn: of, admin: admin}
	if err := made.makeTemplate(ctx); err != nil {
		return nil, errors.Join(err, admin.Close())
	}
	return made, nil
}

func (d *databases) clone(ctx context.Context, name string) error {
	_, err := d.admin.ExecContext(ctx, "CREATE DATABASE "+pq.QuoteIdentifier(name)+" TEMPLATE "+pq.QuoteIdentifier(d.template)+d.copying)
	return err
}

func (d *databases) drop(ctx context.Context, name string) error {
	_, err := d.admin.ExecContext(ctx, "DROP DATABASE IF EXISTS "+pq.QuoteIdentifier(name)+" WITH (FORCE)")
	return err
}

// withDatabase returns the connection URL, or the list of keywords, of another database on
// the same server.
func withDatabase(dsn, name string) string {
	scheme, rest, isURL := strings.Cut(dsn, "://")
	if !isURL {
		return dsn + " dbname=" + name // if a keyword is repeated, the last one counts
	}
	rest, query, hasQuery := strings.Cut(rest, "?")
	host, _, _ := strings.Cut(rest, "/")
	dsn = scheme + "://" + host + "/" + name
	if hasQuery {
		dsn += "?" + query
	}
	return dsn
}
