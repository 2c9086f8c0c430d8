package main

import (
	"context"
	"database/sql"
	"time"

	"parley/scripts/bench/internal/parley"
	"parley/shared/lifecycle"
)

// growth compares the cost of a run in a database with many runs to the cost of a run in a database
// with few runs. Both deployments share one PostgreSQL, but have separate databases, nats-servers
// and processes. All runs are created through the API. There is no floor.
type growth struct {
	closedLoop

	Small int `default:"10000" help:"Number of finished runs in the small deployment before the measurement."`
	Large int `default:"200000" help:"Number of finished runs in the large deployment before the measurement. The largest figures in docs/performance.md were measured with 1,000,000."`
}

// sameCost is the goal: a request takes at most 1.15 times as long with the large database as with
// the small one.
const sameCost = 1.15

// Measure fills both deployments and compares the cost of a run in each.
func (g *growth) Measure(ctx context.Context, s *loadEnv) error {
	var fresh, replays, pages [2]side
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
		progressf("growth: creating %d runs (%s)", runs, name)
		err = fill(ctx, again, dsn, parley.Accepted, int(again.Keys)) // creates the runs that the measurement requests again
		if err == nil {
			err = fill(ctx, p.Load(p.Agent), dsn, parley.Accepted, runs)
		}
		if err == nil {
			err = settle(ctx, dsn)
		}
		if err != nil {
			return err
		}
		fresh[i], replays[i] = side{name, p.Load(p.Agent), name, &p.Group}, side{name, again, name, &p.Group}
		pages[i] = side{name, p.Pages(), name, &p.Group}
	}

	rate, once := ratioAtLeast(1/sameCost), closedLoop{[]int{1}, g.Rounds, g.Seconds}
	for _, c := range []*comparison{
		{closedLoop: g.closedLoop, unit: "run", sides: fresh, goal: only("runs/s", 1, rate)},
		{closedLoop: g.closedLoop, unit: "replay", sides: replays, goal: only("replays/s", 1, rate)},
		{closedLoop: once, unit: "page", sides: pages, goal: only("page p50 ms", 1, ratioAtMost(sameCost))},
	} {
		if err := s.compare(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// settle waits until the words of all finished runs are in the search index, and executes VACUUM.
// Otherwise a worker would index the runs during the measurement, and autovacuum might run.
func settle(ctx context.Context, dsn string) error {
	return inDatabase(dsn, func(db *sql.DB) error {
		for indexed := false; !indexed; {
			err := db.QueryRowContext(ctx, `SELECT NOT EXISTS (SELECT FROM unindexed_runs)`).Scan(&indexed)
			if err == nil && !indexed {
				err = lifecycle.Sleep(ctx, time.Second)
			}
			if err != nil {
				return err
			}
		}
		_, err := db.ExecContext(ctx, `VACUUM (ANALYZE)`)
		return err
	})
}
