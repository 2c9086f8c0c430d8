package testkit

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"parley/shared/store/pgserver"
)

// serverPatience bounds the start and the stop of a server that a test kills.
const serverPatience = 2 * time.Minute

// parleyDatabase is what PostgresProcess has migrated.
const parleyDatabase = "parley"

// PostgresServer is a PostgreSQL for a test to kill; unlike that of Postgres it syncs
// what is committed. Its methods are for the test's own goroutine.
type PostgresServer struct {
	tb     testing.TB
	config pgserver.Config
	server *pgserver.Server
}

// PostgresProcess starts a PostgreSQL of this test's own on a loopback port, with a
// migrated database.
func PostgresProcess(tb testing.TB) *PostgresServer {
	tb.Helper()
	p := newPostgresProcess(tb)
	if err := copyCluster(tb.Context(), p.config.Dir); err != nil {
		tb.Fatalf("testkit: %v", err)
	}
	p.Restart()
	return p
}

// EmptyPostgresProcess is PostgresProcess with nothing in the database, and none of
// Parley's roles on the server.
func EmptyPostgresProcess(tb testing.TB) *PostgresServer {
	tb.Helper()
	p := newPostgresProcess(tb)
	p.Restart()
	ctx, cancel := context.WithTimeout(tb.Context(), serverPatience)
	defer cancel()
	if err := p.server.CreateDatabase(ctx, parleyDatabase); err != nil {
		tb.Fatalf("testkit: %v", err)
	}
	return p
}

// newPostgresProcess is one that is not started yet.
func newPostgresProcess(tb testing.TB) *PostgresServer {
	tb.Helper()
	p := &PostgresServer{tb: tb, config: pgserver.Config{
		Dir: tempDir(tb, "postgres"), Port: FreePort(tb), Log: zerolog.New(zerolog.NewTestWriter(tb)).Level(zerolog.WarnLevel),
	}}
	tb.Cleanup(func() {
		if p.server != nil {
			_ = p.server.Stop(context.WithoutCancel(tb.Context())) // it may have been killed
		}
	})
	return p
}

// DSN is the URL of the migrated database; it stays the same over restarts.
func (p *PostgresServer) DSN() string { return p.server.DSN(parleyDatabase) }

// PID is the postmaster's process id.
func (p *PostgresServer) PID() int { return p.server.PID() }

// Kill9 ends the server as a crash would, with all its processes: those of a postmaster that is killed alone go on until they look for
// it, and carry out what they are sent by then.
func (p *PostgresServer) Kill9() {
	p.tb.Helper()
	postmaster := p.server.PID()
	if err := syscall.Kill(postmaster, syscall.SIGSTOP); err != nil { // it makes no more of them
		p.tb.Fatalf("testkit: stopping PostgreSQL: %v", err)
	}
	for _, pid := range append(children(postmaster), postmaster) {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			p.tb.Fatalf("testkit: killing PostgreSQL: %v", err)
		}
	}
	<-p.server.Done()
}

// children finds the processes that one has started.
func children(parent int) (pids []int) {
	paths, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range paths {
		stat, err := os.ReadFile(path)
		if err != nil { // it has ended
			continue
		}
		_, behind, _ := strings.Cut(string(stat), ") ") // PostgreSQL's names have none: the state comes next, and the parent
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if fields := strings.Fields(behind); len(fields) > 1 && fields[1] == strconv.Itoa(parent) && pid > 0 {
			pids = append(pids, pid)
		}
	}
	return pids
}

// Term shuts the server down in order.
func (p *PostgresServer) Term() {
	p.tb.Helper()
	ctx, cancel := context.WithTimeout(p.tb.Context(), serverPatience)
	defer cancel()
	if err := p.server.Stop(ctx); err != nil {
		p.tb.Fatalf("testkit: %v", err)
	}
}

// Restart starts the server again, on the same port and data, after Kill9 or Term.
func (p *PostgresServer) Restart() {
	p.tb.Helper()
	ctx, cancel := context.WithTimeout(p.tb.Context(), serverPatience)
	defer cancel()
	server, err := pgserver.Start(ctx, p.config)
	if err != nil {
		p.tb.Fatalf("testkit: starting PostgreSQL: %v", err)
	}
	p.server = server
}

// NATSServer is a nats-server for a test to kill: Kill9, then Restart.
type NATSServer struct {
	*Process

	// URL stays the same over restarts.
	URL string
}

// NATSProcess starts a real nats-server with JetStream in dir - one of this test's own
// when empty - on a loopback port. The program is the one that PARLEY_NATS_SERVER names,
// or it is built.
func NATSProcess(tb testing.TB, dir string) *NATSServer {
	tb.Helper()
	if dir == "" {
		dir = tempDir(tb, "jetstream")
	}
	port := strconv.Itoa(FreePort(tb))
	process := StartProcess(tb, Command{
		Name: "nats-server", Path: NATSBinary(tb),
		Args:      []string{"--addr", "127.0.0.1", "--port", port, "--jetstream", "--store_dir", dir},
		ReadyLine: "Server is ready",
	})
	return &NATSServer{Process: process, URL: "nats://127.0.0.1:" + port}
}

// NATSWith starts a real nats-server with a configuration file, whose addresses and store give way to loopback ports and a folder of
// this test's own. env is what the file's variables are, as in "KEY=value"; its URL names no user.
func NATSWith(tb testing.TB, config string, env []string, args ...string) *NATSServer {
	tb.Helper()
	port := strconv.Itoa(FreePort(tb))
	process := StartProcess(tb, Command{
		Name: "nats-server", Path: NATSBinary(tb), Env: env,
		Args: append([]string{
			"--config", config, "--addr", "127.0.0.1", "--port", port, "--http_port", strconv.Itoa(FreePort(tb)),
			"--store_dir", tempDir(tb, "jetstream"),
		}, args...),
		ReadyLine: "Server is ready",
	})
	return &NATSServer{Process: process, URL: "nats://127.0.0.1:" + port}
}

// NATSBinary is the path of a nats-server: the one that PARLEY_NATS_SERVER names, or it is built.
func NATSBinary(tb testing.TB) string {
	tb.Helper()
	path := os.Getenv("PARLEY_NATS_SERVER")
	if path == "" {
		// From the module of tools, which stands outside of go.work.
		return build(tb, Root(tb)+"/tools", "github.com/nats-io/nats-server/v2", "", false, "GOWORK=off")
	}
	if _, err := os.Stat(path); err != nil {
		tb.Fatalf("testkit: PARLEY_NATS_SERVER: %v", err)
	}
	return path
}
