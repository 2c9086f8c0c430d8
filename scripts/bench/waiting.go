package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"

	"github.com/rs/zerolog"

	"parley/scripts/bench/internal/parley"
	"parley/scripts/bench/internal/report"
	"parley/scripts/bench/internal/servers"
	waits "parley/scripts/bench/internal/waiting"
)

// waitingFlags say how clients that wait are measured.
type waitingFlags struct {
	Waiters       int `default:"2000" help:"Requests that wait at one ingress."`
	Streams       int `default:"2000" help:"Streams that are open there besides."`
	WaitingRounds int `name:"waiting-rounds" default:"3" help:"Rounds of that, each with new processes."`
}

func (w *waitingFlags) check() error {
	if w.Waiters < 1 || w.Streams < 0 || w.WaitingRounds < 1 {
		return errors.New("--waiters and --waiting-rounds must be above zero, --streams not below")
	}
	return nil
}

func (w *waitingFlags) measure(ctx context.Context, o *options, r *report.Report) (err error) {
	dir := filepath.Join(o.Dir, "waiting") // with servers of its own: those of other measurements hold their jobs
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return fmt.Errorf("making directory: %w", err)
	}
	log := zerolog.New(zerolog.ConsoleWriter{Out: os.Stderr}).Level(zerolog.WarnLevel)
	running, err := servers.Start(ctx, servers.Config{Dir: dir, NATS: o.nats, Log: log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, running.Stop(context.WithoutCancel(ctx))) }()
	binaries, err := o.binaries(ctx)
	if err != nil {
		return err
	}
	if r.Setup, err = o.setup(ctx, running, r.Setup); err != nil {
		return err
	}
	c := waits.Config{
		Waiters: w.Waiters, Streams: w.Streams, Rounds: w.WaitingRounds, Command: o.self, LogsDir: dir,
		Parley: func(ctx context.Context, round int) (parley.Config, error) {
			dsn, err := running.Database(ctx, fmt.Sprintf("waiting_%d", round))
			return parley.Config{Binaries: binaries, DatabaseURL: dsn, NATSURL: running.NATSURL(), LogsDir: dir, ProfilesDir: o.Profile}, err
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
		return errors.Join(err, running.Err())
	}
	settings := c.Settings()
	maps.Copy(settings, parley.Overrides)
	r.AddWaiting(report.NewWaiting(w.Waiters, w.Streams, settings, outcome.Parked, outcome.Rounds), outcome.FanOut)
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
