package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
)

// ErrLocked says that another transaction has locked a row that the call needs. Nothing was written, and the call can be repeated.
var ErrLocked = errors.New("another operation has locked the row")

// IsLocked reports whether a call failed because of another transaction's lock.
func IsLocked(err error) bool { return errors.Is(err, ErrLocked) || hasCode(err, "55P03") }

// A batch serves many organizations, so it waits only briefly for a row that another transaction has locked. Most transactions end
// within that time. After it the batch is carried out without the locked rows.
const (
	batchLockTimeout = 50 * time.Millisecond
	partLockTimeout  = 10 * time.Millisecond // of what is left of a batch that has met a locked row
	skipFor          = time.Second           // after a batch has met a locked row, the next ones do not wait for such rows at all
	splitFor         = time.Second           // how long a batch is split to find locked rows; what is left by then counts as locked
)

// withinBriefly is within for a batch: each lock is waited for no longer than timeout.
func (s *Store) withinBriefly(ctx context.Context, orgs []string, timeout time.Duration, f func(*sqlx.Tx) error) error {
	return s.txAfter(ctx, fmt.Sprintf(`SET LOCAL lock_timeout = %d; SET LOCAL parley.organizations = %s`,
		timeout.Milliseconds(), pq.QuoteLiteral(joinOrganizations(orgs))), f)
}

// lockSessions locks the sessions of the runs and returns the keys of those that another transaction has locked. They are locked in the
// order of their keys, as acceptance does.
func lockSessions(ctx context.Context, tx *sqlx.Tx, rows []NewRun) (map[string]bool, error) {
	var keys, locked [][]byte
	for i := range rows {
		if !rows[i].OwnSession {
			keys = append(keys, rows[i].SessionKey)
		}
	}
	if len(keys) == 0 {
		return map[string]bool{}, nil
	}
	err := tx.SelectContext(ctx, &locked, `WITH free AS MATERIALIZED (
		  SELECT ref FROM sessions WHERE key = ANY ($1) ORDER BY key FOR NO KEY UPDATE SKIP LOCKED)
		SELECT key FROM sessions s WHERE key = ANY ($1) AND NOT EXISTS (SELECT FROM free f WHERE f.ref = s.ref)`, pq.ByteaArray(keys))
	if err != nil {
		return nil, fmt.Errorf("locking sessions: %w", err)
	}
	out := make(map[string]bool, len(locked))
	for _, key := range locked {
		out[string(key)] = true
	}
	return out, nil
}

// lockOpenRuns locks open runs, in the order of their ids, and returns those that another transaction has locked.
func lockOpenRuns(ctx context.Context, tx *sqlx.Tx, runs []string) (map[string]bool, error) {
	var locked []string
	err := tx.SelectContext(ctx, &locked, `WITH free AS MATERIALIZED (
		  SELECT o.run_id FROM open_runs o JOIN runs r ON r.id = o.run_id WHERE o.run_id = ANY ($1)
		  ORDER BY o.run_id FOR UPDATE OF o, r SKIP LOCKED)
		SELECT run_id FROM open_runs o WHERE run_id = ANY ($1) AND NOT EXISTS (SELECT FROM free f WHERE f.run_id = o.run_id)`, pq.Array(runs))
	if err != nil {
		return nil, fmt.Errorf("locking runs: %w", err)
	}
	out := make(map[string]bool, len(locked))
	for _, id := range locked {
		out[id] = true
	}
	return out, nil
}
