package executiondb

import (
	"context"
	"fmt"
	"maps"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"parley/shared/apierr"
	"parley/shared/store/lease"
	"parley/shared/store/pg"
	"parley/shared/store/rundb"
)

// Chunk contains consecutive events of one attempt, one per line: the type, a space, and the data
// as a JSON object without the run's id. A chunk is one row of the table run_events. The zero value
// is empty.
type Chunk struct {
	FirstN, LastN int // numbers of the first and last event in the chunk, from 1; 0: no events
	Events        string
}

// Checkpoint is a chunk to append to the event log of a held run.
type Checkpoint struct {
	lease.Held
	Chunk
}

// SavedEvents is the result of saving chunks, with run ids as keys. If a run is in none of the
// maps, its worker no longer holds the run and must stop.
type SavedEvents struct {
	Saved    map[string]bool
	Locked   map[string]bool  // another transaction has locked the run; nothing was written, and the chunk can be saved later
	Rejected map[string]error // PostgreSQL will never store the chunk
}

// SaveEvents appends chunks to the logs of held runs, with statements that wait for no lock and
// write about MaxBatchBytes each. A chunk may be saved more than once; repetitions change nothing.
// After an error, the caller saves all chunks again.
func (s *Store) SaveEvents(ctx context.Context, c []Checkpoint) (SavedEvents, error) {
	// Each statement is a separate transaction. Chunks that were saved before an error stay saved.
	out := SavedEvents{Saved: map[string]bool{}, Locked: map[string]bool{}, Rejected: map[string]error{}}
	for len(c) > 0 {
		n := countFitting(c, Checkpoint.Size)
		if err := s.saveEvents(ctx, c[:n], &out); err != nil {
			return SavedEvents{}, err // saved chunks may be saved again
		}
		c = c[n:]
	}
	return out, nil
}

// saveEvents saves the chunks and adds the results to out. The chunks have at most about
// MaxBatchBytes in total. A chunk that PostgreSQL rejects as bad data is added to Rejected and is
// not an error.
func (s *Store) saveEvents(ctx context.Context, c []Checkpoint, out *SavedEvents) error {
	err := saveChunks(ctx, s.db, c, out)
	switch {
	case !pg.IsBadData(err):
		return err
	case len(c) == 1:
		out.Rejected[c[0].RunID] = err
		return nil
	}

	// saveEvents halves the list until it finds a chunk that PostgreSQL rejects, so that all other
	// chunks are saved.
	if err := s.saveEvents(ctx, c[:len(c)/2], out); err != nil {
		return err
	}

	return s.saveEvents(ctx, c[len(c)/2:], out)
}

// Size is the approximate number of bytes that the chunk adds to a statement.
func (c Checkpoint) Size() int { return len(c.Events) + 128 }

// saveChunks saves the chunks with one statement and adds the results to out. It adds nothing for
// runs that their worker no longer holds.
func saveChunks(ctx context.Context, db *pg.DB, c []Checkpoint, out *SavedEvents) error {
	// A worker executes this statement several times a second, so it is a prepared statement.
	stmt, err := db.Prepared(ctx, `SELECT run_id, locked FROM save_run_events($1, $2, $3, $4, $5, $6)`)
	if err != nil {
		return err
	}

	var rows []heldRow
	// If the connection breaks, the pool may send the statement twice, which is harmless here.
	err = stmt.SelectContext(ctx, &rows,
		pq.Array(pg.Column(c, func(c *Checkpoint) string { return c.RunID })),
		pq.Array(pg.Column(c, func(c *Checkpoint) string { return c.OrganizationID })),
		pq.Array(pg.Column(c, func(c *Checkpoint) int64 { return c.Fence })),
		pq.Array(pg.Column(c, func(c *Checkpoint) int64 { return int64(c.FirstN) })),
		pq.Array(pg.Column(c, func(c *Checkpoint) int64 { return int64(c.LastN) })),
		pq.Array(pg.Column(c, func(c *Checkpoint) string { return c.Events })))
	if err != nil {
		return fmt.Errorf("saving events: %w", err)
	}

	saved, locked := byLock(rows)
	maps.Copy(out.Saved, saved)
	maps.Copy(out.Locked, locked)
	return nil
}

// EventLogRequest requests a run's log. The reader already has the events up to (AfterFence,
// AfterN). The result may therefore lack the chunks that end at or before this event. Zero values
// request the whole log.
type EventLogRequest struct {
	RunID          string
	OrganizationID string
	AfterFence     int64
	AfterN         int
}

// EventLog is the stored part of a run's events: the chunks of the last attempt that has chunks, in
// order, and, for a finished run, the position of the terminal event.
type EventLog struct {
	Run      rundb.StoredRun // includes the times of the run; started_at is unset if the run never started
	Fence    int64           // of Chunks; 0: no chunk is stored
	Chunks   []Chunk
	EndFence int64 // 0: the run has not finished
	EndN     int
	Deferred bool // the batch had no room for the log; the log was not read and must be requested again
}

// batchBytes bounds the chunks and results of the large logs that one statement reads. A single
// log may be larger.
const batchBytes = 1 << 20

// eventLogRow is a row of event_logs_that_fit. The arrays FirstNs, LastNs and Chunks are parallel,
// with an element per chunk.
type eventLogRow struct {
	rundb.RunRow
	Position int            `db:"place"` // position in the requests, from 1
	EndFence int64          `db:"end_fence"`
	EndN     int            `db:"end_n"`
	Fence    int64          `db:"fence"`
	FirstNs  pq.Int64Array  `db:"first_ns"`
	LastNs   pq.Int64Array  `db:"last_ns"`
	Chunks   pq.StringArray `db:"chunks"`
	Deferred bool           `db:"deferred"`
}

// log returns the event log of a row. A deferred row has no values except its position.
func (row eventLogRow) log() *EventLog {
	if row.Deferred {
		return &EventLog{Deferred: true}
	}
	out := &EventLog{Run: row.Stored(), Fence: row.Fence, EndFence: row.EndFence, EndN: row.EndN}
	for i, events := range row.Chunks {
		out.Chunks = append(out.Chunks, Chunk{FirstN: int(row.FirstNs[i]), LastN: int(row.LastNs[i]), Events: events})
	}
	return out
}

// EventLogs reads logs with one statement, in the order of reqs. An entry is nil if the run does
// not exist or has expired. When the logs that were read reach batchBytes in total, further large
// logs are deferred.
func (s *Store) EventLogs(ctx context.Context, reqs []EventLogRequest) ([]*EventLog, error) {
	stmt, err := s.db.Prepared(ctx, `SELECT `+rundb.OpenResult+`, place, end_fence, end_n, fence, first_ns, last_ns, chunks, deferred
		FROM event_logs_that_fit($1, $2, $3, $4, $5)`)
	if err != nil {
		return nil, err
	}

	var rows []eventLogRow
	err = stmt.SelectContext(ctx, &rows,
		pq.Array(pg.Column(reqs, func(r *EventLogRequest) string { return r.OrganizationID })),
		pq.Array(pg.Column(reqs, func(r *EventLogRequest) string { return r.RunID })),
		pq.Array(pg.Column(reqs, func(r *EventLogRequest) int64 { return r.AfterFence })),
		pq.Array(pg.Column(reqs, func(r *EventLogRequest) int64 { return int64(r.AfterN) })), batchBytes)
	if err != nil {
		return nil, fmt.Errorf("reading event logs: %w", err)
	}

	// An entry stays nil if the statement returned no row for its request.
	out := make([]*EventLog, len(reqs))
	for _, row := range rows {
		out[row.Position-1] = row.log()
	}

	return out, nil
}

// EventLogBytes is the number of bytes that EventLogs would read: the result of a finished
// run, and the chunks. It returns not_found if the run does not exist or has expired, and
// erased if it was erased.
func (s *Store) EventLogBytes(ctx context.Context, req EventLogRequest) (int, error) {
	// The sum has the same conditions as EventLogs: it includes only chunks of the last attempt
	// that has chunks, and of these only the chunks after the requested event.
	var log struct {
		Bytes  int  `db:"bytes"`
		Erased bool `db:"erased"`
	}
	err := s.db.Within(ctx, []string{req.OrganizationID}, func(tx *sqlx.Tx) error {
		return tx.GetContext(ctx, &log, `SELECT r.status IS NOT NULL AND r.result IS NULL AS erased, coalesce(octet_length(r.result), 0) + coalesce((
			SELECT sum(octet_length(e.events)) FROM run_events e WHERE e.run_id = r.id AND (e.fence, e.last_n) > ($3, $4)
				AND e.fence = (SELECT f.fence FROM run_events f WHERE f.run_id = r.id ORDER BY f.run_id DESC, f.fence DESC LIMIT 1)), 0) AS bytes
			FROM runs r WHERE r.id = $1 AND r.org_id = $2 AND`+rundb.RunLive,
			req.RunID, req.OrganizationID, req.AfterFence, req.AfterN)
	})
	if err != nil {
		return 0, pg.OneRow(err, "reading the size of an event log")
	}

	if log.Erased {
		return 0, apierr.New(apierr.Erased, "this run was erased by its organization")
	}

	return log.Bytes, nil
}
