package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"parley/scripts/bench/internal/floor"
	"parley/scripts/bench/internal/load"
	"parley/scripts/bench/internal/measure"
	finished "parley/scripts/bench/internal/replay"
	"parley/scripts/bench/internal/report"
)

// replayFlags say how requests are measured whose runs have ended before.
type replayFlags struct {
	ReplayClients []int   `name:"replay-clients" default:"1,16,64" help:"Numbers of clients that ask again, each one request at a time."`
	ReplayRounds  int     `name:"replay-rounds" default:"3" help:"Rounds of each side at each number of clients."`
	ReplaySeconds float64 `name:"replay-seconds" default:"2" help:"Measured time of a round."`
	ReplayKeys    int     `name:"replay-keys" default:"3000" help:"Runs that have ended, any of which is asked for."`
}

const (
	replayDatabase = "replay_parley"
	replayFloor    = "replay_floor"
)

func (f *replayFlags) check() error {
	switch {
	case f.ReplayRounds < 1 || f.ReplaySeconds <= 0 || f.ReplayKeys < 1:
		return errors.New("--replay-rounds, --replay-seconds and --replay-keys must be above zero")
	case len(f.ReplayClients) == 0 || slices.Min(f.ReplayClients) < 1:
		return errors.New("--replay-clients takes numbers above zero")
	}
	return nil
}

func (f *replayFlags) measure(ctx context.Context, o *options, r *report.Report) error {
	return o.alone(ctx, "replay", r, func(on stage) error { return f.measureOn(ctx, o, on, r) })
}

func (f *replayFlags) measureOn(ctx context.Context, o *options, on stage, r *report.Report) (err error) {
	p, dsn, err := on.parley(ctx, replayDatabase, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	spec := f.shared(p.Load())
	sayf("carrying out %d runs, which are then asked for again", f.ReplayKeys)
	ended, err := finished.Make(ctx, p, spec, f.ReplayKeys)
	if err != nil {
		return errors.Join(err, on.servers.Err())
	}
	bare, err := f.floor(ctx, o, on, ended)
	if err != nil {
		return errors.Join(err, on.servers.Err())
	}
	defer func() { err = errors.Join(err, bare.Stop()) }()
	least := bare.Load()
	least.Nonce, least.Keys = spec.Nonce, spec.Keys
	outcome, err := measure.Run(ctx, f.config(o), on.servers, []measure.Side{
		{Name: report.Floor, Load: least, Database: replayFloor, Processes: bare},
		{Name: report.Parley, Load: spec, Database: replayDatabase, Processes: p, Allocated: p.Allocated},
	})
	if err != nil {
		return errors.Join(err, on.servers.Err())
	}
	if err := f.same(ctx, dsn); err != nil {
		return err
	}
	r.AddReplay(outcome.Samples)
	return o.closer(ctx, on.servers, p, replayDatabase, outcome.Answered[report.Parley], r)
}

// shared has requests take any of the keys.
func (f *replayFlags) shared(spec load.Spec) load.Spec {
	spec.Nonce, spec.Keys = rand.Text()[:10], int64(f.ReplayKeys)
	return spec
}

func (f *replayFlags) config(o *options) measure.Config {
	return measure.Config{
		Clients: f.ReplayClients, Rounds: f.ReplayRounds, WarmUp: seconds(f.ReplaySeconds / 4), Duration: seconds(f.ReplaySeconds),
		Command: o.self,
		Progress: func(round int, s report.Sample) {
			sayf("replays, %d clients, round %d of %d: %-6s %6.0f a second, p50 %.2f ms, p99 %.2f ms", s.Clients, round, f.ReplayRounds,
				s.Side, s.Round.RunsPerSecond, s.Round.P50, s.Round.P99)
		},
	}
}

// floor starts the other side, which has the same keys and the same answers.
func (*replayFlags) floor(ctx context.Context, o *options, on stage, ended *finished.Ended) (*floor.Replay, error) {
	dsn, err := on.servers.Database(ctx, replayFloor)
	if err == nil {
		err = floor.StoreAnswers(ctx, dsn, ended.Keys, ended.Answers)
	}
	if err != nil {
		return nil, err
	}
	return floor.StartReplay(ctx, o.self, dsn, on.dir)
}

// same fails when a request that was asked again has made a run.
func (f *replayFlags) same(ctx context.Context, dsn string) error {
	db, err := sql.Open("postgres", dsn)
	if err != nil {
		return fmt.Errorf("opening database of replays: %w", err)
	}
	var n int
	err = db.QueryRowContext(ctx, `SELECT count(*) FROM runs`).Scan(&n)
	if err := errors.Join(err, db.Close()); err != nil {
		return fmt.Errorf("counting runs: %w", err)
	}
	if want := f.ReplayKeys + 1; n != want { // and the agent's first
		return fmt.Errorf("%d runs are there after %d keys were asked again, not %d", n, f.ReplayKeys, want)
	}
	return nil
}

// replay measures requests whose runs have ended before alone.
type replay struct {
	options
	replayFlags
}

// Validate is called by kong.
func (r *replay) Validate() error { return errors.Join(r.options.check(), r.replayFlags.check()) }

// Run measures and writes the report.
func (r *replay) Run(ctx context.Context) error { return r.options.run(ctx, &r.replayFlags) }
