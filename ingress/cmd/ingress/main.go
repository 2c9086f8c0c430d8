// Command ingress runs Parley's HTTP edge with existing NATS and PostgreSQL servers. It needs at
// least one worker process, because it executes no runs itself. Any number of ingress processes can
// serve the same database. Settings come from flags or environment variables; --help lists them.
// The command does not create or migrate the database. It exits with 1 after an error, and with 0
// after a signal.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/alecthomas/kong"

	"parley/ingress"
	"parley/shared/config"
	"parley/shared/connect"
	"parley/shared/lifecycle"
	"parley/shared/telemetry"
	"parley/shared/telemetry/tracing"
)

// databaseConns is the maximum number of database connections of one ingress process. Few
// connections suffice, because one statement serves many concurrent requests.
const databaseConns = 16

// flags are the settings of the command. Flags take precedence over environment variables.
type flags struct {
	config.Servers
	config.Logging
	config.Telemetry
	config.Runs
	config.Secrets
	config.Documents
	config.Outbound
	config.Ingress
	OpenAIBaseURL string `name:"openai-base-url" env:"OPENAI_BASE_URL" help:"The address of the OpenAI-compatible service that the workers use. If it is set, agents may have model settings that OpenAI's own models reject."`

	Probe string `name:"probe" help:"Request this address once, such as http://127.0.0.1:8080/readyz, and exit with 0 if it answers with 200; for container health checks."`
}

// main runs the ingress until a signal ends it. Errors are printed to the standard error output.
func main() {
	var f flags
	kong.Parse(&f, kong.Name("ingress"), kong.Description("Parley's HTTP edge."))
	ctx, stop := lifecycle.Context(context.Background())
	defer stop()
	lifecycle.CollectSeldom(ctx)
	if err := run(ctx, f); err != nil {
		fmt.Fprintln(os.Stderr, "ingress:", err)
		os.Exit(1) //nolint:gocritic // the process ends, so nothing needs to be released
	}
}

// run connects to the servers and serves until ctx ends. With the flag --probe it does not serve:
// it sends one request to a running ingress. When ctx ends, the requests in progress are drained
// before run returns; see Ingress.Run. After all requests have ended, run closes the connections in
// the reverse order of opening.
func run(ctx context.Context, f flags) error {
	if f.Probe != "" {
		return lifecycle.Probe(ctx, f.Probe)
	}

	// Open the tracer first, because the connections report their statements and messages to it.
	log := telemetry.Logger(f.Logging, "ingress")
	telemetry.WarnOfRemovedSettings(log)
	tracer, err := tracing.Open(ctx, f.Telemetry, "parley-ingress", log)
	if err != nil {
		return err
	}
	defer tracer.Close(ctx)
	servers, err := connect.Open(f.Servers, f.Secrets, "parley-ingress", databaseConns, tracer, log)
	if err != nil {
		return err
	}
	defer servers.Close()
	in, err := ingress.New(ingress.Config{
		Runs: f.Runs, Secrets: f.Secrets, Documents: f.Documents, Outbound: f.Outbound, Ingress: f.Ingress,
		OpenAIBaseURL: f.OpenAIBaseURL,
	},
		ingress.Deps{Store: servers.Store, Bus: servers.Bus, Log: log, Metrics: servers.Metrics(true), Tracer: tracer})
	if err != nil {
		return err
	}
	return in.Run(ctx)
}
