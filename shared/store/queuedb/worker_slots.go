package queuedb

import (
	"context"
	"fmt"
	"time"

	"parley/shared/domain"
	"parley/shared/store/pg"
)

// AnnounceSlots records that a worker executes up to n runs of each lane. The record expires after
// ttl, so the worker repeats the call before that time. Runs are dispatched into the announced
// slots. n = 0 removes the worker.
func (s *Store) AnnounceSlots(ctx context.Context, workerID string, n int, ttl time.Duration) error {
	if _, err := s.db.ExecContext(ctx, `SELECT announce_slots($1, $2, $3)`, workerID, n, pg.Interval(ttl)); err != nil {
		return fmt.Errorf("announcing slots: %w", err)
	}
	s.slots.forget()
	return nil
}

// countSlots counts the slots of all workers, the dispatched runs, and the lanes with waiting runs.
// It is the expensive count on which the estimate of slots is based.
func (s *Store) countSlots(ctx context.Context) (count, error) {
	const query = `SELECT org_id, lane, runs, waits FROM count_slots()`
	stmt, err := s.db.Prepared(ctx, query)
	if err != nil {
		return count{}, err
	}

	var rows []struct {
		OrganizationID string      `db:"org_id"` // empty: runs is the number of slots
		Lane           domain.Lane `db:"lane"`
		Runs           int         `db:"runs"`
		Waits          bool        `db:"waits"`
	}
	if err := stmt.SelectContext(ctx, &rows); err != nil {
		return count{}, fmt.Errorf("counting slots: %w", err)
	}

	// The row whose organization is empty contains the number of slots of all workers.
	out := count{dispatched: make(map[Lane]int, len(rows))}
	for _, r := range rows {
		if r.OrganizationID == "" {
			out.slots = r.Runs
			continue
		}
		lane := Lane{r.OrganizationID, r.Lane}
		out.dispatched[lane] = r.Runs
		if r.Waits {
			out.waiting = append(out.waiting, lane)
		}
	}
	return out, nil
}
