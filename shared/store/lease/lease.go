// Package lease defines the leases with which workers hold runs and documents: their duration, the
// number of lost workers after which a run or document fails, and the fence that guards the writes
// to a run.
package lease

import (
	"context"
	"time"

	"github.com/jmoiron/sqlx"

	"parley/shared/store/pg"
)

// MaxDeaths is the number of attempts that may end with the death of their worker. After that many
// deaths, the run or document fails, because it may be the cause of the deaths.
const MaxDeaths = 5

// Held identifies a run and the fence under which a worker holds it.
type Held struct {
	RunID          string
	OrganizationID string
	Fence          int64
}

// UnderFence calls f in a transaction if the run is running under the held fence, and passes the
// end of the lease to f. It returns false, without calling f, if the worker no longer holds the
// run.
func UnderFence(ctx context.Context, db *pg.DB, held Held, f func(tx *sqlx.Tx, lease time.Time) error) (kept bool, err error) {
	err = db.Within(ctx, []string{held.OrganizationID}, func(tx *sqlx.Tx) error {
		// FOR SHARE keeps the fence from changing until the transaction ends, so that f's writes
		// are those of the current attempt.
		var lease time.Time
		err := tx.GetContext(ctx, &lease, `SELECT lease_until FROM open_runs
			WHERE run_id = $1 AND org_id = $2 AND fence = $3 AND status = 'running' FOR SHARE`, held.RunID, held.OrganizationID, held.Fence)
		if kept = err == nil; !kept {
			return pg.IgnoreNone(err)
		}
		return f(tx, lease)
	})
	return kept && err == nil, err
}
