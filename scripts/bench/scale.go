package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"parley/scripts/bench/internal/parley"
	"parley/scripts/bench/internal/report"
	scaling "parley/scripts/bench/internal/scale"
)

// scaleFlags say how several workers are measured.
type scaleFlags struct {
	ScaleWorkers []int         `name:"scale-workers" default:"1,2,4" help:"Numbers of worker processes, rising."`
	ScalePlaces  int           `name:"scale-places" default:"4" help:"Runs that a worker carries out at a time: few, so that these are the limit and not the machine."`
	ScaleAnswer  time.Duration `name:"scale-answer" default:"100ms" help:"Time that the agent's model takes."`
	ScaleRounds  int           `name:"scale-rounds" default:"3" help:"Rounds of each number of workers, and of the flood."`
	ScaleSeconds float64       `name:"scale-seconds" default:"5" help:"Measured time of a round."`
	ScaleQuiet   int           `name:"scale-quiet" default:"6" help:"Clients of an organization that another floods; 0: no flood is measured."`
}

func (s *scaleFlags) check() error {
	switch {
	case len(s.ScaleWorkers) == 0 || s.ScaleWorkers[0] < 1 || !slices.IsSorted(s.ScaleWorkers):
		return errors.New("--scale-workers takes rising numbers above zero")
	case s.ScalePlaces < 1 || s.ScaleRounds < 1 || s.ScaleSeconds <= 0 || s.ScaleAnswer <= 0 || s.ScaleQuiet < 0:
		return errors.New("--scale-places, --scale-answer, --scale-rounds and --scale-seconds must be above zero, --scale-quiet not below")
	}
	return nil
}

func (s *scaleFlags) measure(ctx context.Context, o *options, r *report.Report) error {
	return o.alone(ctx, "scale", r, func(on stage) error { return s.measureOn(ctx, o, on, r) })
}

func (s *scaleFlags) measureOn(ctx context.Context, o *options, on stage, r *report.Report) error {
	measured, err := scaling.Run(ctx, scaling.Config{
		Workers: s.ScaleWorkers, Places: s.ScalePlaces, Answer: s.ScaleAnswer, Rounds: s.ScaleRounds, WarmUp: seconds(s.ScaleSeconds / 4),
		Duration: seconds(s.ScaleSeconds), Quiet: s.ScaleQuiet, Command: o.self, LogsDir: on.dir, Progress: sayf,
		Parley: func(ctx context.Context, name string) (parley.Config, error) {
			dsn, err := on.servers.Database(ctx, name)
			return parley.Config{Binaries: on.binaries, DatabaseURL: dsn, NATSURL: on.servers.NATSURL(), LogsDir: on.dir}, err
		},
	})
	if err != nil {
		return errors.Join(err, on.servers.Err())
	}
	r.AddScale(measured)
	return nil
}

// scale measures several workers alone.
type scale struct {
	options
	scaleFlags
}

// Validate is called by kong.
func (s *scale) Validate() error { return errors.Join(s.options.check(), s.scaleFlags.check()) }

// Run measures and writes the report.
func (s *scale) Run(ctx context.Context) error { return s.options.run(ctx, &s.scaleFlags) }
