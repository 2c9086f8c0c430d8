package hookdb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"

	"github.com/jmoiron/sqlx"

	"parley/shared/domain"
	"parley/shared/store/pg"
	"parley/shared/store/sealdb"
)

// MaxDeliveryBody is the maximum size in bytes of a stored body. Larger bodies are not stored, but
// their deliveries are logged and handled.
const MaxDeliveryBody = 1 << 20

// DeliveryFilter narrows a list of deliveries. Zero fields are ignored.
type DeliveryFilter struct {
	HookID string
	RunID  string
	Status domain.DeliveryStatus
	Before int64 // only deliveries that are older than the delivery with this Ref
}

// LoggedDelivery is an entry of a delivery log with its position. Newer deliveries have
// higher positions.
type LoggedDelivery struct {
	domain.Delivery

	Ref int64
}

// DeliveryRow is a delivery's row without the body. Other packages that read the table deliveries
// use it with DeliveryColumns.
type DeliveryRow struct {
	Ref          int64          `db:"ref"`
	HookID       string         `db:"hook_id"`
	ID           string         `db:"delivery_id"`
	Status       string         `db:"status"`
	Event        string         `db:"event"`
	RunID        *string        `db:"run_id"`
	Bytes        int64          `db:"bytes"`
	Kept         bool           `db:"kept"`
	ErrorCode    sql.NullString `db:"error_code"`
	ErrorMessage sql.NullString `db:"error_message"`
	ReceivedAt   domain.Time    `db:"received_at"`
	Duplicates   int            `db:"duplicates"`
}

// DeliveryColumns lists the columns of a DeliveryRow, for statements in which d is the alias of the
// table deliveries.
const DeliveryColumns = `d.ref, d.hook_id, d.delivery_id, d.status, d.event, d.run_id, d.bytes, d.body IS NOT NULL AS kept,
	d.error_code, d.error_message, d.received_at, d.duplicates`

// Delivery converts the row to the delivery that callers see.
func (row *DeliveryRow) Delivery() domain.Delivery {
	out := domain.Delivery{
		ID: row.ID, HookID: row.HookID, Status: domain.DeliveryStatus(row.Status), Event: row.Event, RunID: row.RunID,
		Bytes: row.Bytes, Kept: row.Kept, ReceivedAt: row.ReceivedAt, Duplicates: row.Duplicates,
	}
	if row.ErrorCode.Valid {
		out.Error = &domain.RunError{Code: row.ErrorCode.String, Message: row.ErrorMessage.String}
	}
	return out
}

// Deliveries lists up to limit deliveries to an organization's hooks, newest first. Deliveries to
// deleted hooks are left out. A filter by RunID finds the deliveries that started or joined this
// run.
func (s *Store) Deliveries(ctx context.Context, org string, f DeliveryFilter, limit int) ([]LoggedDelivery, error) {
	if f.Before == 0 {
		f.Before = math.MaxInt64
	}

	// Rejected deliveries are few and have an index of their own.
	status := `($3 = '' OR d.status = $3)`
	if f.Status == domain.DeliveryRejected {
		status = `d.status = 'rejected' AND $3 <> ''`
	}

	// The query reads the newest deliveries of each hook along an index. Without HookID, it makes
	// one lookup per hook of the organization.
	query := `SELECT d.* FROM hooks h CROSS JOIN LATERAL (SELECT ` + DeliveryColumns + ` FROM deliveries d WHERE d.hook_id = h.id
		AND d.ref < $2 AND ` + status + ` ORDER BY d.ref DESC LIMIT $4) d
		WHERE h.org_id = $1 AND h.deleted_at IS NULL AND ($5 = '' OR h.id = $5)`
	if f.RunID != "" {
		query = `SELECT ` + DeliveryColumns + ` FROM deliveries d JOIN hooks h ON h.id = d.hook_id AND h.deleted_at IS NULL
			WHERE d.org_id = $1 AND d.ref < $2 AND ` + status + ` AND ($5 = '' OR h.id = $5) AND d.run_id = $6`
	}

	args := []any{org, f.Before, string(f.Status), limit, f.HookID}
	if f.RunID != "" {
		args = append(args, f.RunID)
	}

	var rows []DeliveryRow
	err := s.db.WithinPage(ctx, org, func(tx *sqlx.Tx) error {
		rows = rows[:0]
		return tx.SelectContext(ctx, &rows, query+` ORDER BY d.ref DESC LIMIT $4`, args...)
	})
	if err != nil {
		return nil, fmt.Errorf("listing deliveries: %w", err)
	}

	out := make([]LoggedDelivery, len(rows))
	for i := range rows {
		out[i] = LoggedDelivery{rows[i].Delivery(), rows[i].Ref}
	}

	return out, nil
}

// oneDelivery selects delivery $2 of hook $1 of organization $3, unless the hook is deleted.
const oneDelivery = ` FROM deliveries d JOIN hooks h ON h.id = d.hook_id AND h.deleted_at IS NULL
	WHERE d.hook_id = $1 AND d.delivery_id = $2 AND d.org_id = $3`

// Delivery returns a delivery to an organization's hook. It returns not_found if there is no such
// delivery or the hook is deleted.
func (s *Store) Delivery(ctx context.Context, org, hookID, id string) (domain.Delivery, error) {
	var row DeliveryRow
	err := s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		return tx.GetContext(ctx, &row, `SELECT `+DeliveryColumns+oneDelivery, hookID, id, org)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return domain.Delivery{}, pg.NotFound()
	}
	if err != nil {
		return domain.Delivery{}, fmt.Errorf("reading delivery: %w", err)
	}
	return row.Delivery(), nil
}

// HooksOfDelivery returns an organization's hooks that have a delivery of this id. It returns at
// most two hooks, enough to detect that the id is ambiguous.
func (s *Store) HooksOfDelivery(ctx context.Context, org, id string) (hooks []string, err error) {
	err = s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		hooks = nil
		return tx.SelectContext(ctx, &hooks, `SELECT d.hook_id FROM hooks h JOIN deliveries d ON d.hook_id = h.id AND d.delivery_id = $2
			WHERE h.org_id = $1 AND h.deleted_at IS NULL LIMIT 2`, org, id)
	})
	if err != nil {
		return nil, fmt.Errorf("looking up the hooks of a delivery: %w", err)
	}
	return hooks, nil
}

// DeliveryBody returns the stored body of a delivery and its content type. It returns not_found if
// the body is not stored, and ErrContentSealed if no key can open it.
func (s *Store) DeliveryBody(ctx context.Context, org, hookID, id string) (body []byte, contentType string, err error) {
	var row struct {
		Body        []byte `db:"body"`
		Sealed      bool   `db:"sealed"`
		ContentType string `db:"content_type"`
	}

	err = s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		return tx.GetContext(ctx, &row, `SELECT d.body, d.sealed, d.content_type`+oneDelivery+` AND d.body IS NOT NULL`, hookID, id, org)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return nil, "", pg.NotFound()
	}
	if err != nil {
		return nil, "", fmt.Errorf("reading delivery: %w", err)
	}

	// Contents are sealed only if the operator has enabled their encryption.
	if !row.Sealed {
		return row.Body, row.ContentType, nil
	}

	body, err = s.seals.Open(row.Body, sealdb.DeliveryName(org, hookID, id),
		sealdb.Value{Kind: sealdb.KindDelivery, OrganizationID: org, ID: hookID, Part: id})
	return body, row.ContentType, err
}
