package servers

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/lib/pq"
	"github.com/rs/zerolog"

	"parley/scripts/bench/internal/machine"
	"parley/scripts/bench/internal/process"
	"parley/shared/store/pgserver"
)

const (
	startTimeout  = 60 * time.Second
	walSyncsMoved = 18_00_00 // the version that counts them elsewhere
)

// Config says where the servers keep their data and which nats-server it is.
type Config struct {
	Dir  string // empty; removed by whoever made it
	NATS string // path of the nats-server binary
	Log  zerolog.Logger
	// Statements makes PostgreSQL keep the figures that Servers.Statements reads; it needs its contrib modules.
	Statements bool
}

// Servers are one running PostgreSQL and one running nats-server.
type Servers struct {
	postgres *pgserver.Server
	nats     process.Group
	natsURL  string
	admin    *sql.DB // on a database that no side uses, so that the bench's queries count for none
}

// Start starts both on free ports of the loopback interface.
func Start(ctx context.Context, c Config) (*Servers, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	s := &Servers{}
	err := s.startPostgres(ctx, c)
	if err == nil {
		s.natsURL, err = s.startNATS(ctx, c, "nats")
	}
	if err != nil {
		return nil, errors.Join(err, s.Stop(ctx))
	}
	return s, nil
}

func (s *Servers) startPostgres(ctx context.Context, c Config) error {
	port, err := process.FreePort(ctx)
	if err != nil {
		return err
	}
	settings := map[string]string{"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}
	if c.Statements {
		maps.Copy(settings, statementsSettings)
	}
	s.postgres, err = pgserver.Start(ctx, pgserver.Config{Dir: filepath.Join(c.Dir, "postgres"), Log: c.Log, Port: port, Settings: settings})
	if err != nil {
		return fmt.Errorf("starting PostgreSQL: %w", err)
	}
	connector, err := pq.NewConnector(s.postgres.DSN("postgres"))
	if err != nil {
		return fmt.Errorf("reading database address: %w", err)
	}
	s.admin = sql.OpenDB(connector)
	s.admin.SetMaxOpenConns(1)
	if c.Statements {
		return s.countStatements(ctx)
	}
	return nil
}

// AnotherNATS starts another nats-server beside the first, for a deployment that is to share nothing but PostgreSQL, and gives its
// address. name is that of its files.
func (s *Servers) AnotherNATS(ctx context.Context, c Config, name string) (natsURL string, err error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	return s.startNATS(ctx, c, name)
}

func (s *Servers) startNATS(ctx context.Context, c Config, name string) (natsURL string, err error) {
	port, err := process.FreePort(ctx)
	if err != nil {
		return "", err
	}
	monitor, err := process.FreePort(ctx)
	if err != nil {
		return "", err
	}
	config := filepath.Join(c.Dir, name+".conf")
	text := fmt.Sprintf("listen: \"127.0.0.1:%d\"\nhttp: \"127.0.0.1:%d\"\njetstream { store_dir: %q }\n",
		port, monitor, filepath.Join(c.Dir, name))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return "", fmt.Errorf("writing configuration of nats-server: %w", err)
	}
	server, err := s.nats.Start(ctx, process.Config{Name: name + "-server", Path: c.NATS, Args: []string{"-c", config}, LogsDir: c.Dir})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("nats://127.0.0.1:%d", port), server.AwaitOK(ctx, fmt.Sprintf("http://127.0.0.1:%d/healthz", monitor))
}

// NATSURL is the address of the nats-server.
func (s *Servers) NATSURL() string { return s.natsURL }

// Database makes an empty database and gives its address.
func (s *Servers) Database(ctx context.Context, name string) (dsn string, err error) {
	if err := s.postgres.CreateDatabase(ctx, name); err != nil {
		return "", err
	}
	return s.postgres.DSN(name), nil
}

// Commits is how many transactions have been committed in a database. Each connection reports its own when it
// commits one, at most once a second: what it committed since then is missing.
func (s *Servers) Commits(ctx context.Context, database string) (int64, error) {
	var n int64
	err := s.admin.QueryRowContext(ctx, `SELECT xact_commit FROM pg_stat_database WHERE datname = $1`, database).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("reading commits of %s: %w", database, err)
	}
	return n, nil
}

// WALSyncs is how often PostgreSQL has had its log put on disk since its start, for all databases. Each connection reports its own as
// its commits.
func (s *Servers) WALSyncs(ctx context.Context) (int64, error) {
	var version, n int64
	if err := s.admin.QueryRowContext(ctx, `SELECT current_setting('server_version_num')`).Scan(&version); err != nil {
		return 0, fmt.Errorf("reading version: %w", err)
	}
	query := `SELECT wal_sync FROM pg_stat_wal`
	if version >= walSyncsMoved {
		query = `SELECT coalesce(sum(fsyncs), 0)::bigint FROM pg_stat_io WHERE object = 'wal'`
	}
	if err := s.admin.QueryRowContext(ctx, query).Scan(&n); err != nil {
		return 0, fmt.Errorf("reading syncs of the log: %w", err)
	}
	return n, nil
}

// Checkpoint writes out what earlier measurements have left, so that it is not done during the next one.
func (s *Servers) Checkpoint(ctx context.Context) error {
	if _, err := s.admin.ExecContext(ctx, `CHECKPOINT`); err != nil {
		return fmt.Errorf("writing a checkpoint: %w", err)
	}
	return nil
}

// Logged is how many bytes PostgreSQL has ever written to its log of changes (WAL).
func (s *Servers) Logged(ctx context.Context) (int64, error) {
	var n int64
	if err := s.admin.QueryRowContext(ctx, `SELECT pg_current_wal_insert_lsn() - '0/0'`).Scan(&n); err != nil {
		return 0, fmt.Errorf("reading the place in PostgreSQL's log: %w", err)
	}
	return n, nil
}

// Setting is the value of one of PostgreSQL's settings, as it runs.
func (s *Servers) Setting(ctx context.Context, name string) (string, error) {
	var value string
	if err := s.admin.QueryRowContext(ctx, `SELECT current_setting($1)`, name).Scan(&value); err != nil {
		return "", fmt.Errorf("reading setting %s: %w", name, err)
	}
	return value, nil
}

// CPU is the CPU time that the servers have taken, by name.
func (s *Servers) CPU() (map[string]time.Duration, error) {
	postgres, err := machine.TreeCPU(s.postgres.PID())
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

// Err tells which server has ended by itself, if any.
func (s *Servers) Err() error { return errors.Join(s.postgres.Err(), s.nats.Err()) }

// Stop ends both.
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

// FindNATS gives the path of the nats-server binary: the one named, or the repository's, or the one on the PATH.
func FindNATS(named, repository string) (string, error) {
	if named != "" {
		return named, nil
	}
	built := filepath.Join(repository, "bin", "nats-server")
	if _, err := os.Stat(built); err == nil {
		return built, nil
	}
	path, err := exec.LookPath("nats-server")
	if err != nil {
		return "", fmt.Errorf("looking for nats-server (make bin/nats-server builds it): %w", err)
	}
	return path, nil
}
