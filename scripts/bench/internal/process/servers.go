package process

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"github.com/jmoiron/sqlx"
	_ "github.com/lib/pq" // the PostgreSQL driver of admin
	"github.com/rs/zerolog"

	"parley/shared/lifecycle/childproc"
	"parley/shared/store/pgserver"
)

const startTimeout = 60 * time.Second

// ServersConfig contains the servers' data directory and the path of the nats-server binary.
type ServersConfig struct {
	Dir        string // an empty directory, which the caller removes
	NATS       string // path of the nats-server binary
	Log        zerolog.Logger
	Statements bool // whether PostgreSQL records the cost of each statement, which needs its contrib modules
}

// Servers are a running PostgreSQL and a running nats-server.
type Servers struct {
	config   ServersConfig
	postgres *pgserver.Server
	nats     Group

	NATSURL string   // address of the nats-server
	admin   *sqlx.DB // connected to another database, so that the bench's own queries are not counted
}

// StartServers starts both servers on free loopback ports.
func StartServers(ctx context.Context, c ServersConfig) (*Servers, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	s := &Servers{config: c}
	err := s.startPostgres(ctx)
	if err == nil {
		s.NATSURL, err = s.StartNATS(ctx, "nats")
	}
	if err != nil {
		return nil, errors.Join(err, s.Stop(ctx))
	}
	return s, nil
}

// startPostgres starts PostgreSQL and opens the connection for the bench's own queries.
func (s *Servers) startPostgres(ctx context.Context) error {
	ports, err := childproc.FreePorts(ctx, 1)
	if err != nil {
		return err
	}

	settings := map[string]string{"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}
	if s.config.Statements {
		settings["shared_preload_libraries"], settings["pg_stat_statements.track_planning"] = "pg_stat_statements", "on"
	}

	s.postgres, err = pgserver.Start(ctx, pgserver.Config{
		Dir: filepath.Join(s.config.Dir, "postgres"), Log: s.config.Log, Port: ports[0], Settings: settings,
	})
	if err != nil {
		return fmt.Errorf("starting PostgreSQL: %w", err)
	}

	if s.admin, err = sqlx.Open("postgres", s.postgres.DSN("postgres")); err != nil {
		return fmt.Errorf("opening database: %w", err)
	}
	s.admin.SetMaxOpenConns(1)
	if s.config.Statements {
		return s.exec(ctx, `CREATE EXTENSION pg_stat_statements`)
	}
	return nil
}

// StartNATS starts an additional nats-server and returns its address. Two deployments that run at
// the same time share PostgreSQL, but each needs its own nats-server.
func (s *Servers) StartNATS(ctx context.Context, name string) (natsURL string, err error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()

	ports, err := childproc.FreePorts(ctx, 2)
	if err != nil {
		return "", err
	}

	port, monitor := ports[0], ports[1]
	server, err := s.nats.Start(ctx, childproc.Program{Name: name, Path: s.config.NATS, Args: []string{
		"--addr", "127.0.0.1", "--port", strconv.Itoa(port), "--http_port", strconv.Itoa(monitor),
		"--jetstream", "--store_dir", filepath.Join(s.config.Dir, name),
	}}, s.config.Dir, nil)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("nats://127.0.0.1:%d", port), server.AwaitOK(ctx, fmt.Sprintf("http://127.0.0.1:%d/healthz", monitor))
}

// Database creates an empty database and returns its address.
func (s *Servers) Database(ctx context.Context, name string) (dsn string, err error) {
	if err := s.postgres.CreateDatabase(ctx, name); err != nil {
		return "", err
	}
	return s.postgres.DSN(name), nil
}

// Commits returns the number of committed transactions in a database. The newest commits can be
// missing, because a connection reports its commits only when it commits, and at most once a
// second.
func (s *Servers) Commits(ctx context.Context, database string) (n int64, err error) {
	if err := s.admin.GetContext(ctx, &n, `SELECT xact_commit FROM pg_stat_database WHERE datname = $1`, database); err != nil {
		return 0, fmt.Errorf("reading commits of %s: %w", database, err)
	}
	return n, nil
}

// Checkpoint makes PostgreSQL write its dirty pages to disk. Otherwise it might write the pages of
// earlier measurements during the next one.
func (s *Servers) Checkpoint(ctx context.Context) error { return s.exec(ctx, `CHECKPOINT`) }

// exec executes a statement on the bench's own connection.
func (s *Servers) exec(ctx context.Context, statement string) error {
	if _, err := s.admin.ExecContext(ctx, statement); err != nil {
		return fmt.Errorf("%s: %w", statement, err)
	}
	return nil
}

// Version returns PostgreSQL's version.
func (s *Servers) Version(ctx context.Context) (version string, err error) {
	if err := s.admin.GetContext(ctx, &version, `SHOW server_version`); err != nil {
		return "", fmt.Errorf("reading version: %w", err)
	}
	return version, nil
}

// Statement is the cost of all calls of one SQL statement.
type Statement struct {
	Load   string  `db:"load" json:"load"`
	Query  string  `db:"query" json:"query"`
	Calls  int64   `db:"calls" json:"calls"`
	Rows   int64   `db:"rows" json:"rows"`
	Millis float64 `db:"millis" json:"ms"` // time for planning and execution in all calls, including time spent waiting
	WAL    int64   `db:"wal" json:"walBytes"`
}

// Statements returns the twelve most expensive statements in a load's database.
func (s *Servers) Statements(ctx context.Context, load, database string) (out []Statement, err error) {
	err = s.admin.SelectContext(ctx, &out, `
		SELECT $2::text load, regexp_replace(query, '\s+', ' ', 'g') query, calls, rows,
			total_exec_time + total_plan_time millis, wal_bytes::bigint wal
		FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid WHERE datname = $1 ORDER BY millis DESC LIMIT 12`, database, load)
	if err != nil {
		return nil, fmt.Errorf("reading statements: %w", err)
	}
	return out, nil
}

// CPU returns the CPU time of each server, by name.
func (s *Servers) CPU() (map[string]time.Duration, error) {
	postgres, err := TreeCPU(s.postgres.PID())
	if err != nil {
		return nil, err
	}
	out, err := s.nats.CPU()
	if err != nil {
		return nil, err
	}
	out["postgres"] = postgres
	return out, nil
}

// Err returns an error for each server that ended without being stopped.
func (s *Servers) Err() error { return errors.Join(s.postgres.Err(), s.nats.Err()) }

// Stop stops all servers.
func (s *Servers) Stop(ctx context.Context) error {
	err := s.nats.Stop()
	if s.admin != nil {
		err = errors.Join(err, s.admin.Close())
	}
	if s.postgres != nil {
		err = errors.Join(err, s.postgres.Stop(ctx))
	}
	return err
}
