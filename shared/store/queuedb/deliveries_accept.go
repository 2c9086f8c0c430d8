package queuedb

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"parley/shared/store/hookdb"
	"parley/shared/store/pg"
)

// deliveryBytes bounds the total size of the bodies that one transaction writes, because the
// process holds several copies of each body in memory.
const deliveryBytes = 4 << 20

// AcceptDeliveries logs deliveries and accepts their runs. A delivery and its run are written in
// one transaction, so that both are on disk when AcceptDeliveries returns without an error. A
// delivery that was logged earlier keeps its run; if it had no run, it is treated as new. A
// delivery to be coalesced joins the run that is coalescing deliveries with its key, or begins such
// a run. The order of the results and the errors are as in [Store.Accept]. The Err of a result is
// not_found if the hook no longer exists, and ErrLocked if another transaction has locked a row
// that the delivery needs.
func (s *Store) AcceptDeliveries(ctx context.Context, rows []NewDelivery) ([]AcceptedDelivery, error) {
	call := deliverCall{lockTimeout: pg.BatchLockTimeout, splitUntil: time.Now().Add(pg.SplitFor)}
	return s.acceptWithinBytes(ctx, rows, call)
}

// acceptWithinBytes splits the rows into parts that are small enough for one transaction, and calls
// acceptSimple for each part. If a part fails, the results of the earlier parts stay valid.
func (s *Store) acceptWithinBytes(ctx context.Context, rows []NewDelivery, call deliverCall) ([]AcceptedDelivery, error) {
	// Usually all rows fit into one part.
	n := withinBytes(rows)
	if n == len(rows) {
		return s.acceptSimple(ctx, rows, call)
	}
	part := func(part []NewDelivery) ([]AcceptedDelivery, error) { return s.acceptWithinBytes(ctx, part, call) }
	return pg.InParts(rows, n, part, deliveryFailed)
}

// deliveryFailed returns the result of a delivery that belongs to a failed part of the batch.
func deliveryFailed(err error) AcceptedDelivery { return AcceptedDelivery{Err: err} }

// deliverCall is the state of one call of AcceptDeliveries. A recursive call for a part of the rows
// gets a copy of the state.
type deliverCall struct {
	lockTimeout time.Duration // maximum wait for each lock; short, because deliveries of many organizations wait for the batch
	splitUntil  time.Time
}

// acceptDeliveries implements AcceptDeliveries with deliver. If the reply is lost, acceptDeliveries
// looks the deliveries up. If PostgreSQL rejects a row, or a row is locked, acceptDeliveries halves
// the list until it finds that row.
func (s *Store) acceptDeliveries(ctx context.Context, rows []NewDelivery, call deliverCall) ([]AcceptedDelivery, error) {
	// Errors are handled in the same way as in Store.accept.
	part := func(part []NewDelivery) ([]AcceptedDelivery, error) { return s.acceptDeliveries(ctx, part, call) }
	out, err := s.deliver(ctx, rows, call)
	switch {
	case err == nil:
		return out, nil
	case pg.IsDisconnect(err) || pg.Violates(err, "runs_pkey"):
		return s.recoverDelivered(ctx, rows, call, err)
	case pg.IsLocked(err) && (len(rows) == 1 || time.Now().After(call.splitUntil)):
		return slices.Repeat([]AcceptedDelivery{{Err: pg.ErrLocked}}, len(rows)), nil
	case len(rows) > 1 && (pg.IsBadData(err) || pg.IsLocked(err)):
		// The batch has already waited for a lock, so its parts wait for locks only briefly.
		call.lockTimeout = pg.PartLockTimeout
		return pg.InParts(rows, len(rows)/2, part, deliveryFailed)
	case pg.IsBadData(err):
		return []AcceptedDelivery{{Err: s.budgets.Rejected(ctx, rows[0].OrganizationID, "accepting delivery", err)}}, nil
	}

	return nil, err
}

// withinBytes returns how many of the rows one transaction may write: at least one.
func withinBytes(rows []NewDelivery) int {
	bytes := 0
	for i, r := range rows {
		if bytes += len(r.Body); bytes > deliveryBytes && i > 0 {
			return i
		}
	}
	return len(rows)
}

// deliveryKey identifies a delivery: the hook and the source's id of the delivery.
type deliveryKey struct{ hook, id string }

// key returns the delivery's identity, for use as a map key. The source's id alone is not unique
// across hooks.
func (d *NewDelivery) key() deliveryKey { return deliveryKey{d.HookID, d.ID} }

// candidate is the id of the run that the delivery would begin, or "" if it begins no run.
func (d *NewDelivery) candidate() string {
	if d.Run == nil {
		return ""
	}
	return d.Run.ID
}

// The statements of a transaction that accepts deliveries, in the order in which they are executed.
const (
	logQuery = `SELECT ref, hook_id, delivery_id, status, event, run_id, bytes, kept, error_code, error_message, received_at, duplicates, inserted
		FROM log_deliveries($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`
	landedQuery  = `SELECT id FROM runs WHERE id = ANY ($1)`
	collectQuery = `SELECT hook_id, key_hash, run_id FROM collect_deliveries($1, $2, $3, $4, $5, $6, $7, $8, $9)`
	resultsQuery = `SELECT settle_deliveries($1, $2, $3, $4, $5, $6, $7, $8)`
)

// deliver accepts deliveries in one transaction. Its statements lock rows in a fixed order:
// deliveries, coalescing keys, shared sessions, and runs; and the rows of each kind in the order of
// their keys.
func (s *Store) deliver(ctx context.Context, rows []NewDelivery, call deliverCall) ([]AcceptedDelivery, error) {
	// Statements are prepared before the transaction begins. Preparing them later would take round
	// trips while the transaction holds locks.
	stmts := map[string]*sqlx.Stmt{}
	for _, query := range []string{logQuery, landedQuery, collectQuery, acceptSingleQuery, acceptQuery, resultsQuery} {
		stmt, err := s.db.Prepared(ctx, query)
		if err != nil {
			return nil, err
		}
		stmts[query] = stmt
	}

	// Slots are taken for all runs that deliveries may begin. The method collect later determines
	// which of these runs begin.
	var b *deliveryBatch
	begun := runsOfDeliveries(rows)
	taken := s.slots.takeFor(ctx, begun)
	err := s.db.TxBriefly(ctx, call.lockTimeout, func(tx *sqlx.Tx) error {
		// The transaction may be repeated, so each try starts with an empty batch.
		b = newDeliveryBatch(rows)
		b.taken = taken
		b.run = func(dest any, query string, args ...any) error {
			return tx.StmtxContext(ctx, stmts[query]).SelectContext(ctx, dest, args...)
		}
		if err := b.log(s); err != nil {
			return fmt.Errorf("logging deliveries: %w", err)
		}

		if err := b.collect(); err != nil {
			return fmt.Errorf("collecting deliveries: %w", err)
		}

		if err := b.accept(ctx, tx); err != nil {
			return fmt.Errorf("accepting runs of deliveries: %w", err)
		}

		if err := b.writeResults(); err != nil {
			return fmt.Errorf("settling deliveries: %w", err)
		}
		return nil
	})
	if err != nil {
		s.slots.returnUnused(begun, taken, nil)
		return nil, err
	}

	// Deliveries that joined an existing run or were rejected need no slot.
	s.slots.returnUnused(begun, taken, b.made)
	return b.answers(), nil
}

// runsOfDeliveries returns the runs that deliveries may begin, as they would be accepted. It is
// used to take slots before the deliveries are logged.
func runsOfDeliveries(rows []NewDelivery) []NewRun {
	runs := make([]NewRun, 0, len(rows))
	for i := range rows {
		if rows[i].Run != nil {
			runs = append(runs, rows[i].begun())
		}
	}
	return runs
}

// begun returns the run that the delivery begins. A run that coalesces deliveries is delayed until
// it is released.
func (d *NewDelivery) begun() NewRun {
	run := *d.Run
	if d.Collect != nil {
		run.Hold = HoldUntilReleased
		run.Deadline += d.Collect.MaxWait
	}
	return run
}

// recoverDelivered looks up the result of a transaction whose reply was lost, and tries once more
// for the deliveries that were not logged; see recoverAccepted.
func (s *Store) recoverDelivered(ctx context.Context, rows []NewDelivery, call deliverCall, cause error) ([]AcceptedDelivery, error) {
	// The deadline of ctx may be the reason why the first try failed.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookUpTimeout)
	defer cancel()

	// The delivery log shows which deliveries the lost transaction has committed.
	out, missing, err := s.delivered(ctx, rows)
	if err != nil {
		return nil, errors.Join(cause, err)
	}

	if len(missing) == 0 {
		return out, nil
	}

	again := make([]NewDelivery, len(missing))
	for j, i := range missing {
		again[j] = rows[i]
	}

	accepted, err := s.deliver(ctx, again, call)
	if pg.Violates(err, "runs_pkey") { // the first try has committed meanwhile
		if out, missing, err = s.delivered(ctx, rows); err != nil {
			return nil, errors.Join(cause, err)
		}
		for _, i := range missing {
			out[i] = AcceptedDelivery{Err: cause}
		}
		return out, nil
	}

	for j, i := range missing {
		if err != nil {
			out[i] = AcceptedDelivery{Err: errors.Join(cause, err)}
			continue
		}
		out[i] = accepted[j]
	}

	return out, nil
}

// delivered reads the results of deliveries that may already be logged. The result missing contains
// the indexes of the deliveries that were not logged, and of those that should have a run but have
// none. delivered returns no jobs, because the sweeper publishes them.
func (s *Store) delivered(ctx context.Context, rows []NewDelivery) (out []AcceptedDelivery, missing []int, err error) {
	// The batch is filled from the delivery log instead of from inserts. The method answers can
	// then build the results in the same way as after an insert.
	b := newDeliveryBatch(rows)
	err = s.db.Within(ctx, pg.Column(rows, func(d *NewDelivery) string { return d.OrganizationID }), func(tx *sqlx.Tx) error {
		var found []loggedRow
		err := tx.SelectContext(ctx, &found, `SELECT `+hookdb.DeliveryColumns+`, false AS inserted FROM deliveries d
			WHERE (d.hook_id, d.delivery_id, d.org_id) IN (SELECT * FROM unnest($1::text[], $2::text[], $3::text[]))`,
			pq.Array(pg.Column(b.unique, func(d *NewDelivery) string { return d.HookID })),
			pq.Array(pg.Column(b.unique, func(d *NewDelivery) string { return d.ID })),
			pq.Array(pg.Column(b.unique, func(d *NewDelivery) string { return d.OrganizationID })))
		if err != nil {
			return err
		}

		for i := range found {
			b.logged[deliveryKey{found[i].HookID, found[i].ID}] = &found[i]
		}
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("looking up deliveries: %w", err)
	}

	// Entries that name runs of this call were written by the lost transaction, so they are not
	// duplicates.
	for i := range b.unique {
		if l := b.logged[b.unique[i].key()]; l != nil {
			l.fresh = pg.Deref(l.RunID) == b.unique[i].candidate()
		}
	}

	for i := range rows {
		if l := b.logged[rows[i].key()]; l == nil || l.RunID == nil && rows[i].Run != nil {
			missing = append(missing, i)
		}
	}

	return b.answers(), missing, nil
}
