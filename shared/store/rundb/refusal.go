package rundb

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/jmoiron/sqlx"

	"parley/shared/domain"
	"parley/shared/store/pg"
)

// Refusal returns the newest response of a model provider that explains why a run failed with the
// given code. It returns nil if there is none. The attempt that finished the run has no code of its
// own, so its response matches any code.
func (s *Store) Refusal(ctx context.Context, org, runID, code string) (*domain.ProviderError, error) {
	var row struct {
		Status  sql.NullInt64 `db:"provider_status"`
		Message string        `db:"provider_message"`
	}
	err := s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		return pg.IgnoreNone(tx.GetContext(ctx, &row, `SELECT provider_status, coalesce(provider_message, '') AS provider_message FROM run_attempts
			WHERE run_id = $1 AND org_id = $2 AND provider_status IS NOT NULL AND (ended_at IS NULL OR code = $3)
			ORDER BY fence DESC LIMIT 1`, runID, org, code))
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading a provider's error response: %w", err)
	case !row.Status.Valid:
		return nil, nil //nolint:nilnil // no provider refused a call
	}
	return &domain.ProviderError{Status: int(row.Status.Int64), Message: row.Message}, nil
}
