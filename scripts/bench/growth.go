package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/rs/zerolog"

	much "parley/scripts/bench/internal/growth"
	"parley/scripts/bench/internal/parley"
	"parley/scripts/bench/internal/report"
	"parley/scripts/bench/internal/servers"
)

// growthFlags say how it is measured what a run costs where there were many.
type growthFlags struct {
	GrowthSmall         int     `name:"growth-small" default:"10000" help:"Finished runs that the one side has, of one organization."`
	GrowthSizes         []int   `name:"growth-sizes" default:"100000,1000000" help:"Finished runs that the other side has, one after the other."`
	GrowthOrganizations int     `name:"growth-organizations" default:"10000" help:"Organizations of the other side, each with an agent."`
	GrowthClients       []int   `name:"growth-clients" default:"1,16" help:"Numbers of clients, each with one request at a time."`
	GrowthRounds        int     `name:"growth-rounds" default:"3" help:"Rounds of each side, in turn."`
	GrowthSeconds       float64 `name:"growth-seconds" default:"1.5" help:"Measured time of a round."`
	GrowthLists         int     `name:"growth-lists" default:"100" help:"Lists of runs that are asked for in a round."`
	GrowthExpired       int     `name:"growth-expired" default:"200000" help:"Runs that expire at once; 0: erasing is not measured."`
}

func (g *growthFlags) check() error {
	if g.GrowthSmall < 20 || len(g.GrowthSizes) == 0 || !slices.IsSorted(g.GrowthSizes) || g.GrowthSizes[0] < 2*g.GrowthSmall {
		return errors.New("--growth-small must be 20 at least, and --growth-sizes rise from twice that on")
	}
	if g.GrowthOrganizations < 1 || len(g.GrowthClients) == 0 || slices.Min(g.GrowthClients) < 1 {
		return errors.New("--growth-organizations and --growth-clients must be above zero")
	}
	if g.GrowthRounds < 1 || g.GrowthSeconds <= 0 || g.GrowthLists < 1 || g.GrowthExpired < 0 {
		return errors.New("--growth-rounds, --growth-seconds and --growth-lists must be above zero, --growth-expired not below")
	}
	return nil
}

func (g *growthFlags) measure(ctx context.Context, o *options, r *report.Report) error {
	return o.alone(ctx, "growth", r, func(on stage) error { return g.measureOn(ctx, o, on, r) })
}

func (g *growthFlags) measureOn(ctx context.Context, o *options, on stage, r *report.Report) error {
	measured, err := much.Run(ctx, much.Config{
		Servers: on.servers, Small: g.GrowthSmall, Sizes: g.GrowthSizes, Organizations: g.GrowthOrganizations, Clients: g.GrowthClients,
		Rounds: g.GrowthRounds, WarmUp: seconds(g.GrowthSeconds / 3), Duration: seconds(g.GrowthSeconds), Requests: g.GrowthLists,
		Expired: g.GrowthExpired, Command: o.self, Progress: sayf,
		Start: func(ctx context.Context, name string) (*parley.Parley, string, error) {
			return g.start(ctx, o, on, name)
		},
	})
	if err != nil {
		return errors.Join(err, on.servers.Err())
	}
	r.AddGrowth(measured)
	return nil
}

// start starts a deployment with a database, a nats-server and logs of its own, whose worker does not sweep.
func (*growthFlags) start(ctx context.Context, o *options, on stage, name string) (*parley.Parley, string, error) {
	dsn, err := on.servers.Database(ctx, "growth_"+name)
	if err != nil {
		return nil, "", err
	}
	natsURL, err := on.servers.AnotherNATS(ctx, servers.Config{Dir: on.dir, NATS: o.nats, Log: zerolog.Nop()}, "nats-"+name)
	if err != nil {
		return nil, "", err
	}
	logs := filepath.Join(on.dir, name)
	if err := os.MkdirAll(logs, 0o750); err != nil {
		return nil, "", fmt.Errorf("making directory: %w", err)
	}
	p, err := parley.Start(ctx, parley.Config{
		Binaries: on.binaries, DatabaseURL: dsn, NATSURL: natsURL, LogsDir: logs, ProfilesDir: on.profiles, Roles: "agent,tool",
	})
	return p, dsn, err
}

// growth measures what a run costs where there were many, alone.
type growth struct {
	options
	growthFlags
}

// Validate is called by kong.
func (g *growth) Validate() error { return errors.Join(g.options.check(), g.growthFlags.check()) }

// Run measures and writes the report.
func (g *growth) Run(ctx context.Context) error { return g.options.run(ctx, &g.growthFlags) }
