package queuedb

import (
	"context"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"parley/shared/domain"
	"parley/shared/store/hookdb"
	"parley/shared/store/rundb"
)

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
	Existing bool            // it was seen before: nothing was done
	Run      rundb.StoredRun // that the delivery has; zero when it has none, or none any more
	Job      *domain.Job     // Run is new and within its organization's window: ring for it now
	Err      error
}

// HookRuns counts the runs by an organization's hooks that wait for a place, up to most. Where fewer runs of any kind wait than that, it
// gives their number.
func (s *Store) HookRuns(ctx context.Context, org string, maximum int) (n int, err error) {
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

// sealDelivery gives what is stored of a delivery's body.
func (s *Store) sealDelivery(d *NewDelivery) []byte {
	if d.Body == nil || len(d.Body) > hookdb.DeliveryBodyMax {
		return nil
	}
	return s.seals.SealDelivery(d.OrganizationID, d.HookID, d.ID, d.Body)
}
