package main

import (
	"context"
	"errors"
	"time"

	"parley/scripts/bench/internal/machine"
	"parley/scripts/bench/internal/model"
	"parley/scripts/bench/internal/report"
	day "parley/scripts/bench/internal/soak"
)

// soakFlags say what goes through while memory is looked at.
type soakFlags struct {
	SoakRuns    int           `name:"soak-runs" default:"86400" help:"Requests: as many as a day has seconds."`
	SoakAgents  int           `name:"soak-agents" default:"200" help:"Agents that they are for."`
	SoakClients int           `name:"soak-clients" default:"32" help:"Clients, each with one request at a time."`
	SoakKept    time.Duration `name:"soak-kept" default:"5s" help:"How long results are kept, before they are made to have expired and the sweeper erases them."`
}

func (s *soakFlags) check() error {
	if s.SoakRuns < 100 || s.SoakAgents < 1 || s.SoakClients < 1 || s.SoakKept <= 0 {
		return errors.New("--soak-runs must be 100 at least, --soak-agents, --soak-clients and --soak-kept above zero")
	}
	return nil
}

func (s *soakFlags) measure(ctx context.Context, o *options, r *report.Report) error {
	return o.alone(ctx, "soak", r, func(on stage) error { return s.measureOn(ctx, o, on, r) })
}

func (s *soakFlags) measureOn(ctx context.Context, o *options, on stage, r *report.Report) (err error) {
	provider, err := model.Start(ctx, o.self, on.dir, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, provider.Stop()) }()
	service, dsn, err := on.parley(ctx, "soak", provider.Settings())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, service.Stop()) }()
	if _, err := service.Fresh(ctx); err != nil {
		return err
	}
	soaked, err := day.Run(ctx, day.Config{
		Parley: service, DatabaseURL: dsn, Runs: s.SoakRuns, Agents: s.SoakAgents, Clients: s.SoakClients, Kept: s.SoakKept, Progress: sayf,
	})
	if errors.Is(err, machine.ErrNoMemory) {
		sayf("the soak is not made: %v", err)
		return nil
	}
	if err != nil {
		return errors.Join(err, on.servers.Err())
	}
	r.AddSoak(soaked)
	if o.Profile != "" {
		return o.memoryProfiles(ctx, service)
	}
	return nil
}

// soak looks at memory while a day's runs go through.
type soak struct {
	options
	soakFlags
}

// Validate is called by kong.
func (s *soak) Validate() error { return errors.Join(s.options.check(), s.soakFlags.check()) }

// Run measures and writes the report.
func (s *soak) Run(ctx context.Context) error { return s.options.run(ctx, &s.soakFlags) }
