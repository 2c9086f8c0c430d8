package store

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"parley/shared/domain"
)

// Ending is a run's final state, written under the fence of the attempt that produced it.
type Ending struct {
	Fence  int64
	Run    domain.Run // terminal, with FinishedAt set
	Result []byte     // Run as rendered
}

// NewEnding renders a terminal run.
func NewEnding(fence int64, run domain.Run) (Ending, error) {
	result, err := run.Render()
	return Ending{Fence: fence, Run: run, Result: result}, err
}

// Finished tells which endings were saved, and how many places they left in the windows of organizations
// that have runs waiting.
type Finished struct {
	Saved    map[string]bool  // by run id; a run in neither map was taken from its worker, and nothing was written
	Rejected map[string]error // endings that PostgreSQL will never store
	Freed    map[string]int   // by organization; for HandOver
}

// The open row goes and the run's row gets its ending, or neither: the fence decides.
const finishQuery = `
WITH ending AS (
  SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::int[], $7::bigint[], $8::bigint[], $9::bigint[],
    $10::timestamptz[], $11::timestamptz[])
    AS u (id, fence, status, result, answer, attempts, input_tokens, output_tokens, cost_micros, finished_at, expires_at)
), mine AS (
  SELECT o.run_id FROM open_runs o JOIN ending e ON e.id = o.run_id AND e.fence = o.fence ORDER BY o.run_id FOR UPDATE OF o
), closed AS (
  DELETE FROM open_runs o USING ending e, mine
  WHERE o.run_id = mine.run_id AND e.id = o.run_id AND o.fence = e.fence
  RETURNING o.run_id, o.org_id, o.dispatched
), saved AS (
  UPDATE runs r SET status = e.status, result = e.result, answer = nullif(e.answer, ''), attempts = e.attempts,
    input_tokens = e.input_tokens, output_tokens = e.output_tokens, cost_micros = e.cost_micros,
    finished_at = e.finished_at, expires_at = e.expires_at
  FROM ending e JOIN closed c ON c.run_id = e.id WHERE r.id = e.id
)
SELECT run_id, org_id, dispatched AND EXISTS (SELECT 1 FROM open_runs w
  WHERE w.org_id = closed.org_id AND w.status = 'queued' AND NOT w.dispatched) AS place FROM closed`

// Finish saves endings in one statement. One batch holds at most one ending per run.
func (s *Store) Finish(ctx context.Context, endings []Ending) (Finished, error) {
	out, err := finish(endings, func(dest any, args ...any) error {
		return s.finishes.selectInto(ctx, dest, finishQuery, args...)
	})
	if !isBadData(err) {
		return out, err
	}
	if len(endings) == 1 {
		return Finished{Rejected: map[string]error{endings[0].Run.ID: err}}, nil
	}
	return s.finishHalves(ctx, endings)
}

// finishHalves finds an ending that PostgreSQL rejects without failing its neighbours. Saving an ending
// again after a failure is harmless: its open row is gone.
func (s *Store) finishHalves(ctx context.Context, endings []Ending) (Finished, error) {
	out := Finished{Saved: map[string]bool{}, Rejected: map[string]error{}, Freed: map[string]int{}}
	for _, half := range [][]Ending{endings[:len(endings)/2], endings[len(endings)/2:]} {
		part, err := s.Finish(ctx, half)
		if err != nil {
			return out, err
		}
		maps.Copy(out.Saved, part.Saved)
		maps.Copy(out.Rejected, part.Rejected)
		for org, places := range part.Freed {
			out.Freed[org] += places
		}
	}
	return out, nil
}

// finish runs the statement on whatever connection run has.
func finish(endings []Ending, run func(dest any, args ...any) error) (Finished, error) {
	text := func(f func(*Ending) string) any { return pq.Array(column(endings, f)) }
	number := func(f func(*Ending) int64) any { return pq.Array(column(endings, f)) }
	var closed []closedRow
	err := run(&closed,
		text(func(e *Ending) string { return e.Run.ID }),
		number(func(e *Ending) int64 { return e.Fence }),
		text(func(e *Ending) string { return string(e.Run.Status) }),
		text(func(e *Ending) string { return string(e.Result) }),
		text(func(e *Ending) string { return deref(e.Run.Message) }),
		number(func(e *Ending) int64 { return int64(e.Run.Attempts) }),
		number(func(e *Ending) int64 { return e.Run.Usage.InputTokens }),
		number(func(e *Ending) int64 { return e.Run.Usage.OutputTokens }),
		number(func(e *Ending) int64 { return e.Run.Usage.CostMicros }),
		times(endings, func(e *Ending) *domain.Time { return e.Run.FinishedAt }),
		times(endings, func(e *Ending) *domain.Time { return e.Run.ExpiresAt }))
	if err != nil {
		return Finished{}, fmt.Errorf("saving results: %w", err)
	}
	out := Finished{Saved: make(map[string]bool, len(closed)), Freed: map[string]int{}}
	for _, c := range closed {
		out.Saved[c.RunID] = true
		if c.Place {
			out.Freed[c.OrganizationID]++
		}
	}
	return out, nil
}

type closedRow struct {
	RunID          string `db:"run_id"`
	OrganizationID string `db:"org_id"`
	Place          bool   `db:"place"` // one of the window is free, and some run waits
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// times gathers optional instants as an array of timestamptz texts, null where there is none.
func times[T any](rows []T, f func(*T) *domain.Time) any {
	return pq.Array(column(rows, func(r *T) *string {
		if at := f(r); at != nil {
			text := at.UTC().Format(time.RFC3339Nano)
			return &text
		}
		return nil
	}))
}

type jobRow struct {
	RunID          string `db:"run_id"`
	OrganizationID string `db:"org_id"`
	Lane           string `db:"lane"`
	Dedupe         string `db:"dedupe"`
	DispatchNo     int    `db:"dispatch_no"`
	ReplyTo        string `db:"reply_to"`
	Traceparent    string `db:"traceparent"`
}

const jobColumns = `o.run_id, o.org_id, o.lane, o.dedupe, o.dispatch_no, o.reply_to, o.traceparent`

func jobs(rows []jobRow) []domain.Job {
	out := make([]domain.Job, len(rows))
	for i, r := range rows {
		out[i] = domain.Job{
			RunID: r.RunID, OrganizationID: r.OrganizationID, Lane: domain.Lane(r.Lane), Dedupe: r.Dedupe,
			DispatchNo: r.DispatchNo, ReplyTo: r.ReplyTo, Traceparent: r.Traceparent,
		}
	}
	return out
}

// What a finish leaves goes to its organization's oldest waiting runs, up to the window. Every organization
// with work thus has equally many jobs in the stream, which carries them out in turn: the same shares as
// serving the organizations round robin, without a queue per organization.
const handOverQuery = `
WITH freed AS (
  SELECT org_id, greatest(0, least(places, $4 - (SELECT count(*) FROM open_runs d WHERE d.org_id = f.org_id AND d.dispatched))) AS places
  FROM unnest($1::text[], $2::int[]) AS f (org_id, places)
), next AS (
  SELECT w.run_id FROM freed f CROSS JOIN LATERAL (
    SELECT o.run_id FROM open_runs o
    WHERE o.org_id = f.org_id AND o.status = 'queued' AND NOT o.dispatched
      AND (o.not_before IS NULL OR o.not_before <= clock_timestamp())
      AND NOT EXISTS (SELECT 1 FROM open_runs p WHERE p.session_ref = o.session_ref AND p.seq < o.seq)
    ORDER BY o.run_id LIMIT f.places FOR UPDATE OF o SKIP LOCKED) w
)
UPDATE open_runs o SET dispatched = true, dispatch_no = o.dispatch_no + 1, dispatched_at = clock_timestamp(),
  next_dispatch_at = clock_timestamp() + $3::interval
FROM next WHERE o.run_id = next.run_id
RETURNING ` + jobColumns

// HandOver gives the places that finished runs left, by organization, to waiting runs, as long as no more
// than window of an organization are dispatched, and tells which to ring for. Places that are handed over
// to nobody stay free; what a crash before this call leaves is the sweeper's.
func (s *Store) HandOver(ctx context.Context, freed map[string]int, window int) ([]domain.Job, error) {
	if len(freed) == 0 {
		return nil, nil
	}
	orgs := make([]string, 0, len(freed))
	places := make([]int64, 0, len(freed))
	for org, n := range freed {
		orgs, places = append(orgs, org), append(places, int64(n))
	}
	var rows []jobRow
	if err := s.handOvers.selectInto(ctx, &rows, handOverQuery, pq.Array(orgs), pq.Array(places), firstRing, window); err != nil {
		return nil, fmt.Errorf("dispatching waiting runs: %w", err)
	}
	return jobs(rows), nil
}

// PutBack returns a running run to the queue, not to start before the backoff has passed. A nil cause
// means that the worker gives the run up for reasons of its own. It gives the place that this leaves, for
// HandOver; none, and nothing was written, when the run was taken from the worker.
func (s *Store) PutBack(ctx context.Context, held Held, backoff time.Duration, cause *domain.RunError) (map[string]int, error) {
	var reason any
	if cause != nil {
		raw, err := json.Marshal(cause)
		if err != nil {
			return nil, fmt.Errorf("encoding cause: %w", err)
		}
		reason = raw
	}
	var orgs []string
	err := s.tx(ctx, func(tx *sqlx.Tx) error {
		orgs = orgs[:0]
		return tx.SelectContext(ctx, &orgs, `UPDATE open_runs SET status = 'queued', dispatched = false, lease_until = NULL,
			not_before = clock_timestamp() + $3::interval, last_error = coalesce($4::json, last_error), fence = fence + 1
			WHERE run_id = $1 AND fence = $2 AND status = 'running' RETURNING org_id`, held.RunID, held.Fence, interval(backoff), reason)
	})
	if err != nil {
		return nil, fmt.Errorf("putting run back: %w", err)
	}
	freed := map[string]int{}
	for _, org := range orgs {
		freed[org]++
	}
	return freed, nil
}

// Journal appends steps to a run under a fence; false means that the run was taken from the worker and
// nothing was written. Steps are JSON, numbered from first.
func (s *Store) Journal(ctx context.Context, held Held, first int, steps [][]byte) (bool, error) {
	numbers := make([]int64, len(steps))
	texts := make([]string, len(steps))
	for i, raw := range steps {
		numbers[i], texts[i] = int64(first+i), string(raw)
	}
	var n int64
	err := s.tx(ctx, func(tx *sqlx.Tx) error {
		// FOR SHARE: a claim by another worker waits until these steps are visible to it, or comes first and wins.
		res, err := tx.ExecContext(ctx, `WITH mine AS (
			  SELECT run_id FROM open_runs WHERE run_id = $1 AND fence = $2 AND status = 'running' FOR SHARE
			)
			INSERT INTO steps (run_id, n, fence, step)
			SELECT mine.run_id, u.n, $2, u.step::json FROM mine, unnest($3::int[], $4::text[]) AS u (n, step)`,
			held.RunID, held.Fence, pq.Array(numbers), pq.Array(texts))
		if err != nil {
			return err
		}
		n, err = res.RowsAffected()
		return err
	})
	if err != nil {
		return false, fmt.Errorf("writing journal: %w", err)
	}
	return n == int64(len(steps)), nil
}

// Steps reads a run's journal in order.
func (s *Store) Steps(ctx context.Context, runID string) ([][]byte, error) {
	var steps [][]byte
	if err := s.db.SelectContext(ctx, &steps, `SELECT step FROM steps WHERE run_id = $1 ORDER BY n`, runID); err != nil {
		return nil, fmt.Errorf("reading journal: %w", err)
	}
	return steps, nil
}
