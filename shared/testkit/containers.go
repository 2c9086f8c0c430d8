//go:build containers

package testkit

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/modules/nats"
	"github.com/testcontainers/testcontainers-go/modules/postgres"
	"github.com/testcontainers/testcontainers-go/wait"
)

// Behind a build tag, for a container engine's client is as large as all the rest together
// and most runs need none of it.

// containerReady is how long an image may take, its download apart.
const containerReady = 2 * time.Minute

func postgresContainer(ctx context.Context) (string, error) {
	container, err := postgres.Run(ctx, image("PARLEY_TEST_POSTGRES_IMAGE", "postgres:17-alpine"),
		postgres.WithUsername("parley"), postgres.WithPassword("parley"), postgres.WithDatabase("parley"),
		testcontainers.WithCmdArgs("-c", "fsync=off", "-c", "max_connections=400"),
		testcontainers.WithWaitStrategyAndDeadline(containerReady, wait.ForListeningPort("5432/tcp")))
	if err := register(container, err); err != nil {
		return "", err
	}
	dsn, err := container.ConnectionString(ctx, "sslmode=disable")
	if err != nil {
		return "", fmt.Errorf("asking for address: %w", err)
	}
	return dsn, awaitAnswer(ctx, dsn)
}

// awaitAnswer waits until the server answers: some images open the port before.
func awaitAnswer(ctx context.Context, dsn string) error {
	ctx, cancel := context.WithTimeout(ctx, containerReady)
	defer cancel()
	db, err := sql.Open("postgres", dsn)
	if err != nil {
		return fmt.Errorf("opening database: %w", err)
	}
	defer db.Close()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := db.PingContext(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("waiting for PostgreSQL: %w", err)
		}
	}
}

func natsContainer(ctx context.Context) (string, error) {
	container, err := nats.Run(ctx, image("PARLEY_TEST_NATS_IMAGE", "nats:2.12-alpine"),
		testcontainers.WithCmd("-js"),
		testcontainers.WithWaitStrategyAndDeadline(containerReady, wait.ForLog("Server is ready")))
	if err := register(container, err); err != nil {
		return "", err
	}
	return container.ConnectionString(ctx)
}

// image is the usual one, or what the environment names instead.
func image(key, usual string) string {
	if named := os.Getenv(key); named != "" {
		return named
	}
	return usual
}

// register tells the reaper of a container, in case the engine's own is switched off.
func register(container testcontainers.Container, err error) error {
	if err != nil {
		if container != nil {
			err = errors.Join(err, testcontainers.TerminateContainer(container))
		}
		return fmt.Errorf("starting container: %w", err)
	}
	own, err := mine()
	if err != nil {
		return err
	}
	dir := filepath.Join(own.dir, "containers")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("recording container: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, container.GetContainerID()), nil, 0o600); err != nil {
		return fmt.Errorf("recording container: %w", err)
	}
	return nil
}
