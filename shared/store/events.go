package store

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/lib/pq"
)

// Chunk is a run of consecutive events of one attempt, one line each: type, a space, and its data as a JSON
// object without the run's id. The zero value holds none.
type Chunk struct {
	FirstN, LastN int
	Events        string
}

// Checkpoint is a chunk to add to the event log of a run that a worker holds.
type Checkpoint struct {
	Held
	Chunk
}

// RejectedEventsError says of runs that PostgreSQL will never store the chunk that was to be saved. All others were dealt
// with, and the answer that comes with it is good; there these runs count as held, for their work can go on.
type RejectedEventsError struct{ Runs map[string]error }

func (e *RejectedEventsError) Error() string {
	return fmt.Sprintf("events of %d runs were rejected", len(e.Runs))
}

// SaveEvents adds chunks to the logs of held runs in one statement, and gives the set of runs that are still
// held: nothing was written for the others, and their worker must stop. Saving a chunk again is harmless. A
// [RejectedEventsError] is the one error that comes with an answer.
func (s *Store) SaveEvents(ctx context.Context, c []Checkpoint) (held map[string]bool, err error) {
	held, err = s.saveEvents(ctx, c)
	switch {
	case !isBadData(err):
		return held, err
	case len(c) > 1:
		return s.saveHalves(ctx, c)
	}
	return map[string]bool{c[0].RunID: true}, &RejectedEventsError{Runs: map[string]error{c[0].RunID: err}}
}

// saveHalves finds a chunk that PostgreSQL rejects without failing its neighbours.
func (s *Store) saveHalves(ctx context.Context, c []Checkpoint) (map[string]bool, error) {
	held, rejected := map[string]bool{}, map[string]error{}
	for _, half := range [][]Checkpoint{c[:len(c)/2], c[len(c)/2:]} {
		part, err := s.SaveEvents(ctx, half)
		if bad := (*RejectedEventsError)(nil); errors.As(err, &bad) {
			maps.Copy(rejected, bad.Runs)
		} else if err != nil {
			return nil, err // what is saved already may be saved again
		}
		maps.Copy(held, part)
	}
	if len(rejected) > 0 {
		return held, &RejectedEventsError{Runs: rejected}
	}
	return held, nil
}

func (s *Store) saveEvents(ctx context.Context, c []Checkpoint) (held map[string]bool, err error) {
	stmt, err := s.prepared(ctx, `SELECT run_id FROM save_run_events($1, $2, $3, $4, $5, $6)`)
	if err != nil {
		return nil, err
	}
	var kept []string
	// The pool may send this twice when its connection breaks, which does no harm here.
	err = stmt.SelectContext(ctx, &kept,
		pq.Array(column(c, func(c *Checkpoint) string { return c.RunID })),
		pq.Array(column(c, func(c *Checkpoint) string { return c.OrganizationID })),
		pq.Array(column(c, func(c *Checkpoint) int64 { return c.Fence })),
		pq.Array(column(c, func(c *Checkpoint) int64 { return int64(c.FirstN) })),
		pq.Array(column(c, func(c *Checkpoint) int64 { return int64(c.LastN) })),
		pq.Array(column(c, func(c *Checkpoint) string { return c.Events })))
	if err != nil {
		return nil, fmt.Errorf("saving events: %w", err)
	}
	held = make(map[string]bool, len(kept))
	for _, id := range kept {
		held[id] = true
	}
	return held, nil
}

// EventLogRequest asks for a run's log. Chunks that end at or before the event (AfterFence, AfterN) may be left out.
type EventLogRequest struct {
	RunID          string
	OrganizationID string
	AfterFence     int64
	AfterN         int
}

// EventLog is what is stored of a run's events: the chunks of the last attempt that has any, in order, and
// where the log ends once the run has ended.
type EventLog struct {
	Run      StoredRun // with its times; without started_at when it never started
	Fence    int64     // of Chunks; 0: none are stored
	Chunks   []Chunk
	EndFence int64 // 0: the run has not ended
	EndN     int
}

type eventLogRow struct {
	runRow
	Place    int            `db:"place"` // in the requests, from 1
	EndFence int64          `db:"end_fence"`
	EndN     int            `db:"end_n"`
	Fence    int64          `db:"fence"`
	FirstNs  pq.Int64Array  `db:"first_ns"`
	LastNs   pq.Int64Array  `db:"last_ns"`
	Chunks   pq.StringArray `db:"chunks"`
}

func (row eventLogRow) log() *EventLog {
	out := &EventLog{Run: row.stored(), Fence: row.Fence, EndFence: row.EndFence, EndN: row.EndN}
	for i, events := range row.Chunks {
		out.Chunks = append(out.Chunks, Chunk{FirstN: int(row.FirstNs[i]), LastN: int(row.LastNs[i]), Events: events})
	}
	return out
}

// EventLogs reads logs in one statement, in the order of reqs; nil where there is no such run, or no longer.
func (s *Store) EventLogs(ctx context.Context, reqs []EventLogRequest) ([]*EventLog, error) {
	stmt, err := s.prepared(ctx, `SELECT `+openResult+`, place, end_fence, end_n, fence, first_ns, last_ns, chunks
		FROM event_logs_of_runs($1, $2, $3, $4)`)
	if err != nil {
		return nil, err
	}
	var rows []eventLogRow
	err = stmt.SelectContext(ctx, &rows,
		pq.Array(column(reqs, func(r *EventLogRequest) string { return r.OrganizationID })),
		pq.Array(column(reqs, func(r *EventLogRequest) string { return r.RunID })),
		pq.Array(column(reqs, func(r *EventLogRequest) int64 { return r.AfterFence })),
		pq.Array(column(reqs, func(r *EventLogRequest) int64 { return int64(r.AfterN) })))
	if err != nil {
		return nil, fmt.Errorf("reading event logs: %w", err)
	}
	out := make([]*EventLog, len(reqs))
	for _, row := range rows {
		out[row.Place-1] = row.log()
	}
	return out, nil
}
