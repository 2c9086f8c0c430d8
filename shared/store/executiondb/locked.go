package executiondb

import (
	"context"
	"fmt"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
)

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
