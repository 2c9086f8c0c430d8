package pg

import (
	"context"
	"fmt"
	"iter"
	"time"
)

// Bounds for a batch if another transaction has locked one of its rows. A batch serves many
// organizations, so it waits only briefly for the row, although long enough for most locks. It is
// then executed without the locked rows.
const (
	BatchLockTimeout = 50 * time.Millisecond
	PartLockTimeout  = 10 * time.Millisecond // lock timeout for each part of a batch, after a row of the batch was locked
	SplitFor         = time.Second           // time for halving a batch to find locked rows; afterwards, all remaining rows count as locked

	skipDuration = time.Second // for this time after a batch has met a locked row, batches skip locked rows
)

// InParts calls handle with the first n rows and then with the remaining rows, and returns both
// results. If only the second call fails, the first rows stay committed, and each remaining row
// gets the result that failed returns for the error.
func InParts[Q, A any](rows []Q, n int, handle func([]Q) ([]A, error), failed func(error) A) ([]A, error) {
	first, err := handle(rows[:n])
	if err != nil {
		return nil, err
	}

	// The first rows are committed, so their results must be returned even if the second call
	// fails.
	second, err := handle(rows[n:])
	if err != nil {
		for range rows[n:] {
			second = append(second, failed(err))
		}
	}
	return append(first, second...), nil
}

// Found lists runs of several organizations. Its two lists are parallel: one has the organizations,
// the other the runs.
type Found struct {
	Runs, Organizations []string
}

// Find calls an SQL function that searches all organizations. The caller must lock the found rows
// and check them again, in transactions of their organizations.
func (db *DB) Find(ctx context.Context, query string, args ...any) (Found, error) {
	var rows []struct {
		RunID          string `db:"run_id"`
		OrganizationID string `db:"org_id"`
	}
	if err := db.SelectContext(ctx, &rows, query, args...); err != nil {
		return Found{}, fmt.Errorf("searching all organizations: %w", err)
	}

	var out Found
	for _, r := range rows {
		out.Runs, out.Organizations = append(out.Runs, r.RunID), append(out.Organizations, r.OrganizationID)
	}
	return out, nil
}

// Bounds for a sweeper: in one round it handles one kind of row for about RoundTime, in
// transactions of up to MaxPart rows.
const (
	RoundTime = time.Second
	MaxPart   = 500
)

// Parts yields the found runs in parts, each for one transaction, until the round's time limit is
// reached. If another sweeper has locked the rows of a part, the part costs only one statement,
// which skips these rows.
func (f Found) Parts() iter.Seq[Found] {
	until := time.Now().Add(RoundTime)
	return func(yield func(Found) bool) {
		for from := 0; from < len(f.Runs) && time.Now().Before(until); from += MaxPart {
			to := min(from+MaxPart, len(f.Runs))
			if !yield(Found{f.Runs[from:to], f.Organizations[from:to]}) {
				return
			}
		}
	}
}
