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
	// connsPerProcess is the number of connections that the server allows for each process of the
	// service. A process opens fewer. The others are spare, because the connections of a killed
	// process stay open for a moment while its successor connects.
	connsPerProcess = 50
)

// postgresConfig configures a PostgreSQL server on a fixed port, which it keeps after a restart.
// Commits are synchronous, which is the default and which the service's promises require.
func postgresConfig(dir string, port, processes int) pgserver.Config {
	return pgserver.Config{
		Dir: filepath.Join(dir, "postgres"), Port: port, Log: zerolog.Nop(),
		Settings: map[string]string{"max_connections": strconv.Itoa(connsPerProcess * (processes + 1))},
	}
}

// postgres is one process of the PostgreSQL server, from its start to its end.
type postgres struct{ server *pgserver.Server }

// launchPostgres starts the server and waits until it accepts connections. After a kill, the server
// first recovers.
func launchPostgres(ctx context.Context, config pgserver.Config) (postgres, error) {
	server, err := pgserver.Start(ctx, config)
	return postgres{server}, err
}

// Done is closed when the server has ended.
func (p postgres) Done() <-chan struct{} { return p.server.Done() }

// Kill kills the postmaster. The other processes of the server exit when they notice its death, at
// the latest before the next start.
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
	_ = p.server.Stop(ctx) // its data is deleted anyway
}

// Why describes how the server ended.
func (p postgres) Why() string {
	if err := p.server.Err(); err != nil {
		return err.Error()
	}
	return "stopped"
}
