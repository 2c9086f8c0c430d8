package hookdb

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/jmoiron/sqlx"

	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/store/pg"
)

// MaxRejected is the maximum number of a hook's log entries for rejected deliveries from verified
// senders, and also the maximum for rejected deliveries from other senders. The newest entries are
// kept. A page of the log has more entries than both maxima together, so a page never consists of
// rejected deliveries only.
const MaxRejected = 5

// Rejected is a delivery without a valid signature. Anyone can send such deliveries, so only little
// data about them is stored, and deliveries from one address that are rejected for the same reason
// share a log entry.
type Rejected struct {
	Client   string // the client's address
	Verified bool   // the address has sent a signed delivery to the hook
	Reason   string
	Bytes    int64
}

// group returns the common prefix of the ids of a hook's entries to which the same maximum applies:
// the entries of verified senders, or those of other senders.
func (r *Rejected) group() string {
	if r.Verified {
		return "rejected:verified:"
	}
	return "rejected:unverified:"
}

// deliveryID returns the id of the log entry for a rejected delivery.
func (r *Rejected) deliveryID() string {
	// The id depends on the address and the reason, so repeated rejections share the first
	// rejection's entry.
	sum := sha256.Sum256([]byte(r.Client + "\x00" + r.Reason))
	return r.group() + hex.EncodeToString(sum[:8])
}

// LogRejected logs a rejected delivery to an organization's hook. It keeps at most MaxRejected
// entries of verified senders, and as many entries of other senders. It does nothing if the hook is
// deleted.
func (s *Store) LogRejected(ctx context.Context, org, hookID string, r Rejected) error {
	err := s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		if err := pg.AdvisoryLock(ctx, tx, "rejected deliveries "+hookID); err != nil {
			return err
		}

		// A repeated rejection moves its entry to the beginning of the log.
		if _, err := tx.ExecContext(ctx, `INSERT INTO deliveries AS d
				(hook_id, delivery_id, org_id, status, event, bytes, content_type, error_code, error_message)
			SELECT h.id, $3, h.org_id, 'rejected', '', $4, '', $5, $6 FROM hooks h WHERE h.id = $1 AND h.org_id = $2 AND h.deleted_at IS NULL
			ON CONFLICT (hook_id, delivery_id) DO UPDATE SET duplicates = d.duplicates + 1, ref = excluded.ref, bytes = excluded.bytes,
				received_at = excluded.received_at, sweep_after = excluded.sweep_after
			WHERE d.status = 'rejected'`,
			hookID, org, r.deliveryID(), r.Bytes, apierr.Unauthenticated, r.Reason+"; sent from "+r.Client); err != nil {
			return err
		}

		// Only the newest entries are kept, because anyone can cause new entries.
		_, err := tx.ExecContext(ctx, `DELETE FROM deliveries WHERE hook_id = $1 AND org_id = $2 AND status = 'rejected' AND ref IN (
			SELECT ref FROM deliveries WHERE hook_id = $1 AND org_id = $2 AND status = 'rejected' AND starts_with(delivery_id, $3)
			ORDER BY ref DESC OFFSET $4)`, hookID, org, r.group(), MaxRejected)
		return err
	})
	if err != nil {
		return fmt.Errorf("logging %s delivery: %w", domain.DeliveryRejected, err)
	}
	return nil
}
