package main

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"parley/scripts/bench/internal/machine"
	"parley/scripts/bench/internal/parley"
	"parley/scripts/bench/internal/report"
	waits "parley/scripts/bench/internal/waiting"
)

// waitingFlags say how clients that wait are measured.
type waitingFlags struct {
	Waiters       int `default:"10000" help:"Requests that wait at one ingress; fewer when the limit of open files does not allow so many."`
	Streams       int `default:"2000" help:"Streams that are open there besides."`
	WaitingRounds int `name:"waiting-rounds" default:"3" help:"Rounds of that, each with new processes."`
}

func (w *waitingFlags) check() error {
	if w.Waiters < 1 || w.Streams < 0 || w.WaitingRounds < 1 {
		return errors.New("--waiters and --waiting-rounds must be above zero, --streams not below")
	}
	return nil
}

func (w *waitingFlags) measure(ctx context.Context, o *options, r *report.Report) error {
	return o.alone(ctx, "waiting", r, func(on stage) error { return w.measureOn(ctx, o, on, r) })
}

func (w *waitingFlags) measureOn(ctx context.Context, o *options, on stage, r *report.Report) error {
	if err := w.fit(); err != nil {
		return err
	}
	c := waits.Config{
		Waiters: w.Waiters, Streams: w.Streams, Rounds: w.WaitingRounds, Command: o.self, LogsDir: on.dir,
		Parley: func(ctx context.Context, round int) (parley.Config, error) {
			dsn, err := on.servers.Database(ctx, fmt.Sprintf("waiting_%d", round))
			return parley.Config{
				Binaries: on.binaries, DatabaseURL: dsn, NATSURL: on.servers.NATSURL(), LogsDir: on.dir, ProfilesDir: on.profiles,
			}, err
		},
		Progress: func(n int, round report.WaitingRound) {
			sayf("waiting, round %d of %d: %d answers, the last one %.1f s after the model's", n, w.WaitingRounds, round.Answers, round.Seconds)
		},
	}
	if o.Profile != "" {
		c.Full = o.memoryProfiles
	}
	sayf("%d waiting requests and %d open streams", w.Waiters, w.Streams)
	outcome, err := waits.Run(ctx, c)
	if err != nil {
		return errors.Join(err, on.servers.Err())
	}
	settings := c.Settings()
	maps.Copy(settings, parley.Overrides)
	r.AddWaiting(report.NewWaiting(w.Waiters, w.Streams, settings, outcome.Parked, outcome.Rounds), outcome.FanOut)
	return nil
}

// fit takes waiters away when there may not be so many connections; all others need one each, too.
func (w *waitingFlags) fit() error {
	allowed, err := machine.FilesAllowed()
	if err != nil {
		return err
	}
	over := waits.Files(w.Waiters, w.Streams) - allowed
	if over <= 0 || over >= w.Waiters { // in vain: the error that follows tells what is needed
		return nil
	}
	w.Waiters -= over
	sayf("%d requests wait, not more, for %d files and connections may be open (ulimit -Hn)", w.Waiters, allowed)
	return nil
}

func (o *options) memoryProfiles(ctx context.Context, p *parley.Parley) error {
	files, err := p.WriteMemoryProfiles(ctx)
	for _, file := range files {
		sayf("all clients wait: %s", file)
	}
	return err
}

// waiting measures clients that wait alone.
type waiting struct {
	options
	waitingFlags
}

// Validate is called by kong.
func (w *waiting) Validate() error { return errors.Join(w.options.check(), w.waitingFlags.check()) }

// Run measures and writes the report.
func (w *waiting) Run(ctx context.Context) error { return w.options.run(ctx, &w.waitingFlags) }
