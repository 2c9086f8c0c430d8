package main

import (
	"context"
	"crypto/rand"
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
	p, ours, err := s.parley(ctx, "parley", parley.Config{})
	if err != nil {
		return err
	}

	progressf("finishing %d runs, which are then requested again", r.Keys)
	nonce := rand.Text()[:10]
	shared := func(spec load.Spec) load.Spec {
		spec.Nonce, spec.Keys = nonce, int64(r.Keys)
		return spec
	}

	if err := fill(ctx, s, shared(p.Load(p.Agent)), ours, `SELECT count(*) FROM runs`, r.Keys); err != nil {
		return err
	}

	bare, dsn, err := s.floor(ctx, floor.Config{}, floor.Replay)
	if err != nil {
		return err
	}
	if err := fill(ctx, s, shared(bare.Load()), dsn, floor.Answers, r.Keys); err != nil {
		return err
	}

	err = s.compare(ctx, &comparison{
		closedLoop: r.closedLoop, unit: "replay",
		sides: [2]side{{"floor", shared(bare.Load()), "floor", bare}, {"parley", shared(p.Load(p.Agent)), "parley", p}},
		goal: func(_ int, measure string) *goal {
			if measure == "replays/s" {
				return ratioAtLeast(0.8)
			}
			return nil
		},
	})
	if err != nil {
		return err
	}
	if n, err := count(ctx, ours, `SELECT count(*) FROM runs`); err != nil || n != int64(r.Keys) {
		return errors.Join(err, fmt.Errorf("%d runs in the database after requests with %d keys were repeated", n, r.Keys))
	}
	return s.inspect(ctx, p, "parley")
}

// fill sends requests until a query counts at least n rows. The first request with a key creates
// the run of that key.
func fill(ctx context.Context, s *loadEnv, spec load.Spec, dsn, query string, n int) error {
	for {
		found, err := count(ctx, dsn, query)
		if err != nil || found >= int64(n) {
			return err
		}
		if _, _, err := s.client(ctx, spec, 64, 0, time.Second); err != nil {
			return err
		}
	}
}
