//go:build containers

package testkit

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/modules/nats"
	"github.com/testcontainers/testcontainers-go/modules/postgres"
	"github.com/testcontainers/testcontainers-go/wait"
)

// configuredPostgres returns TEST_DATABASE_URL. If that is not set, it returns the URL of a server
// in a container, which is started once per test process.
var configuredPostgres = sync.OnceValues(func() (string, error) {
	if dsn := os.Getenv("TEST_DATABASE_URL"); dsn != "" {
		return dsn, nil
	}
	ctx := context.Background()
	at, err := publishedAt(ctx)
	if err != nil {
		return "", err
	}
	server, err := postgres.Run(ctx, image("PARLEY_TEST_POSTGRES_IMAGE", "postgres:17-alpine"), published("5432/tcp", at),
		postgres.WithUsername("parley"), postgres.WithPassword("parley"), postgres.WithDatabase("parley"),
		testcontainers.WithCmdArgs("-c", "fsync=off", "-c", "max_connections=400"),
		testcontainers.WithWaitStrategyAndDeadline(setUpWithin, wait.ForSQL("5432/tcp", "postgres", containerDSN)))
	if err != nil {
		return "", fmt.Errorf("starting PostgreSQL in a container: %w", err)
	}
	if err := removeAtEnd(server); err != nil {
		return "", err
	}
	return server.ConnectionString(ctx, "sslmode=disable")
})

// configuredNATS returns TEST_NATS_URL. If that is not set, it returns the URL of a server in a
// container, which is started once per test process.
var configuredNATS = sync.OnceValues(func() (string, error) {
	if url := os.Getenv("TEST_NATS_URL"); url != "" {
		return url, nil
	}
	ctx := context.Background()
	at, err := publishedAt(ctx)
	if err != nil {
		return "", err
	}
	server, err := nats.Run(ctx, image("PARLEY_TEST_NATS_IMAGE", "nats:2.12-alpine"), published("4222/tcp", at),
		testcontainers.WithCmd("-js"),
		testcontainers.WithWaitStrategyAndDeadline(setUpWithin, wait.ForLog("Server is ready")))
	if err != nil {
		return "", fmt.Errorf("starting NATS in a container: %w", err)
	}
	if err := removeAtEnd(server); err != nil {
		return "", err
	}
	return server.ConnectionString(ctx)
})

// publishedAt returns the IP address on which containers publish their ports: loopback, unless the
// container engine is on another machine.
func publishedAt(ctx context.Context) (netip.Addr, error) {
	engine, err := testcontainers.NewDockerProvider()
	if err != nil {
		return netip.Addr{}, fmt.Errorf("finding the container engine: %w", err)
	}

	defer func() { _ = engine.Close() }() // the engine was only queried
	host, err := engine.DaemonHost(ctx)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("resolving the container engine's host: %w", err)
	}

	if host == "localhost" || host == "127.0.0.1" {
		return netip.AddrFrom4([4]byte{127, 0, 0, 1}), nil
	}

	return netip.IPv4Unspecified(), nil
}

// published returns the option that publishes a port on only one IP address. Without this option,
// an engine may choose different ports for IPv4 and IPv6, and clients may connect to either port.
func published(port string, at netip.Addr) testcontainers.CustomizeRequestOption {
	return testcontainers.WithHostConfigModifier(func(host *container.HostConfig) {
		host.PortBindings = network.PortMap{network.MustParsePort(port): {{HostIP: at}}}
	})
}

func containerDSN(host string, port network.Port) string {
	return "postgres://parley:parley@" + net.JoinHostPort(host, port.Port()) + "/parley?sslmode=disable"
}

// image returns the container image named in an environment variable, or the default image.
func image(key, usual string) string {
	if named := os.Getenv(key); named != "" {
		return named
	}
	return usual
}

// removeAtEnd makes the reaper script remove a container after this process has ended. The reaper
// of testcontainers also does this, if its image is available.
func removeAtEnd(c testcontainers.Container) error {
	own, err := ownResources()
	if err != nil {
		return err
	}
	script := "docker rm --force --volumes " + c.GetContainerID() + " >/dev/null 2>&1\n"
	if err := os.WriteFile(filepath.Join(own.dir, c.GetContainerID()+".end"), []byte(script), 0o600); err != nil {
		return fmt.Errorf("recording container for removal: %w", err)
	}
	return nil
}
