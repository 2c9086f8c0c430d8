package standalone

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"

	"parley/migrations"
	"parley/shared/bus"
	"parley/shared/bus/embedded"
	"parley/shared/config"
	"parley/shared/connect"
	"parley/shared/domain"
	"parley/shared/lifecycle"
	"parley/shared/store"
	"parley/shared/store/knowledgedb"
	"parley/shared/telemetry/tracing"
	"parley/shared/templates"
)

// Names and limits of the servers. databaseConns is the maximum number of database connections of
// the whole process. stopTime is the time limit for stopping a server.
const (
	databaseName  = "parley"
	lockName      = "parley.lock"
	databaseConns = 24
	stopTime      = 20 * time.Second
)

// startServers connects to PostgreSQL and NATS, and migrates the schema. If the settings contain no
// URL for a server, it starts a private server with its data below dir. It adds the servers to the
// group, which stops them last. If startServers fails, the group contains the servers that were
// started.
func startServers(
	ctx context.Context, cfg config.Servers, keys config.Secrets, dir string, tracer *tracing.Tracer, log zerolog.Logger,
	group *lifecycle.Group,
) (*connect.Servers, error) {
	dsn := cfg.DatabaseURL
	if dsn == "" {
		pg, err := startPostgres(ctx, filepath.Join(dir, "postgres"), log)
		if err != nil {
			return nil, err
		}
		group.Add("postgres", pg.run)
		dsn = pg.dsn
	}

	b, err := connectBus(cfg.NATSURL, dir, log, group)
	if err != nil {
		return nil, err
	}
	if err := migrateDatabase(ctx, dsn); err != nil {
		return nil, err
	}

	st, err := connect.Store(dsn, keys, databaseConns, tracer)
	if err != nil {
		return nil, err
	}

	srv := &connect.Servers{Store: st, Bus: b}
	// The group stops its members in reverse order, so the connections close before the servers
	// stop.
	group.Add("connections", func(ctx context.Context) error {
		<-ctx.Done()
		srv.Close()
		return nil
	})
	return srv, nil
}

// connectBus connects to the NATS server at url. If url is empty, it starts a private server in
// this process, with its data below dir, and adds it to the group.
func connectBus(url, dir string, log zerolog.Logger, group *lifecycle.Group) (*bus.Bus, error) {
	if url != "" {
		return bus.Dial(url, "parley", log)
	}

	nats, err := embedded.Start(embedded.Config{Dir: filepath.Join(dir, "nats"), Log: log})
	if err != nil {
		return nil, fmt.Errorf("starting NATS: %w", err)
	}

	group.Add("nats", lifecycle.Hold(nil, nats.Stop, stopTime))
	nc, err := nats.Conn(bus.Options("parley", log)...)
	if err != nil {
		return nil, err
	}
	return bus.New(nc, log)
}

// migrateDatabase migrates the schema, and stores the templates and the sample documents of the
// demo. The login in dsn must be the owner, because the service's login may not change the schema
// or the templates.
func migrateDatabase(ctx context.Context, dsn string) error {
	st, err := store.OpenOwner(dsn, 2)
	if err != nil {
		return err
	}
	defer func() { _ = st.Close() }() // an error has no effect, because no writes are pending
	if err := migrations.Up(ctx, st.SQL()); err != nil {
		return err
	}
	if err := st.Agents.SyncTemplates(ctx, templates.All()); err != nil {
		return fmt.Errorf("storing templates: %w", err)
	}

	// Visitors of the demo ask the templates about these documents.
	if err := knowledgedb.SyncSamples(ctx, st.Knowledge, domain.DemoOrganization, domain.SystemPrincipal, templates.Samples()); err != nil {
		return fmt.Errorf("storing sample documents: %w", err)
	}
	return nil
}

// lockData creates the data directory if necessary, and locks it against other processes. The
// kernel releases the lock when the process ends. lockData never waits.
func lockData(dir string) (*lifecycle.Lock, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating data directory: %w", err)
	}
	lock, err := lifecycle.LockFile(filepath.Join(dir, lockName))
	if locked, is := errors.AsType[*lifecycle.LockedError](err); is {
		return nil, fmt.Errorf("the data directory %s is in use by %s; stop that process, or set DATA_DIR to another directory",
			dir, locked.Holder())
	}
	if err != nil {
		return nil, fmt.Errorf("locking the data directory %s: %w", dir, err)
	}
	return lock, nil
}

// errNoData is the error for a directory that is not a data directory and that reset must therefore
// not delete.
var errNoData = errors.New("not a data directory of parley")
