package queuedb

import (
	"context"
	"fmt"
	"time"

	"parley/shared/domain"
)

// Queue is the number and age of the runs of one state in one lane, over all organizations.
type Queue struct {
	Lane  domain.Lane `db:"lane"`
	State string      `db:"state"` // waiting, held, dispatched, running or requires_action
	Runs  int64       `db:"runs"`  // number of runs, or of documents in the lane ingest
	Age   float64     `db:"age"`   // seconds since the oldest run or document was accepted
}

// QueueStates are the possible states of a Queue.
var QueueStates = []string{"waiting", "held", "dispatched", "running", "requires_action"}

// Queues counts all unfinished runs and documents. It reads all open runs, so call it rarely.
func (s *Store) Queues(ctx context.Context) ([]Queue, error) {
	ctx, cancel := context.WithTimeout(ctx, queuesTime)
	defer cancel()
	var queues []Queue

	// If the database's clock was set back, the computed age is negative. It is then reported as 0.
	err := s.db.SelectContext(ctx, &queues, `SELECT lane, state, runs,
		coalesce(extract(epoch FROM greatest(clock_timestamp() - oldest, interval '0')), 0)::float8 AS age FROM queue_depth()`)
	if err != nil {
		return nil, fmt.Errorf("counting queued runs: %w", err)
	}
	return queues, nil
}

// queuesTime bounds one call of Queues.
const queuesTime = 5 * time.Second
