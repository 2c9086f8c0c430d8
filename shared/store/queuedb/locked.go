package queuedb

import (
	"context"
	"fmt"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
)

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
