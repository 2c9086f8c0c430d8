package queuedb

import (
	"context"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"parley/shared/domain"
	"parley/shared/store/hookdb"
)

// NewDelivery is a delivery with a valid signature, to be logged, and the run to start for it.
// HookID and ID identify the delivery: a repeated delivery has the same ID.
type NewDelivery struct {
	HookID         string
	OrganizationID string
	ID             string // the source's id of the delivery
	Event          string
	ContentType    string // content type of the body
	Status         domain.DeliveryStatus
	Bytes          int64 // the size of the received body, even if the body is not stored
	// Body is nil if the body is not stored, for example because it is too large. A stored body is
	// sealed first.
	Body    []byte
	Error   *domain.RunError // the reason if the delivery is rejected, otherwise nil
	Run     *NewRun          // nil: no run
	Collect *Collect         // nil: the run handles only this delivery
}

// Size returns the approximate size of the delivery in a statement, in bytes.
func (d *NewDelivery) Size() int {
	size := len(d.Body) + 1024
	if d.Run != nil {
		size += d.Run.Size()
	}
	return size
}

// Collect configures coalescing: deliveries of the hook with the same KeyHash become one run. The
// run starts when no delivery has arrived for Window, and at the latest MaxWait after the first
// delivery.
type Collect struct {
	KeyHash []byte
	Window  time.Duration // since the newest delivery
	MaxWait time.Duration // since the first delivery
}

// AcceptedDelivery is the result of a delivery. The rejection of a delivery is not an error: the
// field Delivery contains its reason. The caller publishes Job.
type AcceptedDelivery struct {
	Delivery domain.Delivery
	Existing bool        // the delivery was accepted before, so this call changed nothing
	Job      *domain.Job // job to publish now, if the delivery began a run that has a slot; otherwise nil
	Err      error
}

// HookRuns counts the runs that an organization's hooks have started and that wait for a slot, up
// to maximum. The ingress refuses deliveries of an organization with too many waiting runs. If
// fewer than maximum runs wait in total, HookRuns returns this total instead, which includes runs
// that no hook has started.
func (s *Store) HookRuns(ctx context.Context, org string, maximum int) (n int, err error) {
	// The first query counts all waiting runs. It is cheap, and usually its result is already below
	// maximum.
	const waiting = `SELECT FROM open_runs o WHERE o.org_id = $1 AND o.status = 'queued' AND NOT o.dispatched`
	for _, query := range []string{waiting, waiting + ` AND (SELECT r.trigger_type FROM runs r WHERE r.id = o.run_id) = 'webhook'`} {
		err = s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
			return tx.GetContext(ctx, &n, `SELECT count(*) FROM (`+query+` LIMIT $2) counted`, org, maximum)
		})
		if err != nil {
			return 0, fmt.Errorf("counting runs by hooks: %w", err)
		}
		if n < maximum {
			break
		}
	}

	return n, nil
}

// sealDelivery returns the sealed body to store, or nil if the body is not to be stored.
func (s *Store) sealDelivery(d *NewDelivery) []byte {
	// A delivery whose body is not stored still appears in the delivery log.
	if d.Body == nil || len(d.Body) > hookdb.MaxDeliveryBody {
		return nil
	}
	return s.seals.SealDelivery(d.OrganizationID, d.HookID, d.ID, d.Body)
}
