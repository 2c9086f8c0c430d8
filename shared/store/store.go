package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"parley/shared/apierr"
)

// Store reads and writes the database. It is safe for concurrent use.
type Store struct {
	db *sqlx.DB

	accepts, claims, finishes, handOvers pinned

	mu    sync.Mutex
	stmts map[string]*sqlx.Stmt
}

// Open prepares a pool of at most conns connections to the PostgreSQL server at dsn, a URL or
// keyword string of lib/pq. It does not connect: the first use does.
func Open(dsn string, conns int) (*Store, error) {
	cfg, err := pq.NewConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("reading database address: %w", err)
	}
	cfg.Runtime = withDefaults(cfg.Runtime)
	connector, err := pq.NewConnectorConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("reading database address: %w", err)
	}
	connector.Dialer(dialer{})
	db := sqlx.NewDb(sql.OpenDB(connector), "postgres")
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	return &Store{
		db: db, stmts: map[string]*sqlx.Stmt{},
		accepts: pinned{db: db}, claims: pinned{db: db}, finishes: pinned{db: db}, handOvers: pinned{db: db},
	}, nil
}

// sessionSettings are run-time parameters of each connection, unless the address sets them itself.
var sessionSettings = map[string]string{
	"application_name": "parley",
	// A statement or an open transaction that hangs must not keep its locks for ever.
	"statement_timeout":                   "10000",
	"lock_timeout":                        "5000",
	"idle_in_transaction_session_timeout": "10000",
	// The batch statements are prepared while tables may be empty, when a sequential scan looks cheapest,
	// and live on as the tables grow. Every query here has its index, so the planner is told to use it,
	// to plan once, and not to spend longer on compiling a plan than on running it.
	"enable_seqscan":  "off",
	"plan_cache_mode": "force_generic_plan",
	"jit":             "off",
}

func withDefaults(set map[string]string) map[string]string {
	out := maps.Clone(sessionSettings)
	maps.Copy(out, set)
	return out
}

// DB gives the pool, for migrations.
func (s *Store) DB() *sql.DB { return s.db.DB }

// Ping connects once.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.db.PingContext(ctx); err != nil {
		return fmt.Errorf("reaching database: %w", err)
	}
	return nil
}

// CheckSchema reports an error unless the database has this release's schema.
func (s *Store) CheckSchema(ctx context.Context) error {
	if _, err := s.db.ExecContext(ctx, `SELECT 1 FROM open_runs, rate_buckets LIMIT 0`); err != nil {
		return fmt.Errorf("looking for the schema, which `parley migrate` makes: %w", err)
	}
	return nil
}

// Close ends all connections.
func (s *Store) Close() error {
	for _, p := range []*pinned{&s.accepts, &s.claims, &s.finishes, &s.handOvers} {
		p.close()
	}
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("closing database: %w", err)
	}
	return nil
}

// prepared gives the statement of a query, prepared once per process and connection: the batch
// statements take longer to plan than to run.
func (s *Store) prepared(ctx context.Context, query string) (*sqlx.Stmt, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if stmt, ok := s.stmts[query]; ok {
		return stmt, nil
	}
	stmt, err := s.db.PreparexContext(ctx, query)
	if err != nil {
		return nil, fmt.Errorf("preparing statement: %w", err)
	}
	s.stmts[query] = stmt
	return stmt, nil
}

// tx runs f in a READ COMMITTED transaction and again when PostgreSQL ended it for a deadlock.
func (s *Store) tx(ctx context.Context, f func(*sqlx.Tx) error) error {
	const tries = 5
	for n := 1; ; n++ {
		err := s.txOnce(ctx, f)
		if n == tries || !hasCode(err, "40P01", "40001") {
			return err
		}
	}
}

func (s *Store) txOnce(ctx context.Context, f func(*sqlx.Tx) error) error {
	tx, err := s.db.BeginTxx(ctx, nil)
	if err != nil {
		return fmt.Errorf("beginning transaction: %w", err)
	}
	if err := f(tx); err != nil {
		_ = tx.Rollback() // err says what went wrong; a failed rollback closes the connection
		return err
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("committing: %w", err)
	}
	return nil
}

// hasCode reports whether err is a PostgreSQL error of one of the SQLSTATE codes.
func hasCode(err error, codes ...string) bool {
	var pqErr *pq.Error
	if !errors.As(err, &pqErr) {
		return false
	}
	return slices.Contains(codes, string(pqErr.Code))
}

// violates reports whether err is a violation of the named unique constraint or index.
func violates(err error, constraint string) bool {
	var pqErr *pq.Error
	return errors.As(err, &pqErr) && pqErr.Code == "23505" && pqErr.Constraint == constraint
}

// isDisconnect reports whether err means that the server did not answer, rather than that it refused.
func isDisconnect(err error) bool {
	if pqErr, ok := errors.AsType[*pq.Error](err); ok {
		class := pqErr.Code.Class()
		return class == "08" || class == "57" || class == "53" // connection, operator, resources
	}
	var netErr *net.OpError
	for _, gone := range []error{driver.ErrBadConn, sql.ErrConnDone, io.EOF, io.ErrUnexpectedEOF, context.DeadlineExceeded} {
		if errors.Is(err, gone) {
			return true
		}
	}
	return errors.As(err, &netErr)
}

// Unavailable turns an error of the store that means "not now" into the coded 503, and leaves others alone.
func Unavailable(err error) error {
	var coded *apierr.Error
	if err == nil || errors.As(err, &coded) || !isDisconnect(err) {
		return err
	}
	e := apierr.Wrap(apierr.Unavailable, err, "the service cannot reach its database; try again shortly")
	e.RetryAfter = time.Second
	return e
}

func notFound() error { return apierr.New(apierr.NotFound, "no such resource") }

// dialer bounds connecting and keeps a dead peer from holding a connection for long.
type dialer struct{}

func (dialer) Dial(network, address string) (net.Conn, error) {
	return dialer{}.DialContext(context.Background(), network, address)
}

func (dialer) DialTimeout(network, address string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return dialer{}.DialContext(ctx, network, address)
}

func (dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}
	conn, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, fmt.Errorf("dialing database: %w", err)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		if err := setUserTimeout(tcp, 10*time.Second); err != nil {
			_ = conn.Close() // the setting's error is the one to report
			return nil, err
		}
	}
	return patient{conn}, nil
}

// answerTimeout is how long a server may be silent while an answer is awaited: longer than any statement may
// take. lib/pq goes on reading after a context has ended, so without it a server that is frozen, or behind a
// partition, would hold its callers for as long as that lasts.
const answerTimeout = 15 * time.Second

// patient is a connection whose peer may be silent for answerTimeout. lib/pq reads only when it awaits an answer.
type patient struct{ net.Conn }

func (c patient) Read(b []byte) (int, error) {
	if err := c.Conn.SetReadDeadline(time.Now().Add(answerTimeout)); err != nil {
		return 0, err
	}
	return c.Conn.Read(b)
}

func (c patient) Write(b []byte) (int, error) {
	if err := c.Conn.SetWriteDeadline(time.Now().Add(answerTimeout)); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}
