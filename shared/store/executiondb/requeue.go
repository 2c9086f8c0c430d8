package executiondb

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"parley/shared/domain"
	"parley/shared/store/lease"
	"parley/shared/store/pg"
	"parley/shared/store/queuedb"
)

// Requeue is a running run that its worker requeues. The run does not start again before Backoff
// has passed. Cause is the error of the failed attempt. It is nil if the worker releases the run
// for a reason that is unrelated to the run.
type Requeue struct {
	lease.Held
	Backoff time.Duration
	Cause   *domain.RunError
}

// Requeued is the result of a Requeue. If neither Done nor Locked is set, the worker no longer
// holds the run, and nothing was written.
type Requeued struct {
	Done   bool
	Locked bool         // another transaction has locked the run; nothing was written
	Lane   queuedb.Lane // the lane in which the run has freed a slot
}

// requeueHeldQuery requeues runs and records how their attempts ended. It waits for no lock. The
// higher fence makes later writes of the attempt ineffective.
var requeueHeldQuery = `WITH asked AS MATERIALIZED (
	  SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[])
	    AS u (run_id, fence, wait_ms, cause, status, code, message)
	), mine AS MATERIALIZED (
	  SELECT o.run_id, o.fence FROM open_runs o JOIN asked USING (run_id, fence)
	  WHERE o.status = 'running' ORDER BY o.run_id FOR UPDATE OF o SKIP LOCKED
	), back AS (
	  UPDATE open_runs o SET status = 'queued', dispatched = false, lease_until = NULL,
	    not_before = CASE WHEN a.wait_ms > 0 THEN clock_timestamp() + make_interval(secs => a.wait_ms / 1000.0) END,
	    last_error = coalesce(a.cause::json, o.last_error), fence = o.fence + 1
	  FROM mine JOIN asked a USING (run_id, fence) WHERE o.run_id = mine.run_id
	  RETURNING o.run_id, o.org_id, o.lane, o.fence - 1 AS fence, o.attempts, o.started_at, a.status, a.code, a.message
	), noted AS (` + noteEnd("back", "status", "code", "message") + `)
	SELECT run_id, fence, org_id, lane, false AS locked FROM back
	UNION ALL
	SELECT o.run_id, o.fence, o.org_id, o.lane, true FROM open_runs o JOIN asked USING (run_id, fence)
	WHERE o.status = 'running' AND NOT EXISTS (SELECT FROM mine m WHERE m.run_id = o.run_id)`

// attemptKey identifies an attempt. A run may occur twice in a batch, with an old and a new fence,
// so the results of a batch are matched by run and fence.
type attemptKey struct {
	RunID string `db:"run_id"`
	Fence int64  `db:"fence"`
}

// Requeue requeues runs in one transaction, and returns the results in the same order. The number
// of attempts does not change here; the next claim increments it. After an error, either nothing
// was written or the reply to the commit was lost. A repetition then gets results without Done.
func (s *Store) Requeue(ctx context.Context, runs []Requeue) ([]Requeued, error) {
	// Each run's cause is stored twice: as JSON in the run, for its next attempt, and as a note in
	// its timeline.
	causes, codes := make([]*string, len(runs)), make([]*string, len(runs))
	statuses, messages := make([]string, len(runs)), make([]string, len(runs))
	for i, r := range runs {
		status, code, message := requeueNote(r.Cause)
		statuses[i], codes[i], messages[i] = string(status), code, message
		if r.Cause == nil {
			continue
		}
		raw, err := json.Marshal(r.Cause)
		if err != nil {
			return nil, fmt.Errorf("encoding cause: %w", err)
		}
		text := string(raw)
		causes[i] = &text
	}

	var rows []struct {
		attemptKey

		OrganizationID string      `db:"org_id"`
		Lane           domain.Lane `db:"lane"`
		Locked         bool        `db:"locked"`
	}
	orgs := pg.Column(runs, func(r *Requeue) string { return r.OrganizationID })
	err := s.db.Within(ctx, orgs, func(tx *sqlx.Tx) error {
		rows = rows[:0]
		return tx.SelectContext(ctx, &rows, requeueHeldQuery,
			pq.Array(pg.Column(runs, func(r *Requeue) string { return r.RunID })),
			pq.Array(pg.Column(runs, func(r *Requeue) int64 { return r.Fence })),
			pq.Array(pg.Column(runs, func(r *Requeue) int64 { return r.Backoff.Milliseconds() })),
			pq.Array(causes), pq.Array(statuses), pq.Array(codes), pq.Array(messages))
	})
	if err != nil {
		return nil, fmt.Errorf("requeueing runs: %w", err)
	}

	// A run without a row keeps the zero value: its worker no longer holds it.
	results := make(map[attemptKey]Requeued, len(rows))
	for _, r := range rows {
		lane := queuedb.Lane{OrganizationID: r.OrganizationID, Lane: r.Lane}
		results[r.attemptKey] = Requeued{Done: !r.Locked, Locked: r.Locked, Lane: lane}
	}
	out := make([]Requeued, len(runs))
	for i, r := range runs {
		out[i] = results[attemptKey{r.RunID, r.Fence}]
	}
	return out, nil
}
