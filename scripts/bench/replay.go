package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"parley/scripts/bench/internal/floor"
	"parley/scripts/bench/internal/load"
	"parley/scripts/bench/internal/parley"
)

// replay measures the throughput and latency of repeated requests. Their runs have finished, so
// Parley reads the results from the database.
type replay struct {
	closedLoop

	Keys int `default:"3000" help:"Number of finished runs. Each measured request repeats the request that created one of them."`
}

// Measure compares Parley with a process that only reads stored answers of the same size from an
// indexed table.
func (r *replay) Measure(ctx context.Context, s *loadEnv) error {
	bare, p, dsns, err := s.both(ctx, floor.Config{}, parley.Config{}, floor.Replay)
	if err != nil {
		return err
	}

	progressf("finishing %d runs, which are then requested again", r.Keys)
	nonce := load.NewNonce()
	shared := func(spec load.Spec) load.Spec {
		spec.Nonce, spec.Keys = nonce, int64(r.Keys)
		return spec
	}

	err = fill(ctx, shared(p.Load(p.Agent)), dsns[1], parley.Accepted, r.Keys)
	if err == nil {
		err = fill(ctx, shared(bare.Load()), dsns[0], floor.Answers, r.Keys)
	}
	if err != nil {
		return err
	}

	err = s.compare(ctx, &comparison{
		closedLoop: r.closedLoop, unit: "replay",
		sides: [2]side{{"floor", shared(bare.Load()), "floor", &bare.Group}, {"parley", shared(p.Load(p.Agent)), "parley", &p.Group}},
		goal:  only("replays/s", 1, ratioAtLeast(0.8)),
	})
	if err != nil {
		return err
	}
	if n, err := count(ctx, dsns[1], parley.Accepted); err != nil || n != int64(r.Keys) {
		return errors.Join(err, fmt.Errorf("%d runs in the database after requests with %d keys were repeated", n, r.Keys))
	}
	return nil
}

// fill sends requests until a query counts at least n rows. The load has no effect on the report.
// If the requests share keys, the first request with a key creates the run of that key.
func fill(ctx context.Context, spec load.Spec, dsn, query string, n int) error {
	for {
		found, err := count(ctx, dsn, query)
		if err != nil || found >= int64(n) {
			return err
		}
		if _, err := load.Execute(ctx, spec, load.Duration{Clients: 128, Measured: time.Second}); err != nil {
			return err
		}
	}
}
