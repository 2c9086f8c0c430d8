package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jmoiron/sqlx"

	"parley/shared/domain"
)

// DeliveryBodyMax is up to how many bytes a delivery's body is kept.
const DeliveryBodyMax = 1 << 20

// NewDelivery is a delivery whose signature held, to be logged, and the run that is to be made of it.
type NewDelivery struct {
	HookID         string
	OrganizationID string
	ID             string // as the source names it
	Event          string
	ContentType    string // of the body
	Status         domain.DeliveryStatus
	Bytes          int64
	Body           []byte // nil: not kept, as larger ones are not
	Error          *domain.RunError
	Run            *NewRun  // nil: none
	Collect        *Collect // nil: the run is of this delivery alone
}

// Collect says with which deliveries one is to become a run: those of the hook with the same hash of their key.
type Collect struct {
	KeyHash []byte
	Window  time.Duration // since the newest of them
	MaxWait time.Duration // since the first one
}

// AcceptedDelivery is what became of a delivery. Its Delivery says whether it was refused, and why: that is no error.
type AcceptedDelivery struct {
	Delivery domain.Delivery
	Existing bool        // it was seen before: nothing was done
	Run      StoredRun   // that the delivery has; zero when it has none, or none any more
	Job      *domain.Job // Run is new and within its organization's window: ring for it now
	Err      error
}

// DeliveryFilter narrows a list of deliveries; zero fields do not narrow.
type DeliveryFilter struct {
	HookID string
	RunID  string
	Status domain.DeliveryStatus
	Before int64 // only deliveries older than the one of this Ref
}

// LoggedDelivery is a line of a log, with its place: newer deliveries have higher ones.
type LoggedDelivery struct {
	domain.Delivery

	Ref int64
}

// deliveryRow is what the database has of a delivery, but for its body.
type deliveryRow struct {
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

const deliveryColumns = `d.ref, d.hook_id, d.delivery_id, d.status, d.event, d.run_id, d.bytes, d.body IS NOT NULL AS kept,
	d.error_code, d.error_message, d.received_at, d.duplicates`

func (row *deliveryRow) delivery() domain.Delivery {
	out := domain.Delivery{
		ID: row.ID, HookID: row.HookID, Status: domain.DeliveryStatus(row.Status), Event: row.Event, RunID: row.RunID,
		Bytes: row.Bytes, Kept: row.Kept, ReceivedAt: row.ReceivedAt, Duplicates: row.Duplicates,
	}
	if row.ErrorCode.Valid {
		out.Error = &domain.RunError{Code: row.ErrorCode.String, Message: row.ErrorMessage.String}
	}
	return out
}

// Deliveries lists up to limit deliveries to an organization's hooks, newest first; those to hooks that were deleted are gone.
func (s *Store) Deliveries(ctx context.Context, org string, f DeliveryFilter, limit int) ([]LoggedDelivery, error) {
	if f.Before == 0 {
		f.Before = math.MaxInt64
	}
	// Each hook's newest ones by its index. Without a hook there are as many of these looks as the organization has hooks.
	query := `SELECT d.* FROM hooks h CROSS JOIN LATERAL (SELECT ` + deliveryColumns + ` FROM deliveries d WHERE d.hook_id = h.id
		AND d.ref < $2 AND ($3 = '' OR d.status = $3) ORDER BY d.ref DESC LIMIT $4) d
		WHERE h.org_id = $1 AND h.deleted_at IS NULL AND ($5 = '' OR h.id = $5)`
	if f.RunID != "" {
		query = `SELECT ` + deliveryColumns + ` FROM deliveries d JOIN hooks h ON h.id = d.hook_id AND h.deleted_at IS NULL
			WHERE d.org_id = $1 AND d.ref < $2 AND ($3 = '' OR d.status = $3) AND ($5 = '' OR h.id = $5) AND d.run_id = $6`
	}
	args := []any{org, f.Before, string(f.Status), limit, f.HookID}
	if f.RunID != "" {
		args = append(args, f.RunID)
	}
	var rows []deliveryRow
	err := s.listing(ctx, org, func(tx *sqlx.Tx) error {
		rows = rows[:0]
		return tx.SelectContext(ctx, &rows, query+` ORDER BY d.ref DESC LIMIT $4`, args...)
	})
	if err != nil {
		return nil, fmt.Errorf("listing deliveries: %w", err)
	}
	out := make([]LoggedDelivery, len(rows))
	for i := range rows {
		out[i] = LoggedDelivery{rows[i].delivery(), rows[i].Ref}
	}
	return out, nil
}

// HookRuns counts the runs by an organization's hooks that wait for a place, up to most. Where fewer runs of any kind wait than that, it
// gives their number.
func (s *Store) HookRuns(ctx context.Context, org string, most int) (n int, err error) {
	const waiting = `SELECT FROM open_runs o WHERE o.org_id = $1 AND o.status = 'queued' AND NOT o.dispatched`
	for _, query := range []string{waiting, waiting + ` AND (SELECT r.trigger_type FROM runs r WHERE r.id = o.run_id) = 'webhook'`} {
		err = s.within(ctx, []string{org}, func(tx *sqlx.Tx) error {
			return tx.GetContext(ctx, &n, `SELECT count(*) FROM (`+query+` LIMIT $2) counted`, org, most)
		})
		if err != nil {
			return 0, fmt.Errorf("counting runs by hooks: %w", err)
		}
		if n < most {
			break
		}
	}
	return n, nil
}

const oneDelivery = ` FROM deliveries d JOIN hooks h ON h.id = d.hook_id AND h.deleted_at IS NULL
	WHERE d.hook_id = $1 AND d.delivery_id = $2 AND d.org_id = $3`

// Delivery gives one delivery to an organization's hook; not_found when there is none of this id, or the hook is deleted.
func (s *Store) Delivery(ctx context.Context, org, hookID, id string) (domain.Delivery, error) {
	var row deliveryRow
	err := s.within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		return tx.GetContext(ctx, &row, `SELECT `+deliveryColumns+oneDelivery, hookID, id, org)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return domain.Delivery{}, notFound()
	}
	if err != nil {
		return domain.Delivery{}, fmt.Errorf("reading delivery: %w", err)
	}
	return row.delivery(), nil
}

// HooksOfDelivery returns an organization's hooks that have a delivery of this id: up to two, which is enough to see that there are several.
func (s *Store) HooksOfDelivery(ctx context.Context, org, id string) (hooks []string, err error) {
	err = s.within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		hooks = nil
		return tx.SelectContext(ctx, &hooks, `SELECT d.hook_id FROM hooks h JOIN deliveries d ON d.hook_id = h.id AND d.delivery_id = $2
			WHERE h.org_id = $1 AND h.deleted_at IS NULL LIMIT 2`, org, id)
	})
	if err != nil {
		return nil, fmt.Errorf("looking for deliveries of an id: %w", err)
	}
	return hooks, nil
}

// DeliveryBody gives the body of a delivery and its type; not_found when it is not kept. ErrContentSealed: no key is there to open it.
func (s *Store) DeliveryBody(ctx context.Context, org, hookID, id string) (body []byte, contentType string, err error) {
	var row struct {
		Body        []byte `db:"body"`
		Sealed      bool   `db:"sealed"`
		ContentType string `db:"content_type"`
	}
	err = s.within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		return tx.GetContext(ctx, &row, `SELECT d.body, d.sealed, d.content_type`+oneDelivery+` AND d.body IS NOT NULL`, hookID, id, org)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return nil, "", notFound()
	}
	if err != nil {
		return nil, "", fmt.Errorf("reading delivery: %w", err)
	}
	if !row.Sealed {
		return row.Body, row.ContentType, nil
	}
	body, err = s.open(row.Body, deliveryName(org, hookID, id),
		SealedValue{Kind: SealedDelivery, OrganizationID: org, ID: hookID, Part: id})
	return body, row.ContentType, err
}

// deliveryName is the place of a delivery's body, for the sealer.
func deliveryName(org, hookID, id string) []byte {
	return []byte("parley delivery|" + org + "|" + hookID + "|" + id)
}

// sealDelivery gives what is stored of a delivery's body.
func (s *Store) sealDelivery(d *NewDelivery) []byte {
	if d.Body == nil || len(d.Body) > DeliveryBodyMax {
		return nil
	}
	if s.sealing == 0 {
		return d.Body
	}
	return s.sealer.SealBytes(d.Body, deliveryName(d.OrganizationID, d.HookID, d.ID))
}
