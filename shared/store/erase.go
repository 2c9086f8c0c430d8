package store

import (
	"context"
	"fmt"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
)

// eraseBatch is how many runs of a long session are erased in one transaction.
const eraseBatch = 1000

// EraseSession erases a session: what its runs were asked and answered, called, read and made, their journals and events, and then
// the session itself; a message of that name afterwards begins a new one. Its open runs are cancelled and
// given back, for whoever carries them out or waits for them. Of each run a husk without any text stays for
// as long as its idempotency key is kept, a day at least, so that a replay is not taken for a new request.
//
// A session with very many runs goes in several transactions, the newest runs last, together with the
// session: if the service dies in between, the session is still there to be erased again.
func (s *Store) EraseSession(ctx context.Context, name SessionName) ([]Ended, error) {
	var ended []Ended
	var found Session
	err := s.within(ctx, []string{name.OrganizationID}, func(tx *sqlx.Tx) (err error) {
		found, err = findSession(ctx, tx, name)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("erasing session: %w", err)
	}
	last, err := s.eraseEndedRuns(ctx, name.OrganizationID, found)
	if err != nil {
		return nil, fmt.Errorf("erasing session: %w", err)
	}
	err = s.within(ctx, []string{name.OrganizationID}, func(tx *sqlx.Tx) (err error) {
		ended, err = closeSession(ctx, tx, found.Ref, last)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("erasing session: %w", err)
	}
	return ended, nil
}

// eraseEndedRuns erases the runs of a long session from its beginning up to the first one that is open, and
// gives the number of the last one erased. New runs may come meanwhile.
func (s *Store) eraseEndedRuns(ctx context.Context, org string, of Session) (last int, err error) {
	for more := of.Runs > eraseBatch; more; {
		var upTo, n int
		err = s.within(ctx, []string{org}, func(tx *sqlx.Tx) error {
			upTo = last + eraseBatch
			var open *int
			err := tx.GetContext(ctx, &open, `SELECT min(seq) FROM open_runs WHERE session_ref = $1`, of.Ref)
			if err != nil {
				return err
			}
			if open != nil {
				upTo = min(upTo, *open-1)
			}
			n, err = eraseRuns(ctx, tx, of.Ref, last, upTo)
			return err
		})
		if err != nil {
			return 0, err
		}
		last, more = upTo, n > 0 // not before the commit: what was rolled back is erased again
	}
	return last, nil
}

// closeSession ends what is open in a session, erases the runs behind the one numbered last, and deletes it.
// Its row is locked first: a message to it waits, and then begins a new session, or it came first and is seen
// by the statements below, which each look anew. Then the open runs: a worker that holds one has written what
// it had, or finds its row gone and writes nothing.
func closeSession(ctx context.Context, tx *sqlx.Tx, ref int64, last int) ([]Ended, error) {
	var held []int64
	if err := tx.SelectContext(ctx, &held, `SELECT ref FROM sessions WHERE ref = $1 FOR UPDATE`, ref); err != nil {
		return nil, err
	}
	if len(held) == 0 { // somebody else has erased it meanwhile
		return nil, notFound()
	}
	var open []struct {
		RunID          string `db:"run_id"`
		OrganizationID string `db:"org_id"`
		ReplyTo        string `db:"reply_to"`
	}
	if err := tx.SelectContext(ctx, &open, `SELECT run_id, org_id, reply_to FROM open_runs WHERE session_ref = $1
		ORDER BY run_id FOR UPDATE`, ref); err != nil {
		return nil, err
	}
	ended := make([]Ended, len(open))
	for i, r := range open {
		ended[i] = Ended{RunID: r.RunID, OrganizationID: r.OrganizationID, ReplyTo: r.ReplyTo}
	}
	if _, err := eraseRuns(ctx, tx, ref, last, -1); err != nil {
		return nil, err
	}
	for _, query := range []string{`DELETE FROM open_runs WHERE session_ref = $1`, `DELETE FROM sessions WHERE ref = $1`} {
		if _, err := tx.ExecContext(ctx, query, ref); err != nil {
			return nil, err
		}
	}
	return ended, nil
}

// What stays of a run says when it was, what it cost and whose key it holds. A run that was already over by its
// retention stays over. The end of an open one is numbered like any end from outside its worker.
const eraseQuery = `UPDATE runs r SET input = '{}', result = NULL, answer = NULL, session_id = '', automation_id = NULL,
	  idempotency_key = NULL, fingerprint = NULL, status = coalesce(r.status, 'cancelled'), attempts = coalesce(r.attempts, kept.attempts, 0),
	  finished_at = coalesce(r.finished_at, date_trunc('milliseconds', clock_timestamp())),
	  end_fence = coalesce(r.end_fence, kept.fence + 1), end_n = coalesce(r.end_n, 1),
	  expires_at = kept.until, sweep_after = kept.until
	FROM (
	  SELECT e.id, o.fence, o.attempts, CASE WHEN e.expires_at <= clock_timestamp() THEN e.expires_at
	    ELSE greatest(e.expires_at, clock_timestamp() + interval '24 hours',
	      CASE WHEN e.status IS NULL THEN clock_timestamp() + make_interval(secs => e.retention) END) END AS until
	  FROM runs e LEFT JOIN open_runs o ON o.run_id = e.id
	  WHERE e.session_ref = $1 AND e.seq > $2 AND ($3 < 0 OR e.seq <= $3) ORDER BY e.seq FOR UPDATE OF e
	) kept WHERE r.id = kept.id RETURNING r.id`

// eraseRuns takes the text from the runs of a session that are numbered above after, and up to upTo unless that
// is negative, and says how many there were.
func eraseRuns(ctx context.Context, tx *sqlx.Tx, ref int64, after, upTo int) (int, error) {
	var runs []string
	if err := tx.SelectContext(ctx, &runs, eraseQuery, ref, after, upTo); err != nil {
		return 0, err
	}
	if err := forgetCalls(ctx, tx, runs); err != nil {
		return 0, err
	}
	for _, query := range []string{`DELETE FROM steps WHERE run_id = ANY ($1)`, `DELETE FROM run_events WHERE run_id = ANY ($1)`} {
		if _, err := tx.ExecContext(ctx, query, pq.Array(runs)); err != nil {
			return 0, err
		}
	}
	return len(runs), nil
}
