package testkit

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lib/pq"
)

// Lender lends databases to the tests of a process. Only one test uses a database at a time. The
// database is empty, as with Postgres, except for the rows that Open has written. A test can reuse
// the database and the connections of an earlier test. The function Postgres costs more: it copies
// a database, and each new connection loads catalogs, compiles functions and plans statements.
//
// A database is not lent again if its test has failed, if the test has changed the schema or the
// rows that Open has written, if a statement is still running, or if the database has grown by more
// than maxGrowth. Sequences continue. On a server that test processes share, every test gets a new
// database.
type Lender[T any] struct {
	// Open opens connections to a new database and writes the rows that each test needs.
	Open func(ctx context.Context, dsn string) (T, error)
	// Check returns an error if the connections cannot be used again.
	Check func(ctx context.Context, opened T) error
	// Close closes the connections.
	Close func(opened T) error

	mu   sync.Mutex
	free []*Lent[T]
}

// Lent is a database that a Lender has lent to a test.
type Lent[T any] struct {
	DSN    string // the user is a superuser
	Opened T      // what Open has returned

	name    string
	super   *sql.DB // connection that empties the database
	emptied string  // statements that delete the rows of tests
	state   string  // query for the schema and the rows that Open has written
	initial string  // result of the query state in the new database
	size    int64   // size of the new database, in bytes
	spoilt  bool    // whether Discard was called
}

const (
	maxGrowth = 32 << 20 // deleted rows still occupy space, which slows down later tests
	resetTime = 20 * time.Second
)

// Discard prevents the Lender from lending the database again. A test calls it if the test leaves
// goroutines that may still use the database.
func (l *Lent[T]) Discard() { l.spoilt = true }

// Lend returns a database that only this test uses until its end. Cleanup functions that the test
// adds later may still use the database.
func (l *Lender[T]) Lend(tb testing.TB) *Lent[T] {
	tb.Helper()
	server, err := testDatabases()
	if err != nil {
		tb.Fatalf("testkit: PostgreSQL: %v", err)
	}

	lent := l.take(tb.Context(), server)
	if lent == nil {
		if lent, err = l.create(tb.Context(), server); err != nil {
			tb.Fatalf("testkit: creating database: %v", err)
		}
	}

	tb.Cleanup(func() {
		if !tb.Failed() && !lent.spoilt && !server.shared {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.free = append(l.free, lent)
			return
		}
		if err := l.drop(context.WithoutCancel(tb.Context()), server, lent); err != nil {
			tb.Errorf("testkit: dropping database: %v", err)
		}
	})
	return lent
}

// take returns the database of an earlier test, without the rows of that test. It drops databases
// that cannot be used again. The result is nil if no database is left.
func (l *Lender[T]) take(ctx context.Context, server *databases) *Lent[T] {
	for {
		l.mu.Lock()
		if len(l.free) == 0 {
			l.mu.Unlock()
			return nil
		}
		lent := l.free[0]
		l.free = l.free[1:]
		l.mu.Unlock()

		if l.reset(ctx, lent) == nil {
			return lent
		}
		_ = l.drop(ctx, server, lent) // the server ends with this process, and its databases with it
	}
}

// reset deletes the rows of the previous test. It returns an error if the database differs from a
// new one.
func (l *Lender[T]) reset(ctx context.Context, lent *Lent[T]) error {
	ctx, cancel := context.WithTimeout(ctx, resetTime)
	defer cancel()
	if err := l.Check(ctx, lent.Opened); err != nil {
		return err
	}

	var busy int
	err := lent.super.QueryRowContext(ctx, `SELECT count(*) FROM pg_stat_activity
		WHERE datname = current_database() AND backend_type = 'client backend' AND state <> 'idle' AND pid <> pg_backend_pid()`).Scan(&busy)
	if err != nil {
		return fmt.Errorf("looking for statements: %w", err)
	}
	if busy > 0 {
		return fmt.Errorf("%d connections are busy", busy)
	}

	if _, err := lent.super.ExecContext(ctx, lent.emptied); err != nil {
		return fmt.Errorf("deleting rows: %w", err)
	}
	state, size, err := lent.examine(ctx)
	switch {
	case err != nil:
		return err
	case state != lent.initial:
		return errors.New("the schema or its first rows have changed")
	case size > lent.size+maxGrowth:
		return fmt.Errorf("the database has grown from %d to %d bytes", lent.size, size)
	}
	return nil
}

// create creates a database and opens it.
func (l *Lender[T]) create(ctx context.Context, server *databases) (_ *Lent[T], err error) {
	lent := &Lent[T]{name: "lent_" + strings.ToLower(rand.Text())}
	if err := server.clone(ctx, lent.name); err != nil {
		return nil, err
	}
	lent.DSN = server.dsn(lent.name)
	if lent.Opened, err = l.Open(ctx, lent.DSN); err != nil {
		return nil, err
	}
	if lent.super, err = sql.Open("postgres", lent.DSN); err != nil {
		return nil, fmt.Errorf("opening connection: %w", err)
	}
	lent.super.SetMaxOpenConns(1)
	if err := lent.prepare(ctx); err != nil {
		return nil, err
	}
	if lent.initial, lent.size, err = lent.examine(ctx); err != nil {
		return nil, err
	}
	return lent, nil
}

// prepare composes the statements of reset. Tables that have rows now keep them; all rows of the
// other tables belong to tests.
func (l *Lent[T]) prepare(ctx context.Context) error {
	rows, err := l.super.QueryContext(ctx, `SELECT quote_ident(relname) FROM pg_class
		WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' ORDER BY relname`)
	if err != nil {
		return fmt.Errorf("listing tables: %w", err)
	}
	defer func() { _ = rows.Close() }() // rows.Err has the error
	var tables []string
	for rows.Next() {
		var table string
		if err := rows.Scan(&table); err != nil {
			return fmt.Errorf("listing tables: %w", err)
		}
		tables = append(tables, table)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return fmt.Errorf("listing tables: %w", err)
	}

	// Triggers and foreign keys are disabled, because all tables are emptied.
	empty := []string{"BEGIN", "SET LOCAL session_replication_role = replica", "SET LOCAL lock_timeout = '2s'"}
	state := []string{
		`(SELECT concat(count(*), ' ', max(oid), ' ', sum(hashtext(prosrc))) FROM pg_proc WHERE oid >= 16384)`,
		`(SELECT concat(count(*), ' ', max(oid)) FROM pg_trigger)`,
		`(SELECT concat(count(*), ' ', max(oid)) FROM pg_class WHERE oid >= 16384)`,
		`(SELECT concat(count(*), ' ', max(oid)) FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid WHERE c.oid >= 16384)`,
	}
	for _, table := range tables {
		var filled bool
		if err := l.super.QueryRowContext(ctx, "SELECT EXISTS (SELECT FROM "+table+")").Scan(&filled); err != nil {
			return fmt.Errorf("reading table %s: %w", table, err)
		}
		if filled {
			state = append(state, `(SELECT sum(hashtextextended(t::text, 0)) FROM `+table+` t)`)
		} else {
			empty = append(empty, "DELETE FROM "+table)
		}
	}
	l.emptied = strings.Join(append(empty, "COMMIT"), "; ")
	l.state = "SELECT concat_ws(' | ', " + strings.Join(state, ", ") + "), pg_database_size(" + pq.QuoteLiteral(l.name) + ")"
	return nil
}

func (l *Lent[T]) examine(ctx context.Context) (state string, size int64, err error) {
	if err := l.super.QueryRowContext(ctx, l.state).Scan(&state, &size); err != nil {
		return "", 0, fmt.Errorf("examining database: %w", err)
	}
	return state, size, nil
}

// drop closes the connections and drops the database.
func (l *Lender[T]) drop(ctx context.Context, server *databases, lent *Lent[T]) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return errors.Join(l.Close(lent.Opened), lent.super.Close(), server.drop(ctx, lent.name))
}
