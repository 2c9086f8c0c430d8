// Command containers runs a command, such as the tests, against PostgreSQL and NATS in
// containers: it starts both by testcontainers, names them in TEST_DATABASE_URL and
// TEST_NATS_URL, and exits as the command does. PARLEY_TEST_POSTGRES_IMAGE and
// PARLEY_TEST_NATS_IMAGE name other images than the usual ones.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	_ "github.com/lib/pq" // the driver that the wait for PostgreSQL uses
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/modules/nats"
	"github.com/testcontainers/testcontainers-go/modules/postgres"
	"github.com/testcontainers/testcontainers-go/wait"
)

// ready is how long a container may take to answer, its download apart.
const ready = 2 * time.Minute

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: containers COMMAND [ARGUMENT…]")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		os.Exit(failed.ExitCode())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "containers:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, command []string) (err error) {
	at, err := address(ctx)
	if err != nil {
		return fmt.Errorf("asking where the engine is: %w", err)
	}
	pg, err := postgres.Run(ctx, image("PARLEY_TEST_POSTGRES_IMAGE", "postgres:17-alpine"), published("5432/tcp", at),
		postgres.WithUsername("parley"), postgres.WithPassword("parley"), postgres.WithDatabase("parley"),
		testcontainers.WithCmdArgs("-c", "fsync=off", "-c", "max_connections=400"),
		testcontainers.WithWaitStrategyAndDeadline(ready, wait.ForSQL("5432/tcp", "postgres", dsn)))
	defer func() { err = errors.Join(err, testcontainers.TerminateContainer(pg)) }()
	if err != nil {
		return fmt.Errorf("starting PostgreSQL: %w", err)
	}
	bus, err := nats.Run(ctx, image("PARLEY_TEST_NATS_IMAGE", "nats:2.12-alpine"), published("4222/tcp", at),
		testcontainers.WithCmd("-js"),
		testcontainers.WithWaitStrategyAndDeadline(ready, wait.ForLog("Server is ready")))
	defer func() { err = errors.Join(err, testcontainers.TerminateContainer(bus)) }()
	if err != nil {
		return fmt.Errorf("starting NATS: %w", err)
	}
	database, err := pg.ConnectionString(ctx, "sslmode=disable")
	if err != nil {
		return fmt.Errorf("asking for PostgreSQL's address: %w", err)
	}
	url, err := bus.ConnectionString(ctx)
	if err != nil {
		return fmt.Errorf("asking for NATS's address: %w", err)
	}
	tests := exec.CommandContext(ctx, command[0], command[1:]...) //nolint:gosec // G702: running what it is told to is the command's use
	tests.Env = append(os.Environ(), "TEST_DATABASE_URL="+database, "TEST_NATS_URL="+url)
	tests.Stdin, tests.Stdout, tests.Stderr = os.Stdin, os.Stdout, os.Stderr
	return tests.Run()
}

// address is the one that ports are published at: this machine's own, unless the engine is elsewhere.
func address(ctx context.Context) (netip.Addr, error) {
	engine, err := testcontainers.NewDockerProvider()
	if err != nil {
		return netip.Addr{}, err
	}
	host, err := engine.DaemonHost(ctx)
	if err = errors.Join(err, engine.Close()); err != nil {
		return netip.Addr{}, err
	}
	if host == "localhost" || host == "127.0.0.1" {
		return netip.AddrFrom4([4]byte{127, 0, 0, 1}), nil
	}
	return netip.IPv4Unspecified(), nil
}

// published gives a port one number at an address. Left to itself, an engine may give another one for IPv6, and which of both is asked
// for is left to chance.
func published(port string, at netip.Addr) testcontainers.CustomizeRequestOption {
	return testcontainers.WithHostConfigModifier(func(host *container.HostConfig) {
		host.PortBindings = network.PortMap{network.MustParsePort(port): {{HostIP: at}}}
	})
}

func dsn(host string, port network.Port) string {
	return "postgres://parley:parley@" + net.JoinHostPort(host, port.Port()) + "/parley?sslmode=disable"
}

// image is the usual one, or what the environment names instead.
func image(key, usual string) string {
	if named := os.Getenv(key); named != "" {
		return named
	}
	return usual
}
