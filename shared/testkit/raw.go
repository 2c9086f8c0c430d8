package testkit

import (
	"database/sql"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
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

// NATSConn returns a connection to a NATS server. The connection is closed at the end of the test.
func NATSConn(tb testing.TB, url string, options ...nats.Option) *nats.Conn {
	tb.Helper()
	nc, err := nats.Connect(url, append([]nats.Option{nats.Timeout(20 * time.Second)}, options...)...)
	if err != nil {
		tb.Fatalf("testkit: connecting to NATS: %v", err)
	}
	tb.Cleanup(nc.Close)
	return nc
}

// JetStream returns the JetStream API of a NATS server. The connection is closed at the end of the
// test.
func JetStream(tb testing.TB, url string, options ...nats.Option) jetstream.JetStream {
	tb.Helper()
	js, err := jetstream.New(NATSConn(tb, url, options...))
	if err != nil {
		tb.Fatalf("testkit: opening JetStream: %v", err)
	}
	return js
}
