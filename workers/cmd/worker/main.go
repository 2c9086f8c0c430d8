// Command worker runs the workers of Parley in production. It executes the configured roles and
// uses existing NATS and PostgreSQL servers.
package main

import (
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/alecthomas/kong"

	"parley/shared/config"
	"parley/shared/connect"
	"parley/shared/lifecycle"
	"parley/shared/telemetry"
	"parley/shared/telemetry/tracing"
	"parley/workers"
)

// databaseConns is the maximum number of a worker's database connections. Claims, results,
// heartbeats and the sweeper batch their statements, so a few connections are enough for many runs.
const databaseConns = 12

// flags contains the command line flags. Each flag can also be set by an environment variable.
type flags struct {
	config.Servers
	config.Logging
	config.Telemetry
	config.Runs
	config.Secrets
	config.Documents
	config.Workers
	Roles []workers.Role `name:"roles" env:"ROLES" default:"agent,tool,ingest,sweep,voice,notify" help:"Roles of this worker: agent, tool, ingest, sweep, voice, notify."`
	Probe string         `name:"probe" help:"Request this address once, such as http://127.0.0.1:9090/readyz, and exit with 0 if it answers with 200; for container health checks."`
}

// main starts the worker. If a worker has started this process as its document reader, main reads
// the document instead.
func main() {
	// This must be the first statement: a reader in a sandbox must not parse flags or read
	// settings.
	workers.Extractor()
	var f flags
	kong.Parse(&f, kong.Name("worker"), kong.Description("Executes Parley's runs."))
	ctx, stop := lifecycle.Context(context.Background())
	defer stop()
	lifecycle.CollectSeldom(ctx)
	if err := run(ctx, f); err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1) //nolint:gocritic // the process exits here, so skipped deferred calls do no harm
	}
}

// run executes the roles until ctx ends. It connects to the servers, and closes the connections
// after all roles have stopped.
func run(ctx context.Context, f flags) error {
	// A probe only sends a request to a running worker, so it must work without the settings of a
	// worker.
	if f.Probe != "" {
		return lifecycle.Probe(ctx, f.Probe)
	}
	log := telemetry.Logger(f.Logging, "worker")
	telemetry.WarnOfRemovedSettings(log)
	tracer, err := tracing.Open(ctx, f.Telemetry, "parley-worker", log)
	if err != nil {
		return err
	}
	defer tracer.Close(ctx)

	servers, err := connect.Open(f.Servers, f.Secrets, "parley-worker", databaseConns, tracer, log)
	if err != nil {
		return err
	}
	defer servers.Close()

	w, err := workers.New(workers.Config{ //nolint:contextcheck // New limits the time of its own operations
		Runs: f.Runs, Secrets: f.Secrets, Documents: f.Documents, Workers: f.Workers, Telemetry: f.Telemetry,
		Roles: f.Roles, OwnPorts: f.Servers.Ports(),
	}, workers.Deps{
		Store: servers.Store, Bus: servers.Bus, Log: log, Tracer: tracer,
		Metrics: servers.Metrics(slices.Contains(f.Roles, workers.RoleSweep)),
	})
	if err != nil {
		return err
	}
	return w.Run(ctx)
}
