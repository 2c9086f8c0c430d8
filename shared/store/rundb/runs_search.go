package rundb

import (
	"context"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"parley/shared/domain"
	"parley/shared/store/pg"
)

// searchPatience is the time after which a search returns the runs that it has found so far.
const searchPatience = time.Second

// SearchRuns is like ListRuns, but returns only finished runs that contain the words of the filter.
// A run can be found a few seconds after it finishes. If the search takes longer than
// searchPatience, SearchRuns ends early. To continue the search, the caller sets the filter's
// Before to next. next is empty if the search is complete or has found limit runs.
func (s *Store) SearchRuns(ctx context.Context, org string, f RunFilter, limit int) (runs []domain.RunSummary, next string, err error) {
	since, before := f.bounds()
	characters := f.characters()
	var found []struct {
		ID    string `db:"run_id"`
		Found bool   `db:"found"`
	}
	var rows []summaryRow
	err = s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		found, rows, next = found[:0], nil, ""
		err := tx.SelectContext(ctx, &found, `SELECT run_id, found FROM search_runs($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)`,
			org, f.Words, before, since, pq.Array(f.Principals), f.AgentID, f.SessionID, f.AutomationID, f.TriggerType, string(f.Status),
			optionalTime(f.From), optionalTime(f.Until), limit, pg.Interval(searchPatience))
		if err != nil {
			return err
		}

		// An unfinished search returns an additional row with the id of the last run that it has
		// searched.
		var ids []string
		for _, row := range found {
			if !row.Found {
				next = row.ID
				break
			}
			ids = append(ids, row.ID)
		}
		return tx.SelectContext(ctx, &rows, `SELECT `+summaryColumns(characters)+runFrom+`WHERE r.id = ANY ($1) AND r.org_id = $2
			AND r.result IS NOT NULL ORDER BY r.id DESC`, pq.Array(ids), org)
	})
	if err != nil {
		return nil, "", fmt.Errorf("searching runs: %w", err)
	}

	runs, err = summaries(rows, characters)
	return runs, next, err
}

// IndexRuns adds the words of at most limit finished runs to the index of SearchRuns. It returns
// the number of runs that it handled. The sweeper calls it until the result is below limit.
func (s *Store) IndexRuns(ctx context.Context, limit int) (n int, err error) {
	if err := s.db.GetContext(ctx, &n, `SELECT index_runs($1)`, limit); err != nil {
		return 0, fmt.Errorf("indexing finished runs: %w", err)
	}
	return n, nil
}
