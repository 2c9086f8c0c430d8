package executiondb

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"parley/shared/domain"
	"parley/shared/store/lease"
	"parley/shared/store/pg"
	"parley/shared/store/rundb"
)

// noteEnd returns the statement that records the end of attempts that did not finish their run.
// source is a relation with run_id, fence, org_id, attempts and started_at. status, code and
// message are SQL expressions. The start of an attempt after the first is already recorded; see
// NoteAttempts.
func noteEnd(source, status, code, message string) string {
	return `INSERT INTO run_attempts (run_id, fence, org_id, kind, attempt, began_at, ended_at, status, code, message)
		SELECT run_id, fence, org_id, 'attempt', attempts, CASE WHEN attempts = 1 THEN started_at ELSE clock_timestamp() END,
		clock_timestamp(), ` + status + `, ` + code + `, ` + message + ` FROM ` + source + `
		ON CONFLICT (run_id, fence) DO UPDATE SET ended_at = excluded.ended_at, status = excluded.status, code = excluded.code, message = excluded.message`
}

// requeueNote returns the status, code and message to record for an attempt that was requeued. code
// is nil if the worker released the run without an error of the attempt.
func requeueNote(cause *domain.RunError) (status domain.SpanStatus, code *string, message string) {
	// Without a cause, the worker released the run for a reason that concerns the process, such as
	// a shutdown.
	if cause == nil {
		return domain.SpanLost, nil, rundb.EndedBack
	}
	return domain.SpanFailed, &cause.Code, cleanText(cause.Message)
}

// cleanText replaces invalid UTF-8 and removes NUL, so that a text column accepts the string.
func cleanText(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "")
}

// noteQuery records the starts of attempts, ends the earlier attempts whose end is not recorded, and
// records first attempts. It waits for no lock.
//
// A run's first attempt is recorded only when the second one starts, so that runs with one attempt
// need no write. Usually the sweeper has already recorded the first attempt when it requeued the
// run. The record is missing if a claim took over the run before the sweeper, or if a binary of the
// previous release requeued the run.
const noteQuery = `WITH asked AS MATERIALIZED (
	  SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::int[], $5::timestamptz[], $6::timestamptz[],
	      $7::text[], $8::text[], $9::text[])
	    AS u (run_id, org_id, fence, attempts, began_at, started_at, status, code, message)
	), mine AS MATERIALIZED (
	  SELECT a.* FROM open_runs o JOIN asked a USING (run_id, org_id, fence)
	  WHERE o.status = 'running' ORDER BY o.run_id FOR SHARE OF o SKIP LOCKED
	), lost AS (
	  UPDATE run_attempts t SET ended_at = m.began_at, status = 'lost', message = $10 FROM mine m
	  WHERE t.run_id = m.run_id AND t.org_id = m.org_id AND t.fence < m.fence AND t.kind = 'attempt' AND t.ended_at IS NULL
	), first AS (
	  INSERT INTO run_attempts (run_id, fence, org_id, kind, attempt, began_at, ended_at, status, code, message)
	  SELECT run_id, 1, org_id, 'attempt', 1, started_at, began_at, status, code, message FROM mine WHERE attempts = 2
	  ON CONFLICT (run_id, fence) DO NOTHING
	), noted AS (
	  INSERT INTO run_attempts (run_id, fence, org_id, kind, attempt, began_at)
	  SELECT run_id, fence, org_id, 'attempt', attempts, began_at FROM mine
	  ON CONFLICT (run_id, fence) DO NOTHING
	)
	SELECT o.run_id, o.fence FROM open_runs o JOIN asked USING (run_id, org_id, fence)
	WHERE o.status = 'running' AND NOT EXISTS (SELECT FROM mine m WHERE m.run_id = o.run_id)`

// NoteAttempts records the starts of attempts after the first, and marks earlier attempts as lost
// if their end is not recorded. It writes nothing about a run that the worker no longer holds. The
// result contains a value for each claim, in the same order. The value is true if another
// transaction has locked the run; nothing was written about it.
func (s *Store) NoteAttempts(ctx context.Context, claims []Claimed) (locked []bool, err error) {
	// The run's last error comes from the first attempt only if no worker of the run was lost.
	statuses, codes, messages := make([]string, len(claims)), make([]*string, len(claims)), make([]string, len(claims))
	for i, c := range claims {
		statuses[i], messages[i] = string(domain.SpanLost), rundb.EndedLost
		var cause domain.RunError
		if c.Deaths == 0 && json.Unmarshal(c.LastError.V, &cause) == nil {
			var status domain.SpanStatus
			status, codes[i], messages[i] = requeueNote(&cause)
			statuses[i] = string(status)
		}
	}

	// The statement returns only the runs that were locked.
	var rows []attemptKey
	orgs := pg.Column(claims, func(c *Claimed) string { return c.OrganizationID })
	err = s.db.Within(ctx, orgs, func(tx *sqlx.Tx) error {
		// FOR SHARE keeps the runs from being requeued or finished until the notes are committed. An
		// attempt that no longer holds its run therefore writes nothing.
		rows = rows[:0]
		return tx.SelectContext(ctx, &rows, noteQuery,
			pq.Array(pg.Column(claims, func(c *Claimed) string { return c.RunID })), pq.Array(orgs),
			pq.Array(pg.Column(claims, func(c *Claimed) int64 { return c.Fence })),
			pq.Array(pg.Column(claims, func(c *Claimed) int { return c.Attempts })),
			pq.Array(pg.Column(claims, func(c *Claimed) time.Time { return c.Now })),
			pq.Array(pg.Column(claims, func(c *Claimed) time.Time { return c.StartedAt })),
			pq.Array(statuses), pq.Array(codes), pq.Array(messages), rundb.EndedLost)
	})
	if err != nil {
		return nil, fmt.Errorf("noting attempts: %w", err)
	}

	locked = make([]bool, len(claims))
	for i, c := range claims {
		locked[i] = slices.Contains(rows, attemptKey{c.RunID, c.Fence})
	}
	return locked, nil
}

// NoteRefusal records the response with which a provider refused a model call of an attempt. It
// writes nothing if the worker no longer holds the run. The end of the attempt is recorded later.
func (s *Store) NoteRefusal(ctx context.Context, held lease.Held, refusal domain.ProviderError) error {
	err := s.db.Within(ctx, []string{held.OrganizationID}, func(tx *sqlx.Tx) error {
		// A second refusal in the same attempt replaces the first.
		_, err := tx.ExecContext(ctx, `WITH mine AS (
			  SELECT run_id, fence, org_id, attempts, started_at FROM open_runs
			  WHERE run_id = $1 AND org_id = $2 AND fence = $3 AND status = 'running' FOR SHARE
			)
			INSERT INTO run_attempts (run_id, fence, org_id, kind, attempt, began_at, provider_status, provider_message)
			SELECT run_id, fence, org_id, 'attempt', attempts, CASE WHEN attempts = 1 THEN started_at ELSE clock_timestamp() END, $4, $5 FROM mine
			ON CONFLICT (run_id, fence) DO UPDATE SET provider_status = excluded.provider_status, provider_message = excluded.provider_message`,
			held.RunID, held.OrganizationID, held.Fence, refusal.Status, cleanText(refusal.Message))
		return err
	})
	if err != nil {
		return fmt.Errorf("storing a provider's error response: %w", err)
	}

	return nil
}

// Failures counts attempts of a run that failed with the same code.
type Failures struct {
	All     int `db:"all_failures"`
	Refused int `db:"refused"` // number of these attempts in which a model provider responded with an error
}

// FailedSinceStep counts the attempts of a run that have failed with the given error code since the
// last recorded step. The current attempt does not count. The caller uses the number to decide
// whether another attempt is useful.
func (s *Store) FailedSinceStep(ctx context.Context, held lease.Held, code string) (n Failures, err error) {
	err = s.db.Within(ctx, []string{held.OrganizationID}, func(tx *sqlx.Tx) error {
		return tx.GetContext(ctx, &n, `SELECT count(*) AS all_failures, count(provider_status) AS refused FROM run_attempts WHERE run_id = $1 AND org_id = $2 AND kind = 'attempt' AND fence < $3
			AND code = $4 AND fence >= coalesce((SELECT max(fence) FROM steps WHERE run_id = $1 AND org_id = $2), 0)`,
			held.RunID, held.OrganizationID, held.Fence, code)
	})
	if err != nil {
		return Failures{}, fmt.Errorf("counting failed attempts: %w", err)
	}

	return n, nil
}

// endedWait is the end of a run's wait for a person's decision, or for results of its client's
// tools.
type endedWait struct {
	runID, organizationID, callID string
	status                        domain.SpanStatus
	code                          string // the decision, or the reason why the run ended
	parked                        string // the reason why the attempt before the wait ended
}

// newEndedWait returns the end of a parked run's wait. code is the decision, or the code of the
// reason why the run ended.
func newEndedWait(row openRow, status domain.SpanStatus, code string) endedWait {
	action := row.Stored().Run.RequiredAction
	over := endedWait{runID: row.ID, organizationID: row.OrganizationID, status: status, code: code, parked: rundb.ParkedReason(action)}
	if action != nil {
		over.callID = cleanText(action.ToolCallID)
	}
	return over
}

// noteWaits records for how long runs were parked, and the end of the attempt before each wait. The
// fence of this attempt is one lower than the parked run's. The rows must be locked. Call it before
// the rows change, because the change deletes the times at which the runs were parked. A batch
// without parked runs needs no statement.
func noteWaits(ctx context.Context, tx *sqlx.Tx, over []endedWait) error {
	if len(over) == 0 {
		return nil
	}

	_, err := tx.ExecContext(ctx, `WITH parked AS (
		  SELECT o.run_id, o.fence, o.org_id, o.attempts, o.started_at, o.parked_at, u.call_id, u.status, u.code, u.reason
		  FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[]) AS u (run_id, org_id, call_id, status, code, reason)
		  JOIN open_runs o ON o.run_id = u.run_id AND o.org_id = u.org_id WHERE o.parked_at IS NOT NULL
		)
		INSERT INTO run_attempts (run_id, fence, org_id, kind, attempt, began_at, ended_at, status, code, message, call_id)
		SELECT run_id, fence - 1, org_id, 'attempt', attempts, CASE WHEN attempts = 1 THEN started_at ELSE parked_at END, parked_at,
		  'completed', NULL, reason, NULL FROM parked
		UNION ALL
		SELECT run_id, fence, org_id, 'wait', attempts, parked_at, clock_timestamp(), status, code, NULL, call_id FROM parked
		ON CONFLICT (run_id, fence) DO UPDATE SET ended_at = excluded.ended_at, status = excluded.status, message = excluded.message`,
		pq.Array(pg.Column(over, func(w *endedWait) string { return w.runID })),
		pq.Array(pg.Column(over, func(w *endedWait) string { return w.organizationID })),
		pq.Array(pg.Column(over, func(w *endedWait) string { return w.callID })),
		pq.Array(pg.Column(over, func(w *endedWait) string { return string(w.status) })),
		pq.Array(pg.Column(over, func(w *endedWait) string { return w.code })),
		pq.Array(pg.Column(over, func(w *endedWait) string { return w.parked })))
	if err != nil {
		return fmt.Errorf("noting wait: %w", err)
	}

	return nil
}

// noteEndedWaits calls noteWaits for the runs that end while they wait. rows and outcomes are
// parallel.
func noteEndedWaits(ctx context.Context, tx *sqlx.Tx, rows []openRow, outcomes []Outcome) error {
	var over []endedWait
	for i, row := range rows {
		if row.Status != string(domain.RunRequiresAction) {
			continue
		}

		// A cancelled run has no error, so its status is recorded as the reason.
		code := string(outcomes[i].Run.Status)
		if cause := outcomes[i].Run.Error; cause != nil {
			code = cause.Code
		}
		over = append(over, newEndedWait(row, domain.SpanFailed, code))
	}
	return noteWaits(ctx, tx, over)
}
