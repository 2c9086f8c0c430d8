package sessiondb

import (
	"context"
	"fmt"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"parley/shared/domain"
	"parley/shared/store/blobdb"
	"parley/shared/store/executiondb"
	"parley/shared/store/pg"
)

// EraseBatch is the number of runs of a long session that are erased in one transaction.
const EraseBatch = 1000

// EraseSession erases a session: the inputs, answers, playback positions, tool calls, sources and
// files of its runs, their journals and events, and then the session. A later message with the same
// session id begins a new session. Open runs are cancelled and returned, so that their workers and
// waiting requests can be notified. Each run leaves a tombstone without text, so that a repeated
// request is not mistaken for a new one. The tombstone is kept as long as the run's idempotency
// key, and at least for a day.
//
// Erasing a session with very many runs takes several transactions. The last one erases the newest
// runs and the session itself. If the process dies in between, the session can be erased again.
func (s *Store) EraseSession(ctx context.Context, name SessionName) ([]executiondb.Ended, error) {
	var ended []executiondb.Ended
	var found Session
	err := s.db.Within(ctx, []string{name.OrganizationID}, func(tx *sqlx.Tx) (err error) {
		found, err = findSession(ctx, tx, name)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("erasing session: %w", err)
	}

	// The finished runs of a long session are erased first, so that the last transaction stays
	// short.
	last, err := s.eraseEndedRuns(ctx, name.OrganizationID, found)
	if err != nil {
		return nil, fmt.Errorf("erasing session: %w", err)
	}

	err = s.db.Within(ctx, []string{name.OrganizationID}, func(tx *sqlx.Tx) (err error) {
		if ended, err = closeSession(ctx, tx, found.Ref, last); err != nil {
			return err
		}
		return blobdb.ForgetUploads(ctx, tx, name.OrganizationID, found.Principal, found.SessionID)
	})
	if err != nil {
		return nil, fmt.Errorf("erasing session: %w", err)
	}

	return ended, nil
}

// eraseEndedRuns erases the finished runs of a long session, from the beginning up to the first
// open run. It returns the number of the last erased run. New runs may be added in the meantime.
func (s *Store) eraseEndedRuns(ctx context.Context, org string, of Session) (last int, err error) {
	for more := of.Runs > EraseBatch; more; {
		var upTo, newest int
		err = s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) (err error) {
			// The range is read again in each transaction, because runs may end and begin in
			// between.
			if upTo, newest, err = Ends(ctx, tx, of.Ref); err != nil {
				return err
			}

			upTo = min(upTo, last+EraseBatch)
			return EraseRuns(ctx, tx, Span{Ref: of.Ref, After: last, UpTo: upTo})
		})
		if err != nil {
			return 0, err
		}

		// The loop stops before an open run. The method closeSession erases the remaining runs.
		more = upTo == last+EraseBatch && upTo < newest
		last = max(last, upTo) // set after the commit, because the transaction may be retried
	}

	return last, nil
}

// Ends returns the number of a session's last run before the first open run, and the number of the
// session's last run.
func Ends(ctx context.Context, tx *sqlx.Tx, ref int64) (ended, last int, err error) {
	var found struct {
		Open *int `db:"open"`
		Last int  `db:"last"`
	}
	err = tx.GetContext(ctx, &found, `SELECT (SELECT min(seq) FROM open_runs WHERE session_ref = $1) AS open,
		(SELECT coalesce(max(seq), 0) FROM runs WHERE session_ref = $1) AS last`, ref)

	// Runs after the first open run may have finished, but they are erased together with the open
	// runs.
	if found.Open != nil {
		return *found.Open - 1, found.Last, err
	}
	return found.Last, found.Last, err
}

// closeSession cancels the open runs of a session, erases the runs whose numbers are greater than
// last, and deletes the session. It returns the cancelled runs, or not_found if the session does
// not exist. The caller publishes the end of the cancelled runs after the commit.
func closeSession(ctx context.Context, tx *sqlx.Tx, ref int64, last int) ([]executiondb.Ended, error) {
	ended, held, err := CloseSessions(ctx, tx, []Span{{Ref: ref, After: last, UpTo: -1}})
	if err == nil && held == 0 { // a concurrent request has erased the session
		err = pg.NotFound()
	}
	return ended, err
}

// CloseSessions closes parts of sessions. Each part reaches to the end of its session.
// CloseSessions cancels the open runs in the parts, erases the parts, and deletes the sessions that
// have no runs left. The result held is the number of sessions that existed.
//
// CloseSessions first locks the sessions, in the order in which acceptance locks them. A message
// may be accepted concurrently. If its acceptance locks the session first, the later statements of
// CloseSessions see its run. Otherwise the acceptance waits for the lock, and its run then begins a
// new session or follows the erased part. CloseSessions then locks the open runs. A worker that
// holds such a run has either written the result already, or finds that the run's row is gone and
// writes nothing.
func CloseSessions(ctx context.Context, tx *sqlx.Tx, parts []Span) (ended []executiondb.Ended, held int, err error) {
	refs := pq.Array(pg.Column(parts, func(p *Span) int64 { return p.Ref }))
	var locked []int64
	if err := tx.SelectContext(ctx, &locked, `SELECT ref FROM sessions WHERE ref = ANY ($1) ORDER BY key FOR UPDATE`, refs); err != nil {
		return nil, 0, err
	}

	var open []struct {
		RunID          string      `db:"run_id"`
		OrganizationID string      `db:"org_id"`
		Lane           domain.Lane `db:"lane"`
		Dispatched     bool        `db:"dispatched"`
		ReplyTo        string      `db:"reply_to"`
	}

	err = tx.SelectContext(ctx, &open, `SELECT o.run_id, o.org_id, o.lane, o.dispatched, o.reply_to FROM unnest($1::bigint[], $2::int[]) AS u (ref, after)
		JOIN open_runs o ON o.session_ref = u.ref AND o.seq > u.after ORDER BY o.run_id FOR UPDATE OF o`, refs, pq.Array(pg.Column(parts, func(p *Span) int { return p.After })))
	if err != nil {
		return nil, 0, err
	}

	ids := make([]string, len(open))
	for i, r := range open {
		ids[i] = r.RunID
		ended = append(ended, executiondb.Ended{
			RunID: r.RunID, OrganizationID: r.OrganizationID, Lane: r.Lane, Dispatched: r.Dispatched, ReplyTo: r.ReplyTo,
		})
	}

	// Runs are erased before their open rows are deleted, because eraseQuery reads these rows.
	if err := EraseRuns(ctx, tx, parts...); err != nil {
		return nil, 0, err
	}

	if _, err := tx.ExecContext(ctx, `DELETE FROM open_runs WHERE run_id = ANY ($1)`, pq.Array(ids)); err != nil {
		return nil, 0, err
	}

	_, err = tx.ExecContext(ctx, `DELETE FROM sessions s WHERE s.ref = ANY ($1)
		AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.session_ref = s.ref AND`+NotErased+`)`, refs)
	return ended, len(locked), err
}

// Span is a part of a session: the runs whose numbers are greater than After and at most UpTo. A
// negative UpTo means up to the end.
type Span struct {
	Ref         int64
	After, UpTo int
}

// NotErased is the condition that a run was not erased. An erased run has a status but no result.
const NotErased = ` (r.status IS NULL OR r.result IS NOT NULL)`

// eraseQuery erases runs, except their times, cost and idempotency keys. A run whose retention
// period has ended remains expired. The final event of an open run gets a reserved number, which
// marks a final event that the run's worker has not written.
const eraseQuery = `UPDATE runs e SET input = '{}', result = NULL, answer = NULL, session_id = '', automation_id = NULL,
	  idempotency_key = NULL, fingerprint = NULL, status = coalesce(e.status, 'cancelled'), attempts = coalesce(e.attempts, kept.attempts, 0),
	  finished_at = coalesce(e.finished_at, date_trunc('milliseconds', clock_timestamp())),
	  end_fence = coalesce(e.end_fence, kept.fence + 1), end_n = coalesce(e.end_n, 1),
	  expires_at = kept.until, sweep_after = kept.until
	FROM (
	  SELECT r.id, o.fence, o.attempts, CASE WHEN r.expires_at <= clock_timestamp() THEN r.expires_at
	    ELSE greatest(r.expires_at, clock_timestamp() + interval '24 hours',
	      CASE WHEN r.status IS NULL THEN clock_timestamp() + make_interval(secs => r.retention) END) END AS until
	  FROM unnest($1::bigint[], $2::int[], $3::int[]) AS u (ref, after, up_to)
	  JOIN runs r ON r.session_ref = u.ref AND r.seq > u.after AND (u.up_to < 0 OR r.seq <= u.up_to) AND` + NotErased + `
	  LEFT JOIN open_runs o ON o.run_id = r.id ORDER BY r.session_ref, r.seq FOR UPDATE OF r
	) kept WHERE e.id = kept.id RETURNING e.id`

// EraseRuns erases the text and the records of the runs in the given parts of sessions. It leaves
// the rows of open_runs, which the caller deletes. Repetitions change nothing.
func EraseRuns(ctx context.Context, tx *sqlx.Tx, parts ...Span) error {
	var runs []string
	err := tx.SelectContext(ctx, &runs, eraseQuery, pq.Array(pg.Column(parts, func(p *Span) int64 { return p.Ref })),
		pq.Array(pg.Column(parts, func(p *Span) int { return p.After })), pq.Array(pg.Column(parts, func(p *Span) int { return p.UpTo })))
	if err != nil {
		return err
	}

	if err := blobdb.ForgetCalls(ctx, tx, runs); err != nil {
		return err
	}

	for _, query := range []string{
		`DELETE FROM steps WHERE run_id = ANY ($1)`, `DELETE FROM run_events WHERE run_id = ANY ($1)`,
		`DELETE FROM run_attempts WHERE run_id = ANY ($1)`, `DELETE FROM heard WHERE run_id = ANY ($1)`,
	} {
		if _, err := tx.ExecContext(ctx, query, pq.Array(runs)); err != nil {
			return err
		}
	}

	return nil
}
