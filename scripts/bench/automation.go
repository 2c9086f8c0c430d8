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
	bare, p, dsns, err := s.both(ctx, floor.Config{}, parley.Config{}, floor.Ingress, floor.Worker)
	if err != nil {
		return err
	}

	c := &comparison{
		closedLoop: a.closedLoop, unit: "run", goal: a.goal,
		sides: [2]side{{"floor", bare.Load(), "floor", &bare.Group}, {"parley", p.Load(p.Agent), "parley", &p.Group}},
	}
	if err := s.compare(ctx, c); err != nil {
		return err
	}

	return errors.Join(stored(ctx, dsns[0], floor.Completed, c.answered[0]), stored(ctx, dsns[1], parley.Completed, c.answered[1]))
}

// The goals of automation apply from these numbers of clients upward. With fewer clients, too few
// requests arrive at the same time to be inserted together.
const (
	someClients = 16
	manyClients = 128
)

// goal returns the goal of a measure, or nil if it has none.
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

// stored returns an error unless a query counts at least n rows. If n is the number of answered
// requests, a nil error means that all answered requests are in the database.
func stored(ctx context.Context, dsn, query string, n int64) error {
	found, err := count(ctx, dsn, query)
	if err == nil && found < n {
		err = fmt.Errorf("%d requests were answered, but the database contains only %d", n, found)
	}
	return err
}

// count returns the number that a query selects.
func count(ctx context.Context, dsn, query string) (n int64, err error) {
	return n, inDatabase(dsn, func(db *sql.DB) error { return db.QueryRowContext(ctx, query).Scan(&n) })
}

// inDatabase calls do with a connection to a database.
func inDatabase(dsn string, do func(*sql.DB) error) error {
	db, err := sql.Open("postgres", dsn)
	if err == nil {
		err = errors.Join(do(db), db.Close())
	}
	if err != nil {
		return fmt.Errorf("querying database: %w", err)
	}
	return nil
}
