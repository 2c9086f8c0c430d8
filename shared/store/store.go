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
	"strings"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	"parley/shared/apierr"
)

// Store reads and writes the database. It is safe for concurrent use.
type Store struct {
	db        *sqlx.DB
	connector driver.Connector

	accepts, claims, finishes, handOvers pinned

	countedTerms int // of each document
	budgeted     budgeted

	accounts AccountLimits

	sealer  Sealer // nil: what is sealed cannot be opened
	sealing int    // how much longer a piece is that it has sealed; 0: contents are kept as they are
	// unopened is called with each content that no key of sealer opens; nil: nobody is to know.
	unopened func(v SealedValue, sealed []byte)

	mu    sync.Mutex
	stmts map[string]*sqlx.Stmt

	slots *slots
}

// appRole is the database role that the service's statements run as: it owns no table and bypasses no
// row-level security, whoever logged in.
const appRole = "parley_app"

// Open prepares a pool of at most conns connections to the PostgreSQL server at dsn, a URL or
// keyword string of lib/pq, which act as the role parley_app unless the address sets another. It does
// not connect: the first use does.
func Open(dsn string, conns int) (*Store, error) {
	connector, err := Connector(dsn)
	if err != nil {
		return nil, err
	}
	return On(connector, conns), nil
}

// OpenOwner is Open for migrations and what belongs to a release: its connections act as whoever the
// address logs in, and their statements may take as long as they need.
func OpenOwner(dsn string, conns int) (*Store, error) {
	connector, err := newConnector(dsn, ownerSettings, dialer{})
	if err != nil {
		return nil, err
	}
	return On(connector, conns), nil
}

// Connector makes the connections that Open uses. keyIDs are the keys of SECRETS_KEY that the process has, for RunningKeys.
func Connector(dsn string, keyIDs ...string) (driver.Connector, error) {
	settings := sessionSettings
	if len(keyIDs) > 0 {
		settings = maps.Clone(settings)
		settings["application_name"] = runningPrefix + strings.Join(keyIDs[:min(len(keyIDs), MaxRunningKeys)], ",")
	}
	return newConnector(dsn, settings, dialer{silence: answerTimeout})
}

// On is Open on connections of the caller's making.
func On(connector driver.Connector, conns int) *Store {
	db := sqlx.NewDb(sql.OpenDB(connector), "postgres")
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	s := &Store{
		db: db, connector: connector, stmts: map[string]*sqlx.Stmt{}, countedTerms: countedTerms,
		accepts: pinned{db: db}, claims: pinned{db: db}, finishes: pinned{db: db}, handOvers: pinned{db: db},
	}
	s.slots = newSlots(s.countDispatched)
	return s
}

func newConnector(dsn string, settings map[string]string, d dialer) (driver.Connector, error) {
	cfg, err := pq.NewConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("reading database address: %w", err)
	}
	set := maps.Clone(settings)
	maps.Copy(set, cfg.Runtime)
	cfg.Runtime = set
	connector, err := pq.NewConnectorConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("reading database address: %w", err)
	}
	connector.Dialer(d)
	return connector, nil
}

// sessionSettings are run-time parameters of each connection, unless the address sets them itself.
var sessionSettings = map[string]string{
	"application_name": "parley",
	"role":             appRole,
	// A statement or an open transaction that hangs must not keep its locks for ever.
	"statement_timeout":                   "10000",
	"lock_timeout":                        "5000",
	"idle_in_transaction_session_timeout": "10000",
	// The batch statements are prepared while tables may be empty, when a sequential scan looks cheapest,
	// and live on as the tables grow. Every query here has its index, so the planner is told to use it,
	// to plan once, and not to spend longer on compiling a plan than on running it. This holds inside of
	// functions, too: their statements' plans are kept per connection like those of prepared ones.
	"enable_seqscan":  "off",
	"plan_cache_mode": "force_generic_plan",
	"jit":             "off",
}

// ownerSettings bound nothing but the wait for locks, behind which the service's statements queue up; it is
// longer than any of those may hold one.
var ownerSettings = map[string]string{"application_name": "parley-owner", "lock_timeout": "30000"}

// DB gives the pool, for migrations.
func (s *Store) DB() *sql.DB { return s.db.DB }

// Ping connects once.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.db.PingContext(ctx); err != nil {
		return fmt.Errorf("reaching database%s: %w", missingRole(err), err)
	}
	return nil
}

// CheckSchema reports an error unless the database has this release's schema, and a new connection can use it. The connections of the
// pool would not show that the server's programs were replaced underneath: they have loaded what they need.
func (s *Store) CheckSchema(ctx context.Context) error {
	fresh := sql.OpenDB(s.connector)
	defer func() { _ = fresh.Close() }() // nothing was written
	fresh.SetMaxOpenConns(1)
	if _, err := fresh.ExecContext(ctx, `SELECT parley_act_for(ARRAY['org_none'])`); err != nil && !hasCode(err, "42883") {
		return fmt.Errorf("calling a function on a new database connection%s: %w", missingRole(err), err)
	}
	if _, err := fresh.ExecContext(ctx, `SELECT agents.widget_secret, runs.key_id, runs.summary, api_keys.lineage, users.displaced_at,
		CAST('accept_single_runs_2(new_run[], text[], int[], interval)' AS regprocedure),
		CAST('end_lane_runs(run_ending[], text[], boolean)' AS regprocedure),
		CAST('claim_runs_2(text[], interval)' AS regprocedure)
		FROM agents, api_keys, users, runs, open_runs, rate_buckets, run_events,
		invitations, effects, files, documents, run_documents, document_chunks, document_vectors, knowledge_terms, indexed_documents,
		run_attempts, heard, budget_holds, past_usage_by, hooks, deliveries, collecting, notification_endpoints, notifications,
		waiting_lanes LIMIT 0`); err != nil {
		return fmt.Errorf("looking for the schema, which `parley migrate` makes: %w", err)
	}
	return nil
}

// ServerBroken reports whether err says that the server cannot use its own programs or files, such as a library that an
// upgrade has replaced.
func ServerBroken(err error) bool {
	pqErr, ok := errors.AsType[*pq.Error](err)
	return ok && (pqErr.Code.Class() == "58" || pqErr.Code.Class() == "XX")
}

// missingRole explains why a server turns away whoever wants to act as the service's role.
func missingRole(err error) string {
	switch {
	case hasCode(err, "22023"):
		return " (`parley migrate` makes the role " + appRole + ")"
	case hasCode(err, "42501"):
		return " (an administrator must GRANT " + appRole + " to this login)"
	}
	return ""
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
	known := s.stmts[query]
	s.mu.Unlock()
	if known != nil {
		return known, nil
	}
	stmt, err := s.db.PreparexContext(ctx, query) // without the lock: a server that is slow to answer delays this caller alone
	if err != nil {
		return nil, fmt.Errorf("preparing statement: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if known = s.stmts[query]; known != nil {
		_ = stmt.Close() //nolint:sqlclosecheck // another caller was faster; a statement that is kept is not closed here
		return known, nil
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

// within is tx for rows of organizations: the transaction sees and writes those of orgs and no others,
// whatever its statements say.
func (s *Store) within(ctx context.Context, orgs []string, f func(*sqlx.Tx) error) error {
	return s.txAfter(ctx, `SET LOCAL parley.organizations = `+pq.QuoteLiteral(joinOrganizations(orgs)), f)
}

// listing is within for a page of an organization's rows, in the order of an index. The planner takes row-level security for a
// condition of its own, and expects so few rows where there are many organizations that it would read and sort all that one has: it is told
// to go along the index and stop.
func (s *Store) listing(ctx context.Context, org string, f func(*sqlx.Tx) error) error {
	return s.txAfter(ctx, `SELECT set_config('enable_sort', 'off', true), set_config('parley.organizations', `+
		pq.QuoteLiteral(joinOrganizations([]string{org}))+`, true)`, f)
}

// txAfter is tx for what comes behind settings of the transaction.
func (s *Store) txAfter(ctx context.Context, settings string, f func(*sqlx.Tx) error) error {
	return s.tx(ctx, func(tx *sqlx.Tx) error {
		if _, err := tx.ExecContext(ctx, settings); err != nil {
			return fmt.Errorf("naming organizations: %w", err)
		}
		return f(tx)
	})
}

// withinPrepared is within for one statement of an organization's that is waited for often: it is planned once per connection.
func (s *Store) withinPrepared(ctx context.Context, org, query string, f func(*sqlx.Stmt) error) error {
	stmt, err := s.prepared(ctx, query)
	if err != nil {
		return err
	}
	return s.within(ctx, []string{org}, func(tx *sqlx.Tx) error { return f(tx.StmtxContext(ctx, stmt)) })
}

// joinOrganizations writes ids as parley_organizations() of the schema reads them. What holds a comma is no
// id, and must not be read as several.
func joinOrganizations(orgs []string) string {
	ids := slices.DeleteFunc(slices.Clone(orgs), func(org string) bool { return strings.Contains(org, ",") })
	slices.Sort(ids)
	return strings.Join(slices.Compact(ids), ",")
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
		if pqErr.Fatal() || pqErr.Severity == pqerror.SeverityPanic {
			return true // it has ended the connection, or let none be made, as when its disk is full
		}
		switch pqErr.Code.Class() {
		case "08", "57", "53", "58": // connection, operator, resources, system
			return true
		}
		return false
	}
	var netErr *net.OpError
	for _, gone := range []error{driver.ErrBadConn, sql.ErrConnDone, io.EOF, io.ErrUnexpectedEOF, context.DeadlineExceeded} {
		if errors.Is(err, gone) {
			return true
		}
	}
	return errors.As(err, &netErr)
}

// Unavailable turns an error of the store that means "not now" into the coded 503, and leaves others alone. A database
// that has not this release's schema is one that has not been migrated yet.
func Unavailable(err error) error {
	var coded *apierr.Error
	if err == nil || errors.As(err, &coded) {
		return err
	}
	detail := "the service cannot reach its database; try again shortly"
	switch {
	case hasCode(err, "42P01", "42703", "42883"): // no such table, column, function
		detail = "the service's database is not prepared for this release yet"
	case IsLocked(err):
		detail = "another operation holds what this request needs; try again shortly"
	case !isDisconnect(err):
		return err
	}
	e := apierr.Wrap(apierr.Unavailable, err, "%s", detail)
	e.RetryAfter = time.Second
	return e
}

func notFound() error { return apierr.New(apierr.NotFound, "no such resource") }
