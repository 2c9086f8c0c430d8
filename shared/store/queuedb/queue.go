package queuedb

import (
	"context"
	"fmt"
	"time"

	"parley/shared/domain"
)

// Queue is how much there is of one state in one lane, of all organizations.
type Queue struct {
	Lane  domain.Lane `db:"lane"`
	State string      `db:"state"` // waiting, held, dispatched, running or requires_action
	Runs  int64       `db:"runs"`  // of the lane ingest: documents
	Age   float64     `db:"age"`   // of the oldest, in seconds since it was accepted
}

// QueueStates are the states that Queue tells of.
var QueueStates = []string{"waiting", "held", "dispatched", "running", "requires_action"}

// Queues counts what has not ended. It looks at all of it: ask it now and then.
func (s *Store) Queues(ctx context.Context) ([]Queue, error) {
	ctx, cancel := context.WithTimeout(ctx, queuesTime)
	defer cancel()
	var queues []Queue
	err := s.db.SelectContext(ctx, &queues, `SELECT lane, state, runs,
		coalesce(extract(epoch FROM greatest(clock_timestamp() - oldest, interval '0')), 0)::float8 AS age FROM queue_depth()`)
	if err != nil {
		return nil, fmt.Errorf("counting what waits: %w", err)
	}
	return queues, nil
}

const queuesTime = 5 * time.Second
