package sessiondb

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"parley/shared/domain"
	"parley/shared/store/blobdb"
	"parley/shared/store/pg"
	"parley/shared/store/rundb"
)

// DeleteExpired checks runs whose retention may be over, at most limit of them, and returns how
// many it checked. If no other run keeps the run's session alive, it removes the run together with
// its journal, events, calls, files and sources, and then the session. A run whose session is kept
// alive is checked again when the newest run of the session has expired.
func (s *Store) DeleteExpired(ctx context.Context, limit int) (int, error) {
	expired, err := s.db.Find(ctx, `SELECT run_id, org_id FROM expired_runs($1)`, limit)
	if err != nil || len(expired.Runs) == 0 {
		return 0, err
	}
	return s.deleteFound(ctx, expired)
}

// deleteFound implements DeleteExpired for the found runs. If a run cannot be removed, it bisects
// to find that run, so that the other runs are removed. The run that failed is tried again an hour
// later.
func (s *Store) deleteFound(ctx context.Context, expired pg.Found) (int, error) {
	n, err := s.deleteDue(ctx, expired)
	var refused *pq.Error
	switch {
	// An error that PostgreSQL reports, including a cancelled statement (57014), may be caused by
	// one of the runs. Any other error, such as a lost connection or a full disk, concerns the
	// whole call.
	case err == nil || !errors.As(err, &refused) || pg.IsDisconnect(err) && !pg.HasCode(err, "57014"):
		return n, err
	case len(expired.Runs) > 1:
		half := len(expired.Runs) / 2
		first, err := s.deleteFound(ctx, pg.Found{Runs: expired.Runs[:half], Organizations: expired.Organizations[:half]})
		second, err2 := s.deleteFound(ctx, pg.Found{Runs: expired.Runs[half:], Organizations: expired.Organizations[half:]})
		return first + second, errors.Join(err, err2)
	}

	// Without the postponement, the same run would fail in every pass and delay the removal of
	// other runs.
	later := s.db.Within(ctx, expired.Organizations, func(tx *sqlx.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE runs SET sweep_after = now() + interval '1 hour' WHERE id = ANY ($1)`, pq.Array(expired.Runs))
		return err
	})
	return 1, errors.Join(fmt.Errorf("run %s: %w", expired.Runs[0], err), later)
}

// deleteDue removes or postpones the found runs in one transaction. It returns the number of runs
// that were due and not locked.
func (s *Store) deleteDue(ctx context.Context, expired pg.Found) (int, error) {
	var due []dueRun
	err := s.db.Within(ctx, expired.Organizations, func(tx *sqlx.Tx) error {
		due = due[:0]
		err := tx.SelectContext(ctx, &due, `
			WITH due AS MATERIALIZED (
			  SELECT id, session_ref FROM runs WHERE id = ANY ($1) AND (sweep_after <= now()) IS TRUE -- by the ids alone
			  ORDER BY id FOR UPDATE SKIP LOCKED
			), alive AS MATERIALIZED (
			  SELECT s.session_ref, newest.until FROM (SELECT DISTINCT session_ref FROM due) s CROSS JOIN LATERAL (
			    SELECT coalesce(r.expires_at, now() + interval '1 hour') AS until FROM runs r
			    WHERE r.session_ref = s.session_ref AND (r.expires_at IS NULL OR r.expires_at > now()) ORDER BY r.seq DESC LIMIT 1) newest
			)
			SELECT due.id, due.session_ref, alive.until FROM due LEFT JOIN alive USING (session_ref)`, pq.Array(expired.Runs))
		if err != nil {
			return err
		}

		return removeOrPostpone(ctx, tx, due)
	})
	if err != nil {
		return 0, fmt.Errorf("deleting expired runs: %w", err)
	}

	return len(due), nil
}

// pastUsage is how long the usage of removed runs is kept.
const pastUsage = 400 * 24 * time.Hour

// PrunePast removes old records of removed runs: rows of usage and automations, at most limit of
// each. It returns the larger of the two counts. The sweeper calls it until the result is below
// limit.
func (s *Store) PrunePast(ctx context.Context, limit int) (n int, err error) {
	if err := s.db.GetContext(ctx, &n, `SELECT prune_past($1, $2, $3)`, limit, pg.Interval(pastUsage), pg.Interval(rundb.PastAutomations)); err != nil {
		return 0, fmt.Errorf("pruning the records of removed runs: %w", err)
	}
	return n, nil
}

// PruneDeliveries removes three kinds of rows, at most limit of each: deliveries older than 30 days
// whose runs are gone, deliveries to deleted hooks, and senders whose verification has expired. It
// returns the largest of the three counts.
func (s *Store) PruneDeliveries(ctx context.Context, limit int) (n int, err error) {
	if err := s.db.GetContext(ctx, &n, `SELECT prune_deliveries($1, $2)`, limit, pg.Interval(domain.SendersKept)); err != nil {
		return 0, fmt.Errorf("pruning deliveries: %w", err)
	}
	return n, nil
}

// dueRun is a run whose retention may be over. Its row is locked.
type dueRun struct {
	ID         string       `db:"id"`
	SessionRef int64        `db:"session_ref"`
	Until      *domain.Time `db:"until"` // time at which the run that keeps the session alive expires; nil if no run does
}

// removeOrPostpone removes the runs whose sessions are not kept alive by another run, and postpones
// the check of the remaining runs. The rows of all these runs must be locked.
func removeOrPostpone(ctx context.Context, tx *sqlx.Tx, due []dueRun) error {
	var gone, kept []string
	var until []*string
	var sessions []int64
	for _, r := range due {
		// If no other run keeps the session alive, this run is removed.
		if r.Until == nil {
			gone, sessions = append(gone, r.ID), append(sessions, r.SessionRef)
			continue
		}
		at := r.Until.Format(time.RFC3339Nano)
		kept, until = append(kept, r.ID), append(until, &at)
	}

	if err := blobdb.ForgetCalls(ctx, tx, gone); err != nil {
		return err
	}

	// Sessions are locked before they are deleted. A concurrent acceptance either waits for the
	// lock, or has already committed its run, which the delete then sees.
	for _, step := range []struct {
		query string
		args  []any
	}{
		{
			`UPDATE runs r SET sweep_after = u.until FROM unnest($1::text[], $2::timestamptz[]) AS u (id, until) WHERE r.id = u.id`,
			[]any{pq.Array(kept), pq.Array(until)},
		},
		{`DELETE FROM steps WHERE run_id = ANY ($1)`, []any{pq.Array(gone)}},
		{`DELETE FROM run_events WHERE run_id = ANY ($1)`, []any{pq.Array(gone)}},
		{`DELETE FROM run_attempts WHERE run_id = ANY ($1)`, []any{pq.Array(gone)}},
		{`DELETE FROM heard WHERE run_id = ANY ($1)`, []any{pq.Array(gone)}},
		{`DELETE FROM runs WHERE id = ANY ($1)`, []any{pq.Array(gone)}},
		{`SELECT 1 FROM sessions WHERE ref = ANY ($1) ORDER BY ref FOR UPDATE`, []any{pq.Array(sessions)}},
		{
			`DELETE FROM sessions s WHERE s.ref = ANY ($1) AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.session_ref = s.ref)`,
			[]any{pq.Array(sessions)},
		},
	} {
		if _, err := tx.ExecContext(ctx, step.query, step.args...); err != nil {
			return err
		}
	}

	return nil
}
