package pg

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"maps"
	"strings"
	"sync"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
)

// DB is a pool of connections to one database. It is safe for concurrent use.
type DB struct {
	*sqlx.DB

	// connector makes connections outside the pool, for Fresh.
	connector driver.Connector

	mu    sync.Mutex
	stmts map[string]*sqlx.Stmt // by query; guarded by mu
}

// appRole is the database role that runs the service's statements, whatever user the connection
// logs in as. It owns no table and cannot bypass row-level security.
const appRole = "parley_app"

// Open prepares a pool of at most conns connections to the PostgreSQL server at dsn, which is a URL
// or a keyword string in lib/pq's syntax. The connections use the role parley_app unless dsn sets
// another role. Open does not connect; the first use of the pool does.
func Open(dsn string, conns int) (*DB, error) {
	connector, err := Connector(dsn)
	if err != nil {
		return nil, err
	}
	return On(connector, conns), nil
}

// OpenOwner is like Open. It is meant for migrations and for writing the data of a release, such as
// templates. Its connections use the login's own role, and their statements have no timeout.
func OpenOwner(dsn string, conns int) (*DB, error) {
	connector, err := newConnector(dsn, ownerSettings, dialer{})
	if err != nil {
		return nil, err
	}
	return On(connector, conns), nil
}

// Connector returns the connector that Open uses. keyIDs are the ids of the keys in this process's
// SECRETS_KEY, for RunningKeys.
func Connector(dsn string, keyIDs ...string) (driver.Connector, error) {
	// PostgreSQL shows the application name of each connection in pg_stat_activity, where
	// RunningKeys reads it.
	settings := sessionSettings
	if len(keyIDs) > 0 {
		settings = maps.Clone(settings)
		settings["application_name"] = runningPrefix + strings.Join(keyIDs[:min(len(keyIDs), MaxRunningKeys)], ",")
	}
	return newConnector(dsn, settings, dialer{silence: answerTimeout})
}

// On is like Open, for the connections that connector makes.
func On(connector driver.Connector, conns int) *DB {
	db := sqlx.NewDb(sql.OpenDB(connector), "postgres")
	db.SetMaxOpenConns(conns)

	// All connections may stay idle: reopening one costs several round trips and the preparation of
	// its statements.
	db.SetMaxIdleConns(conns)
	return &DB{DB: db, connector: connector, stmts: map[string]*sqlx.Stmt{}}
}

// newConnector returns a connector with the given session settings. Settings in dsn take
// precedence.
func newConnector(dsn string, settings map[string]string, d dialer) (driver.Connector, error) {
	cfg, err := pq.NewConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("reading database address: %w", err)
	}

	// The DSN may override each of these parameters, for example with a longer statement timeout.
	set := maps.Clone(settings)
	maps.Copy(set, cfg.Runtime)
	cfg.Runtime = set

	// Byte slices in arguments are sent unchanged instead of in hexadecimal, and a statement that is
	// not prepared takes one round trip instead of two. The result of such a statement is sent as
	// text, so statements that read large byte strings are prepared. Values of type jsonb must be
	// sent as strings, because the binary form of jsonb has a prefix.
	cfg.BinaryParameters = true
	connector, err := pq.NewConnectorConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("reading database address: %w", err)
	}

	connector.Dialer(d)
	return connector, nil
}

// sessionSettings contains run-time parameters that each connection sets, unless the DSN sets them.
var sessionSettings = map[string]string{
	"application_name": "parley",
	"role":             appRole,
	// A hanging statement or open transaction must not keep its locks forever.
	"statement_timeout":                   "10000",
	"lock_timeout":                        "5000",
	"idle_in_transaction_session_timeout": "10000",
	// The batch statements are prepared while tables may be empty, when a sequential scan seems
	// cheapest, and stay prepared as the tables grow. Every query has an index, which the planner
	// must use. Each statement must be planned only once. Just-in-time compilation is off, because
	// compiling a plan takes longer than executing it. The settings also apply to statements inside
	// functions, whose plans are kept per connection.
	"enable_seqscan":  "off",
	"plan_cache_mode": "force_generic_plan",
	"jit":             "off",
}

// ownerSettings limits only the time that a migration waits for a lock, because statements of the
// service queue for the same lock after the migration. The limit is longer than any statement of
// the service may hold a lock.
var ownerSettings = map[string]string{"application_name": "parley-owner", "lock_timeout": "30000"}

// SQL returns the pool, for migrations and metrics.
func (db *DB) SQL() *sql.DB { return db.DB.DB }

// Ping checks that the server accepts a connection.
func (db *DB) Ping(ctx context.Context) error {
	if err := db.PingContext(ctx); err != nil {
		return fmt.Errorf("reaching database%s: %w", missingRole(err), err)
	}
	return nil
}

// Fresh calls f with a new connection. If the server's binaries were replaced, connections of the
// pool still work, because their server processes have loaded the old binaries.
func (db *DB) Fresh(ctx context.Context, f func(*sql.DB) error) error {
	fresh := sql.OpenDB(db.connector)
	defer func() { _ = fresh.Close() }() // nothing was written
	fresh.SetMaxOpenConns(1)

	// PL/pgSQL is a library that the server loads on first use, so Fresh first calls a function in
	// this language. 42883 means that the function does not exist, because the database is not
	// migrated yet.
	if _, err := fresh.ExecContext(ctx, `SELECT parley_act_for(ARRAY['org_none'])`); err != nil && !HasCode(err, "42883") {
		return fmt.Errorf("calling a function on a new database connection%s: %w", missingRole(err), err)
	}
	return f(fresh)
}

// missingRole returns an explanation if the server rejects the service's role because the role is
// missing. It returns "" for other errors.
func missingRole(err error) string {
	switch {
	case HasCode(err, "22023"):
		return " (`parley migrate` creates the role " + appRole + ")"
	case HasCode(err, "42501"):
		return " (an administrator must GRANT " + appRole + " to this login)"
	}
	return ""
}

// Close closes all connections.
func (db *DB) Close() error {
	if err := db.DB.Close(); err != nil {
		return fmt.Errorf("closing database: %w", err)
	}
	return nil
}

// Prepared returns the prepared statement for a query. The query is prepared once per process and
// connection, because planning the batch statements takes longer than running them.
func (db *DB) Prepared(ctx context.Context, query string) (*sqlx.Stmt, error) {
	db.mu.Lock()
	known := db.stmts[query]
	db.mu.Unlock()
	if known != nil {
		return known, nil
	}

	stmt, err := db.PreparexContext(ctx, query) // prepared without holding the lock, so that a slow server delays only this caller
	if err != nil {
		return nil, fmt.Errorf("preparing statement: %w", err)
	}

	db.mu.Lock()
	defer db.mu.Unlock()
	if known = db.stmts[query]; known != nil {
		_ = stmt.Close() //nolint:sqlclosecheck // another caller was faster; the statement that is kept is not closed here
		return known, nil
	}

	db.stmts[query] = stmt
	return stmt, nil
}
