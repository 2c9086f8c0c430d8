package testkit

import (
	"database/sql"
	"testing"
)

// SQL opens a database as the one whom the address logs in - for those of Postgres and PostgresProcess a
// superuser, to whom row-level security does not apply - until the test's end.
func SQL(tb testing.TB, dsn string) *sql.DB {
	tb.Helper()
	db, err := sql.Open("postgres", dsn)
	if err != nil {
		tb.Fatalf("testkit: opening database: %v", err)
	}
	db.SetMaxOpenConns(4)
	tb.Cleanup(func() { _ = db.Close() }) // the database is dropped anyhow
	return db
}
