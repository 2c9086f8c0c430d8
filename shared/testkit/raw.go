package testkit

import (
	"database/sql"
	"testing"
)

// SQL opens a database as the user in dsn, until the end of the test. In URLs from Postgres and
// PostgresProcess, this user is a superuser, to whom row-level security does not apply.
func SQL(tb testing.TB, dsn string) *sql.DB {
	tb.Helper()
	db, err := sql.Open("postgres", dsn)
	if err != nil {
		tb.Fatalf("testkit: opening database: %v", err)
	}
	db.SetMaxOpenConns(4)
	tb.Cleanup(func() { _ = db.Close() }) // the database is dropped anyway
	return db
}
