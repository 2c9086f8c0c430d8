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

// serverPatience is the time limit for starting or stopping a server of this file.
const serverPatience = 2 * time.Minute

// parleyDatabase is the migrated database of PostgresProcess.
const parleyDatabase = "parley"

// PostgresServer is a PostgreSQL server that a test can kill. Unlike the server that the function
// Postgres uses, it syncs commits to disk. Its methods must be called in the test's goroutine.
type PostgresServer struct {
	tb     testing.TB
	config pgserver.Config
	server *pgserver.Server
}

// PostgresProcess starts a private PostgreSQL server on a loopback port, with a migrated database.
func PostgresProcess(tb testing.TB) *PostgresServer {
	tb.Helper()
	p := newPostgresProcess(tb)
	if err := copyCluster(tb.Context(), p.config.Dir); err != nil {
		tb.Fatalf("testkit: %v", err)
	}
	p.Restart()
	return p
}

// EmptyPostgresProcess is the variant of PostgresProcess with an empty database and without
// Parley's roles.
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

// newPostgresProcess returns a server that is not started yet.
func newPostgresProcess(tb testing.TB) *PostgresServer {
	tb.Helper()
	p := &PostgresServer{tb: tb, config: pgserver.Config{
		Dir: tempDir(tb, "postgres"), Port: FreePort(tb), Log: zerolog.New(zerolog.NewTestWriter(tb)).Level(zerolog.WarnLevel),
	}}
	tb.Cleanup(func() {
		if p.server != nil {
			_ = p.server.Stop(context.WithoutCancel(tb.Context())) // the server may have been killed
		}
	})
	return p
}

// DSN returns the URL of the database, which does not change when the server restarts.
func (p *PostgresServer) DSN() string { return p.server.DSN(parleyDatabase) }

// PID is the postmaster's process id.
func (p *PostgresServer) PID() int { return p.server.PID() }

// Kill9 ends the server and all its processes like a crash. If only the postmaster were killed, its
// backends would continue to execute statements until they notice that the postmaster is gone.
func (p *PostgresServer) Kill9() {
	p.tb.Helper()
	postmaster := p.server.PID()
	if err := syscall.Kill(postmaster, syscall.SIGSTOP); err != nil { // a stopped postmaster starts no more backends
		p.tb.Fatalf("testkit: stopping PostgreSQL: %v", err)
	}
	for _, pid := range append(children(postmaster), postmaster) {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			p.tb.Fatalf("testkit: killing PostgreSQL: %v", err)
		}
	}
	<-p.server.Done()
}

// children returns the ids of a process's child processes.
func children(parent int) (pids []int) {
	paths, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range paths {
		stat, err := os.ReadFile(path)
		if err != nil { // the process has ended
			continue
		}
		_, behind, _ := strings.Cut(string(stat), ") ") // PostgreSQL's process names do not contain ") "; state and parent follow
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if fields := strings.Fields(behind); len(fields) > 1 && fields[1] == strconv.Itoa(parent) && pid > 0 {
			pids = append(pids, pid)
		}
	}

	return pids
}

// Term shuts the server down cleanly.
func (p *PostgresServer) Term() {
	p.tb.Helper()
	ctx, cancel := context.WithTimeout(p.tb.Context(), serverPatience)
	defer cancel()
	if err := p.server.Stop(ctx); err != nil {
		p.tb.Fatalf("testkit: %v", err)
	}
}

// Restart starts the server again with the same port and data, after Kill9 or Term.
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

// NATSServer is a nats-server that a test can kill with Kill9 and start again with Restart.
type NATSServer struct {
	*Process

	// URL returns the server's URL, which stays the same when the server restarts.
	URL string
}

// NATSProcess starts a real nats-server with JetStream in dir (empty: a temporary directory) on a
// loopback port. PARLEY_NATS_SERVER contains the program's path; if it is not set, the program is
// built.
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

// NATSWith starts a real nats-server with a configuration file, but on loopback ports and with a
// temporary store. env contains "KEY=value" pairs for the file's variables. The URL contains no
// user.
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

// NATSBinary returns the path of a nats-server: the value of PARLEY_NATS_SERVER, or a program that
// NATSBinary builds.
func NATSBinary(tb testing.TB) string {
	tb.Helper()
	path := os.Getenv("PARLEY_NATS_SERVER")
	if path == "" {
		// nats-server is built from the Go module in the directory tools, which is not part of
		// go.work.
		return build(tb, Root(tb)+"/tools", "github.com/nats-io/nats-server/v2", "", false, "GOWORK=off")
	}
	if _, err := os.Stat(path); err != nil {
		tb.Fatalf("testkit: PARLEY_NATS_SERVER: %v", err)
	}
	return path
}
