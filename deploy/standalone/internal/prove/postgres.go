package prove

import (
	"context"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"parley/shared/store/pgserver"
)

const (
	databaseName = "parley"
	// connsPerProcess is more than `parley serve` opens; those of a killed one are open for a moment beside the next one's.
	connsPerProcess = 50
)

// postgresConfig is of a server with its own port, so that its address stays the same over its restarts. It syncs what is
// committed, as the service's promises want it.
func postgresConfig(dir string, port, processes int) pgserver.Config {
	return pgserver.Config{
		Dir: filepath.Join(dir, "postgres"), Port: port, Log: zerolog.Nop(),
		Settings: map[string]string{"max_connections": strconv.Itoa(connsPerProcess * (processes + 1))},
	}
}

// postgres is a PostgreSQL from one start to its end.
type postgres struct{ server *pgserver.Server }

// launchPostgres starts the server; after a kill -9 it recovers.
func launchPostgres(ctx context.Context, config pgserver.Config) (postgres, error) {
	server, err := pgserver.Start(ctx, config)
	return postgres{server}, err
}

// Done is closed when the server has ended.
func (p postgres) Done() <-chan struct{} { return p.server.Done() }

// Kill kills the postmaster; its backends end when they see that, or before the next start.
func (p postgres) Kill() error {
	if err := syscall.Kill(p.server.PID(), syscall.SIGKILL); err != nil {
		return err
	}
	<-p.server.Done()
	return nil
}

// End stops the server.
func (p postgres) End() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_ = p.server.Stop(ctx) // its data is thrown away
}

// Why says how the server ended.
func (p postgres) Why() string {
	if err := p.server.Err(); err != nil {
		return err.Error()
	}
	return "stopped"
}
