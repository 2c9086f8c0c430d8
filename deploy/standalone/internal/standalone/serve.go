package standalone

import (
	"context"
	"fmt"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"parley/ingress"
	"parley/shared/config"
	"parley/shared/connect"
	"parley/shared/lifecycle"
	"parley/shared/telemetry"
	"parley/workers"
)

const roleIngress = "ingress"

// Serve runs some parts of the service against servers that are already there.
type Serve struct {
	config.Servers
	config.Logging
	config.Runs
	config.Secrets
	config.Documents
	config.Ingress
	config.Workers
	Roles []string `name:"roles" env:"ROLES" default:"ingress,agent,tool,ingest,sweep" help:"Parts to run: ingress, agent, tool, ingest, sweep."`
}

// Run serves until ctx ends.
func (s *Serve) Run(ctx context.Context) error {
	log := telemetry.Logger(s.Logging, "parley")
	servers, err := connect.Open(s.Servers, "parley", databaseConns, log)
	if err != nil {
		return err
	}
	defer servers.Close()
	var group lifecycle.Group
	group.StopTimeout = 3 * stopTime
	if err := s.add(&group, servers, log); err != nil { //nolint:contextcheck // what it opens gives up by itself
		return err
	}
	return group.Run(ctx)
}

// add puts the workers' roles, then the ingress, into the group: the ingress stops first.
func (s *Serve) add(group *lifecycle.Group, servers *connect.Servers, log zerolog.Logger) error {
	var roles []workers.Role
	for _, role := range s.Roles {
		if role == roleIngress {
			continue
		}
		roles = append(roles, workers.Role(role))
	}
	if len(s.Roles) == 0 {
		return fmt.Errorf("ROLES names no role")
	}
	metrics := prometheus.NewRegistry()
	if len(roles) > 0 {
		w, err := workers.New(workers.Config{
			Runs: s.Runs, Secrets: s.Secrets, Documents: s.Documents, Workers: s.Workers, Roles: roles, OwnPorts: s.ownPorts(),
		}, workers.Deps{Store: servers.Store, Bus: servers.Bus, Log: log, Metrics: metrics})
		if err != nil {
			return err
		}
		group.Add("workers", w.Run)
	}
	if slices.Contains(s.Roles, roleIngress) {
		in, err := ingress.New(ingress.Config{Runs: s.Runs, Secrets: s.Secrets, Documents: s.Documents, Ingress: s.Ingress},
			ingress.Deps{Store: servers.Store, Bus: servers.Bus, Log: log, Metrics: metrics})
		if err != nil {
			return err
		}
		group.Add("ingress", in.Run)
	}
	return nil
}

// ownPorts gives the ports of the parts of this service that this process knows of.
func (s *Serve) ownPorts() []int {
	ports := s.Servers.Ports()
	if slices.Contains(s.Roles, roleIngress) && s.Port > 0 {
		ports = append(ports, s.Port)
	}
	return ports
}

// Migrate brings a database to this release's schema.
type Migrate struct {
	DatabaseURL string `name:"database-url" env:"DATABASE_URL" required:"" help:"PostgreSQL to migrate, as a postgres:// URL."`
}

// Run migrates and stores the templates.
func (m *Migrate) Run(ctx context.Context) error {
	if err := prepare(ctx, m.DatabaseURL); err != nil {
		return err
	}
	fmt.Println("the database has this release's schema and templates")
	return nil
}
