package main

import (
	"context"
	"errors"

	"parley/scripts/bench/internal/floor"
	"parley/scripts/bench/internal/measure"
	"parley/scripts/bench/internal/parley"
	"parley/scripts/bench/internal/report"
)

// hookFlags say how deliveries to hooks are measured.
type hookFlags struct {
	HookClients []int   `name:"hook-clients" default:"1,64" help:"Numbers of clients that send deliveries, each one at a time."`
	HookRounds  int     `name:"hook-rounds" default:"3" help:"Rounds of each side at each number of clients."`
	HookSeconds float64 `name:"hook-seconds" default:"2" help:"Measured time of a round."`
}

const (
	hookSecret    = "the secret of the bench"
	hooksDatabase = "hooks_parley"
)

func (h *hookFlags) check() error {
	if h.HookRounds < 1 || h.HookSeconds <= 0 || len(h.HookClients) == 0 {
		return errors.New("--hook-rounds and --hook-seconds must be above zero, and --hook-clients must name some")
	}
	return nil
}

func (h *hookFlags) measure(ctx context.Context, o *options, r *report.Report) error {
	return o.alone(ctx, "hooks", r, func(on stage) error { return h.measureOn(ctx, o, on, r) })
}

func (h *hookFlags) measureOn(ctx context.Context, o *options, on stage, r *report.Report) (err error) {
	sides, p, stop, err := h.sides(ctx, o, on)
	defer func() { err = errors.Join(err, stop()) }()
	if err != nil {
		return errors.Join(err, on.servers.Err())
	}
	outcome, err := measure.Run(ctx, measure.Config{
		Clients: h.HookClients, Rounds: h.HookRounds, WarmUp: seconds(h.HookSeconds / 4), Duration: seconds(h.HookSeconds), Command: o.self,
		Progress: func(round int, s report.Sample) {
			sayf("deliveries, %d clients, round %d of %d: %-6s %6.0f a second, p50 %.2f ms, p99 %.2f ms", s.Clients, round, h.HookRounds,
				s.Side, s.Round.RunsPerSecond, s.Round.P50, s.Round.P99)
		},
	}, on.servers, sides)
	if err != nil {
		return errors.Join(err, on.servers.Err())
	}
	r.AddHooks(outcome.Samples)
	return o.closer(ctx, on.servers, p, hooksDatabase, outcome.Answered[report.Parley], r)
}

// sides starts what is compared. stop ends it, also after an error.
func (h *hookFlags) sides(
	ctx context.Context, o *options, on stage,
) (sides []measure.Side, p *parley.Parley, stop func() error, err error) {
	var stops []func() error
	stop = func() error {
		var errs []error
		for _, end := range stops {
			errs = append(errs, end())
		}
		return errors.Join(errs...)
	}
	least, err := on.servers.Database(ctx, "hooks_floor")
	if err != nil {
		return nil, nil, stop, err
	}
	bare, err := floor.StartHooks(ctx, o.self, least, hookSecret, on.dir)
	if err != nil {
		return nil, nil, stop, err
	}
	stops = append(stops, bare.Stop)
	p, _, err = on.parley(ctx, hooksDatabase, map[string]string{"BACKLOG_MAX": "100000000"})
	if err != nil {
		return nil, nil, stop, err
	}
	stops = append(stops, p.Stop)
	load, err := p.Hook(ctx, hookSecret)
	if err == nil {
		err = p.IngressAlone(ctx) // what is measured is the way to the 202: the runs wait
	}
	return []measure.Side{
		{Name: report.Floor, Load: bare.Load(hookSecret), Database: "hooks_floor", Processes: bare},
		{Name: report.Parley, Load: load, Database: hooksDatabase, Processes: p, Allocated: p.Allocated},
	}, p, stop, err
}

// hooks measures deliveries to hooks alone.
type hooks struct {
	options
	hookFlags
}

// Validate is called by kong.
func (h *hooks) Validate() error { return errors.Join(h.options.check(), h.hookFlags.check()) }

// Run measures and writes the report.
func (h *hooks) Run(ctx context.Context) error { return h.options.run(ctx, &h.hookFlags) }
