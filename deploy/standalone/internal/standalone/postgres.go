package standalone

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"parley/shared/store"
	"parley/shared/store/pg"
	"parley/shared/store/pgserver"
)

const (
	// postgresCheckEvery is the interval at which the server is checked. A check fails after
	// postgresCheckTimeout.
	postgresCheckEvery   = 5 * time.Second
	postgresCheckTimeout = 5 * time.Second
	// maxFailedChecks is the number of consecutive failed checks after which the server is
	// restarted.
	maxFailedChecks = 3
	// maxRestarts is the maximum number of restarts without a successful check between them.
	maxRestarts = 5
)

// privatePostgres is the PostgreSQL server that this process has started. It is restarted when it
// dies, and also when it still runs but new connections fail, for example after an upgrade of its
// package. Connections of the service reconnect by themselves.
type privatePostgres struct {
	server *pgserver.Server
	dsn    string // stays the same after a restart
	// every is the interval of the checks, which tests shorten.
	every time.Duration
	log   zerolog.Logger
}

// startPostgres starts the server with its data in dir, and creates the service's database if it
// does not exist. At the first start it also creates the data directory. The caller must call run
// or stop.
func startPostgres(ctx context.Context, dir string, log zerolog.Logger) (*privatePostgres, error) {
	server, err := pgserver.Start(ctx, pgserver.Config{Dir: dir, Log: log})
	if err != nil {
		return nil, fmt.Errorf("starting PostgreSQL: %w", err)
	}
	if err := server.CreateDatabase(ctx, databaseName); err != nil {
		return nil, errors.Join(fmt.Errorf("creating database: %w", err), server.Stop(ctx))
	}
	return &privatePostgres{server: server, dsn: server.DSN(databaseName), every: postgresCheckEvery, log: log}, nil
}

// run restarts the server if necessary, and stops it when ctx ends. It returns an error if
// maxRestarts restarts in a row do not help. When it returns, the server is not running.
func (p *privatePostgres) run(ctx context.Context) error {
	st, err := store.Open(p.dsn, 1)
	if err != nil {
		return errors.Join(err, p.stop(ctx))
	}
	defer func() { _ = st.Close() }() // an error has no effect, because no writes are pending

	tick := time.NewTicker(p.every)
	defer tick.Stop()

	failed, restarts := 0, 0
	for {
		var cause error
		select {
		case <-ctx.Done():
			return p.stop(ctx)
		case <-p.server.Done():
			cause = p.server.Err()
		case <-tick.C:
			cause = p.check(ctx, st)
			if cause == nil {
				restarts = 0
			}
			if !pg.IsServerBroken(cause) { // the server works but is busy, so a restart would not help
				failed = 0
				continue
			}
			if failed++; failed < maxFailedChecks {
				continue
			}
		}
		if ctx.Err() != nil {
			return p.stop(ctx)
		}
		if restarts++; restarts > maxRestarts {
			return errors.Join(fmt.Errorf("PostgreSQL failed after %d restarts: %w", maxRestarts, cause), p.stop(ctx))
		}
		p.log.Error().Err(cause).Msg("PostgreSQL is unavailable, restarting it")
		if err := p.restart(ctx); err != nil {
			return err
		}
		failed = 0
	}
}

// check opens a new connection to the server and checks the schema of the database. A pooled
// connection would not show that new connections fail.
func (p *privatePostgres) check(ctx context.Context, st *store.Store) error {
	ctx, cancel := context.WithTimeout(ctx, postgresCheckTimeout)
	defer cancel()
	return st.CheckSchema(ctx)
}

// restart stops the server if it still runs, and starts it again.
func (p *privatePostgres) restart(ctx context.Context) error {
	server, err := p.server.Restart(ctx)
	if err != nil {
		return fmt.Errorf("restarting PostgreSQL: %w", err)
	}
	p.server = server
	p.log.Info().Msg("PostgreSQL restarted")
	return nil
}

// stop stops the server, within stopTime, even if ctx has ended.
func (p *privatePostgres) stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer cancel()
	return p.server.Stop(ctx)
}
