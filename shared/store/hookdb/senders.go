package hookdb

import (
	"context"
	"fmt"

	"github.com/jmoiron/sqlx"

	"parley/shared/store/pg"
)

// MaxSenders is the maximum number of verified senders kept per hook. The most recently verified
// senders are kept.
const MaxSenders = 100

// VerifySender records that a client address has sent a signed delivery to an organization's hook.
// Rejected deliveries from this address are then logged separately from those from other addresses.
// VerifySender does nothing if the hook is deleted.
func (s *Store) VerifySender(ctx context.Context, org, hookID, client string) error {
	err := s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		if err := pg.AdvisoryLock(ctx, tx, "hook senders "+hookID); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `INSERT INTO hook_senders (hook_id, client, org_id)
			SELECT h.id, $3, h.org_id FROM hooks h WHERE h.id = $1 AND h.org_id = $2 AND h.deleted_at IS NULL
			ON CONFLICT (hook_id, client) DO UPDATE SET verified_at = excluded.verified_at`, hookID, org, client); err != nil {
			return err
		}

		// If there are too many senders, the senders that were verified longest ago are deleted.
		_, err := tx.ExecContext(ctx, `DELETE FROM hook_senders WHERE hook_id = $1 AND org_id = $2 AND client IN (
			SELECT client FROM hook_senders WHERE hook_id = $1 AND org_id = $2 ORDER BY verified_at DESC OFFSET $3)`, hookID, org, MaxSenders)
		return err
	})
	if err != nil {
		return fmt.Errorf("storing sender of hook: %w", err)
	}

	return nil
}
