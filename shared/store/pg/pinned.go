package pg

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"
)

// Pinned runs single statements on a reserved connection. Each statement is its own transaction,
// which saves the round trips of BEGIN and COMMIT. Unlike the pool, Pinned never runs a statement
// twice when a connection breaks. As with a COMMIT, if the reply to a statement is lost, the caller
// does not know whether the statement took effect.
//
// The statements are batches: they wait for a locked row for at most BatchLockTimeout.
type Pinned struct {
	db *DB

	// mu guards the connection and its statements. SelectInto holds it while a statement runs.
	mu    sync.Mutex
	conn  *sqlx.Conn
	stmts map[string]*sqlx.Stmt

	// skipping guards skipsUntil separately, so that callers need not wait for a running statement.
	skipping   sync.Mutex
	skipsUntil time.Time
}

// NewPinned returns a Pinned that takes its connection from db.
func NewPinned(db *DB) *Pinned { return &Pinned{db: db} }

// MetLocked records that a batch has found a locked row.
func (p *Pinned) MetLocked() {
	p.skipping.Lock()
	defer p.skipping.Unlock()
	p.skipsUntil = time.Now().Add(skipDuration)
}

// SkipsLocked reports whether a batch has recently found a locked row. The next batch may need the
// same row and should not wait for it.
func (p *Pinned) SkipsLocked() bool {
	p.skipping.Lock()
	defer p.skipping.Unlock()
	return time.Now().Before(p.skipsUntil)
}

// SelectInto executes a statement and reads its rows into dest, a pointer to a slice. If PostgreSQL
// rolled the statement back because of a deadlock, SelectInto executes it again.
func (p *Pinned) SelectInto(ctx context.Context, dest any, query string, args ...any) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	const tries = 5
	for n := 1; ; n++ {
		err := p.once(ctx, dest, query, args)
		// The statement is also repeated if the connection was already closed before it was sent.
		if n == tries || !HasCode(err, "40P01", "40001") && !errors.Is(err, sql.ErrConnDone) {
			return err
		}
	}
}

// once runs a statement once. If the state of the connection is unknown afterwards, once drops the
// connection. The caller must have locked mu.
func (p *Pinned) once(ctx context.Context, dest any, query string, args []any) error {
	stmt, err := p.prepared(ctx, query)
	if err == nil {
		err = stmt.SelectContext(ctx, dest, args...)
	}

	// After a cancellation it is unknown whether the statement still runs on this connection.
	if err != nil && (IsDisconnect(err) || errors.Is(err, context.Canceled)) {
		p.drop()
	}
	return err
}

// prepared returns the statement prepared on the reserved connection, and opens the connection if
// there is none. The caller must have locked mu.
func (p *Pinned) prepared(ctx context.Context, query string) (*sqlx.Stmt, error) {
	if stmt, ok := p.stmts[query]; ok {
		return stmt, nil
	}

	// The reserved connection is taken from the pool and counts towards the pool's maximum.
	if p.conn == nil {
		conn, err := p.db.Connx(ctx)
		if err != nil {
			return nil, err
		}
		p.conn, p.stmts = conn, map[string]*sqlx.Stmt{}
		if _, err := conn.ExecContext(ctx, fmt.Sprintf(`SET lock_timeout = %d`, BatchLockTimeout.Milliseconds())); err != nil {
			p.drop()
			return nil, err
		}
	}

	stmt, err := p.conn.PreparexContext(ctx, query)
	if err != nil {
		return nil, err
	}

	p.stmts[query] = stmt
	return stmt, nil
}

// drop closes the connection and does not return it to the pool, because its settings differ from
// the settings of the pool's connections. The next statement takes another connection.
func (p *Pinned) drop() {
	if p.conn != nil {
		_ = p.conn.Raw(func(any) error { return driver.ErrBadConn }) // makes the pool close it
		_ = p.conn.Close()                                           // the error does not matter, because the connection is not used again
	}
	p.conn, p.stmts = nil, nil
}

// Close closes the connection.
func (p *Pinned) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop()
}
