package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	_ "github.com/lib/pq" // the PostgreSQL driver for count

	"parley/scripts/bench/internal/floor"
	"parley/scripts/bench/internal/parley"
)

// automation measures the throughput, latency and cost of run-automation requests to an agent that
// echoes its input. Each request has its own idempotency key.
type automation struct {
	closedLoop
}

// Measure compares Parley with the floor. For each request, the floor inserts a row together with
// the rows of other requests, sends a job to a worker and receives a reply.
func (a *automation) Measure(ctx context.Context, s *loadEnv) error {
	bare, dsn, err := s.floor(ctx, floor.Config{}, floor.Ingress, floor.Worker)
	if err != nil {
		return err
	}

	p, ours, err := s.parley(ctx, "parley", parley.Config{})
	if err != nil {
		return err
	}

	c := &comparison{
		closedLoop: a.closedLoop, unit: "run", goal: a.goal,
		sides: [2]side{{"floor", bare.Load(), "floor", bare}, {"parley", p.Load(p.Agent), "parley", p}},
	}
	if err := s.compare(ctx, c); err != nil {
		return err
	}

	err = errors.Join(stored(ctx, dsn, floor.Completed, c.answered[0]), stored(ctx, ours, parley.Completed, c.answered[1]))
	if err != nil {
		return err
	}
	return s.inspect(ctx, p, "parley")
}

// The goals of automation apply from these numbers of clients upward. With fewer clients, too few
// requests arrive at the same time to be inserted together.
const (
	someClients = 16
	manyClients = 128
)

func (*automation) goal(clients int, measure string) *goal {
	switch {
	case measure == "run p50 ms" && clients == 1:
		return ratioAtMost(2)
	case measure == "runs/s" && clients >= someClients:
		return ratioAtLeast(0.5)
	case measure == "commits/run" && clients >= manyClients:
		return atMost(0.1)
	case measure == "commits/run" && clients >= someClients:
		return atMost(0.3)
	}
	return nil
}

// stored returns an error unless a query counts at least n rows. It verifies that each answered
// request is on disk.
func stored(ctx context.Context, dsn, query string, n int64) error {
	found, err := count(ctx, dsn, query)
	if err == nil && found < n {
		err = fmt.Errorf("%d requests were answered, but the database contains only %d", n, found)
	}
	return err
}

// count returns the number that a query selects.
func count(ctx context.Context, dsn, query string) (n int64, err error) {
	db, err := sql.Open("postgres", dsn)
	if err != nil {
		return 0, fmt.Errorf("opening database: %w", err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := db.QueryRowContext(ctx, query).Scan(&n); err != nil {
		return 0, fmt.Errorf("counting rows: %w", err)
	}
	return n, nil
}
