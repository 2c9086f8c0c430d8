package executiondb

import (
	"context"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"parley/shared/store/lease"
	"parley/shared/store/pg"
	"parley/shared/store/queuedb"
)

// Clock is a reading of the database's clock.
type Clock struct {
	Now     time.Time `db:"now"`
	Started time.Time `db:"started"` // when the server started; a promoted standby has a different time
}

// Clock reads the database's clock. The caller compares readings to notice a clock that was set
// back. After a failover, a connection of the pool may reach another server than earlier
// connections.
func (s *Store) Clock(ctx context.Context) (Clock, error) {
	var c Clock
	err := s.db.GetContext(ctx, &c, `SELECT clock_timestamp() AS now, pg_postmaster_start_time() AS started`)
	if err != nil {
		return c, fmt.Errorf("reading the database's clock: %w", err)
	}
	return c, nil
}

// maxRedispatchWait is slightly more than the longest time before the job of a dispatched run is
// published again.
const maxRedispatchWait = "5 minutes 1 second"

// ShortenWaits finds leases and republication times that are later than the code can have set them.
// It replaces them with earlier times, and returns the number of changed rows. Such late times
// occur when the database's clock was set back, or when another server with an earlier clock takes
// over. Without the correction, a lost run would wait until the clock reaches the old time. A
// living worker renews a shortened lease in time.
func (s *Store) ShortenWaits(ctx context.Context) (shortened int64, err error) {
	var orgs []string
	if err := s.db.SelectContext(ctx, &orgs, `SELECT org_id FROM dispatched_organizations()`); err != nil {
		return 0, fmt.Errorf("looking for dispatched runs: %w", err)
	}

	// Locked rows are skipped. Either the transaction that holds the lock sets a new time, or a
	// later call finds the row.
	err = s.db.Within(ctx, orgs, func(tx *sqlx.Tx) error {
		shortened = 0

		// The first statement shortens the leases of running runs. The second statement sets
		// earlier times at which the jobs of unclaimed runs are published again. Rows are changed
		// only if their time is more than a second too late, so rows that were just written stay
		// unchanged.
		for _, q := range []struct {
			query string
			args  []any
		}{
			{`UPDATE open_runs SET lease_until = clock_timestamp() + $1::interval WHERE run_id IN (SELECT run_id FROM open_runs
				WHERE dispatched AND status = 'running' AND lease_until > clock_timestamp() + $1::interval + interval '1 second'
				ORDER BY run_id FOR UPDATE SKIP LOCKED)`, []any{pg.Interval(lease.Lease)}},
			{`UPDATE open_runs SET next_dispatch_at = clock_timestamp() + $1::interval WHERE run_id IN (SELECT run_id FROM open_runs
				WHERE dispatched AND status = 'queued' AND next_dispatch_at > clock_timestamp() + $2::interval
				ORDER BY run_id FOR UPDATE SKIP LOCKED)`, []any{queuedb.FirstRepublish, maxRedispatchWait}},
		} {
			res, err := tx.ExecContext(ctx, q.query, q.args...)
			if err != nil {
				return err
			}
			n, err := res.RowsAffected()
			if err != nil {
				return err
			}
			shortened += n
		}

		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("shortening leases and waits: %w", err)
	}

	return shortened, nil
}
