package standalone

import (
	"context"
	"errors"
	"slices"

	"github.com/rs/zerolog"

	"parley/deploy/standalone/internal/console"
	"parley/ingress"
	"parley/shared/config"
	"parley/shared/connect"
	"parley/shared/lifecycle"
	"parley/shared/telemetry"
	"parley/shared/telemetry/tracing"
	"parley/workers"
)

// roleIngress is the role of the ingress. All other roles are roles of workers.
const roleIngress = "ingress"

// Serve is the command that runs selected roles with existing servers. Production deployments use
// it, or the separate programs of the ingress and the workers.
type Serve struct {
	config.Servers
	config.Logging
	config.Telemetry
	config.Runs
	config.Secrets
	config.Documents
	config.Ingress
	config.Workers
	Roles []string `name:"roles" env:"ROLES" default:"ingress,agent,tool,ingest,sweep,voice,notify" enum:"ingress,agent,tool,ingest,sweep,voice,notify" help:"Parts to run: ${enum}."`
}

// Help returns the description for the manual page of the command.
func (*Serve) Help() string {
	return `Starts the parts in --roles against existing PostgreSQL and NATS servers, and runs until Ctrl-C or SIGTERM, after which it exits with 0. The database must have this release's schema: run parley migrate first. No demo data is created.`
}

// Examples returns the examples on the manual page of the command.
func (*Serve) Examples() string {
	return `export DATABASE_URL=postgres://parley@db/parley NATS_URL=nats://bus:4222
parley serve --roles ingress
parley serve --roles agent,tool,ingest,sweep,voice,notify`
}

// Run serves the selected roles until ctx ends, and stops them gracefully, the ingress first.
func (s *Serve) Run(ctx context.Context) error {
	lifecycle.CollectSeldom(ctx)
	log := telemetry.Logger(s.Logging, "parley")
	telemetry.WarnOfRemovedSettings(log)
	tracer, err := tracing.Open(ctx, s.Telemetry, "parley", log)
	if err != nil {
		return err
	}
	defer tracer.Close(ctx)

	servers, err := connect.Open(s.Servers, s.Secrets, "parley", databaseConns, tracer, log)
	if err != nil {
		return err
	}
	defer servers.Close()

	var group lifecycle.Group
	group.StopTimeout = s.StopGrace + 3*stopTime
	if err := s.add(&group, servers, tracer, log); err != nil { //nolint:contextcheck // it has its own timeouts
		return err
	}
	return group.Run(ctx)
}

// add adds the selected roles of the workers and then the ingress to the group. The group stops its
// members in reverse order, so the ingress stops first.
func (s *Serve) add(group *lifecycle.Group, servers *connect.Servers, tracer *tracing.Tracer, log zerolog.Logger) error {
	var roles []workers.Role
	for _, role := range s.Roles {
		if role == roleIngress {
			continue
		}
		roles = append(roles, workers.Role(role))
	}

	if len(s.Roles) == 0 {
		return config.Invalid(errors.New("ROLES is empty"))
	}

	metrics := servers.Metrics(slices.Contains(s.Roles, roleIngress) || slices.Contains(roles, workers.RoleSweep))
	if len(roles) > 0 {
		w, err := workers.New(workers.Config{
			Runs: s.Runs, Secrets: s.Secrets, Documents: s.Documents, Workers: s.Workers, Telemetry: s.Telemetry,
			Roles: roles, OwnPorts: s.ownPorts(),
		}, workers.Deps{Store: servers.Store, Bus: servers.Bus, Log: log, Metrics: metrics, Tracer: tracer})
		if err != nil {
			return err
		}
		group.Add("workers", w.Run)
	}
	if slices.Contains(s.Roles, roleIngress) {
		in, err := ingress.New(ingress.Config{
			Runs: s.Runs, Secrets: s.Secrets, Documents: s.Documents, Outbound: s.Outbound, Ingress: s.Ingress,
			OpenAIBaseURL: s.OpenAIBaseURL,
		},
			ingress.Deps{Store: servers.Store, Bus: servers.Bus, Log: log, Metrics: metrics, Tracer: tracer})
		if err != nil {
			return err
		}
		group.Add("ingress", in.Run)
	}
	return nil
}

// ownPorts returns the service's ports on this machine, as far as they are known from the settings.
func (s *Serve) ownPorts() []int {
	ports := s.Servers.Ports()
	if slices.Contains(s.Roles, roleIngress) && s.Port > 0 {
		ports = append(ports, s.Port)
	}
	return ports
}

// Migrate is the command that migrates a database to this release's schema. It runs before the
// first process of a new release starts. The user in DatabaseURL must own the schema.
type Migrate struct {
	DatabaseURL string `name:"database-url" env:"DATABASE_URL" required:"" help:"The database to migrate, as a postgres:// URL."`
	JSON        bool   `name:"json" help:"Print JSON and no progress."`
}

// Help returns the description for the manual page of the command.
func (*Migrate) Help() string {
	return `Applies missing migrations, each in a transaction, and stores this release's templates and the sample documents of the demo. Repeating the command changes nothing; if two run simultaneously, the second waits for the first. The previous release may keep running meanwhile.

parley up also migrates when it starts.`
}

// Examples returns the examples on the manual page of the command.
func (*Migrate) Examples() string {
	return `DATABASE_URL=postgres://owner@db/parley parley migrate`
}

// Run migrates the schema, and stores this release's templates and sample documents. It may be
// repeated. Processes of the previous release may run meanwhile.
func (m *Migrate) Run(ctx context.Context, con *console.Console) error {
	progress := con.Progress(m.JSON, "migrating")
	err := migrateDatabase(ctx, m.DatabaseURL)
	progress.Done()
	switch {
	case err != nil:
		return err
	case m.JSON:
		return con.JSON(map[string]bool{"migrated": true})
	default:
		return con.Printf("the database has this release's schema and templates\n")
	}
}
