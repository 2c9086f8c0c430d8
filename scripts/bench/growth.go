package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"time"

	"parley/scripts/bench/internal/load"
	"parley/scripts/bench/internal/parley"
	"parley/shared/lifecycle"
)

// growth compares the cost of a run in a database with many runs to the cost of a run in a database
// with few runs. Both deployments share one PostgreSQL, but have separate databases, nats-servers
// and processes. All runs are created through the API.
type growth struct {
	closedLoop

	Small int `default:"10000" help:"Number of finished runs in the small deployment before the measurement."`
	Large int `default:"200000" help:"Number of finished runs in the large deployment before the measurement. The largest figures in docs/performance.md were measured with 1,000,000."`
	Lists int `default:"100" help:"Number of requests for the list of runs in a round."`
}

// sameCost is the goal: a run in the large database takes at most 1.15 times as long as a run in
// the small one.
const sameCost = 1.15

// Measure fills both deployments and compares the cost of a run in each.
func (g *growth) Measure(ctx context.Context, s *loadEnv) error {
	var fresh, replays [2]side
	var deployments [2]*parley.Parley
	for i, runs := range []int{g.Small, g.Large} {
		name := []string{"small", "large"}[i]
		natsURL, err := s.servers.StartNATS(ctx, "nats-"+name)
		if err != nil {
			return err
		}
		p, dsn, err := s.parley(ctx, name, parley.Config{NATSURL: natsURL})
		if err != nil {
			return err
		}
		again := p.Load(p.Agent)
		again.Nonce, again.Keys = "replayed-1", 1000
		if err := g.fill(ctx, s, name, p.Load(p.Agent), again, runs); err != nil {
			return err
		}
		if err := settle(ctx, dsn); err != nil {
			return err
		}
		fresh[i], replays[i] = side{name, p.Load(p.Agent), name, p}, side{name, again, name, p}
		deployments[i] = p
	}

	for _, c := range []*comparison{{unit: "run", sides: fresh}, {unit: "replay", sides: replays}} {
		c.closedLoop = g.closedLoop
		c.goal = func(_ int, measure string) *goal {
			if measure == c.unit+"s/s" {
				return ratioAtLeast(1 / sameCost)
			}
			return nil
		}
		if err := s.compare(ctx, c); err != nil {
			return err
		}
	}
	return g.lists(ctx, s, deployments)
}

// fill creates runs in a deployment. The first ones have the idempotency keys that the measurement
// will repeat, and the others have unique keys.
func (*growth) fill(ctx context.Context, s *loadEnv, name string, own, again load.Spec, runs int) error {
	const clients, perClient = 128, 5 * time.Second
	began := time.Now()
	result, _, err := s.client(ctx, again, clients, 0, time.Second)
	if err != nil {
		return err
	}

	for done := min(result.Answered, again.Keys); done < int64(runs); done += result.Answered {
		if result, _, err = s.client(ctx, own, clients, 0, perClient); err != nil {
			return err
		}
		progressf("growth: %d of %d runs created (%s) after %s", done+result.Answered, runs, name, time.Since(began).Round(time.Second))
	}
	return nil
}

// settle waits until the words of all finished runs are in the search index, and executes VACUUM.
// Otherwise a worker would index the runs during the measurement, and autovacuum might run.
func settle(ctx context.Context, dsn string) error {
	db, err := sql.Open("postgres", dsn)
	if err != nil {
		return fmt.Errorf("opening database: %w", err)
	}

	indexed := false
	for err == nil && !indexed {
		if err = db.QueryRowContext(ctx, `SELECT NOT EXISTS (SELECT FROM unindexed_runs)`).Scan(&indexed); err == nil && !indexed {
			err = lifecycle.Sleep(ctx, time.Second)
		}
	}
	if err == nil {
		_, err = db.ExecContext(ctx, `VACUUM (ANALYZE)`)
	}
	if err := errors.Join(err, db.Close()); err != nil {
		return fmt.Errorf("preparing database: %w", err)
	}
	return nil
}

// lists compares the latency of the first page of the list of runs in both databases.
func (g *growth) lists(ctx context.Context, s *loadEnv, deployments [2]*parley.Parley) error {
	var p50s [2][]float64
	for range g.Rounds {
		for i, p := range deployments {
			took := load.NewLatencies()
			for range g.Lists {
				began := time.Now()
				var page struct {
					Data []struct {
						Status string `json:"status"`
					} `json:"data"`
				}
				if err := p.Ask(ctx, p.Get("/api/runs", url.Values{"limit": {"20"}}), &page); err != nil {
					return err
				}
				if len(page.Data) != 20 || page.Data[0].Status != "completed" {
					return fmt.Errorf("unexpected first page of runs, with %d entries: %+v", len(page.Data), page.Data)
				}
				_ = took.RecordValue(time.Since(began).Nanoseconds()) // requests time out before the histogram's limit
			}
			p50s[i] = append(p50s[i], load.Millis(took, 50))
		}
	}

	s.add("1 client", "page of runs p50 ms", p50s[0], p50s[1], ratioAtMost(sameCost))
	return nil
}
