package executiondb

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"parley/shared/domain"
	"parley/shared/store/lease"
	"parley/shared/store/pg"
	"parley/shared/store/queuedb"
)

// ActionTimeout is how long a run waits for a person before it fails, if its action
// has no ExpiresAt.
const ActionTimeout = 24 * time.Hour

// MaxParked is the maximum number of runs of an organization that may wait for a person. Each of
// these runs blocks its session for up to ActionTimeout.
const MaxParked = 1000

// Parked is the result of parking a run. If none of the booleans is set, the worker no longer
// holds the run and nothing was written.
type Parked struct {
	Parked bool
	Known  bool                  // the ledger already has the outcome, so there is nothing to wait for; nothing was written
	Full   bool                  // the organization has MaxParked waiting runs; nothing was written
	Freed  queuedb.FreedSlots    // the slot of a parked run, for DispatchNext
	Action domain.RequiredAction // as stored
}

// Park makes a run wait for a person's decision about a call of the effect ledger, or for the
// results of calls that the client executes. The run keeps its position in the session. Its worker
// no longer holds it, and its slot is freed for DispatchNext. Until the decision, no worker can
// send the call. events are the attempt's events that no checkpoint has stored yet. An action
// without ExpiresAt gets ActionTimeout. If the call may have been sent, the action becomes a
// question about its outcome.
func (s *Store) Park(ctx context.Context, held lease.Held, action domain.RequiredAction, events Chunk) (Parked, error) {
	// Park may be called again after an error, because it writes everything in one transaction.
	out, err := park(ctx, s.db, held, action, events)
	if events.FirstN > 0 && pg.IsBadData(err) { // otherwise the run could never be parked
		out, err = park(ctx, s.db, held, action, Chunk{})
	}
	if err != nil {
		return Parked{}, fmt.Errorf("parking run: %w", err)
	}
	return out, nil
}

// park implements Park in one transaction. The state of the ledger determines whether the run has
// to wait, and for which action. The run is locked before its effects, in the same order as in
// Decide.
func park(ctx context.Context, db *pg.DB, held lease.Held, action domain.RequiredAction, events Chunk) (Parked, error) {
	var out Parked
	err := db.Within(ctx, []string{held.OrganizationID}, func(tx *sqlx.Tx) error {
		out = Parked{}

		var run struct {
			Now  time.Time   `db:"db_now"`
			Lane domain.Lane `db:"lane"`
		}

		// The fence selects the run only while this worker holds it. Without a row, the result is
		// the zero Parked, and the caller drops the attempt.
		err := tx.GetContext(ctx, &run, `SELECT clock_timestamp() AS db_now, lane FROM open_runs
			WHERE run_id = $1 AND org_id = $2 AND fence = $3 AND status = 'running' FOR UPDATE`, held.RunID, held.OrganizationID, held.Fence)
		if err != nil {
			return pg.IgnoreNone(err)
		}

		// A decision or an outcome may have arrived while the worker was about to park the run.
		open, err := openEffects(ctx, tx, held, action.CallIDs())
		if err != nil {
			return err
		}
		if len(open) == 0 {
			out.Known = true
			return nil
		}

		if out.Full, err = parkingFull(ctx, tx, held.OrganizationID); err != nil || out.Full {
			return err
		}

		// The ledger records whether the call may have been sent. If so, the person is asked for
		// the outcome and not for an approval.
		if action.Kind != domain.ActionClientTools {
			action.Kind = open[0].Waiting()
		}
		if action.ExpiresAt.IsZero() {
			action.ExpiresAt = domain.At(run.Now.Add(ActionTimeout))
		}

		if err := parkRun(ctx, tx, held, action, events); err != nil {
			return err
		}

		out = Parked{Parked: true, Freed: queuedb.FreedSlots{
			{OrganizationID: held.OrganizationID, Lane: run.Lane}: {Slots: 1, Waiting: true},
		}, Action: action}
		return nil
	})
	return out, err
}

// openEffects locks the effects of calls, and returns the effects that wait or whose outcome is
// unknown. An effect that is missing in the ledger is an error, because the worker has prepared all
// of them.
func openEffects(ctx context.Context, tx *sqlx.Tx, held lease.Held, callIDs []string) (open []domain.Effect, err error) {
	var rows []effectRow
	err = tx.SelectContext(ctx, &rows, effectsSelect+` FOR UPDATE`, held.RunID, pq.Array(callIDs), held.OrganizationID)
	if err != nil {
		return nil, fmt.Errorf("reading effects: %w", err)
	}
	if len(rows) != len(callIDs) {
		return nil, fmt.Errorf("reading effects: %w", sql.ErrNoRows)
	}
	for _, row := range rows {
		if e := row.effect(); e.State == domain.EffectAwaiting || e.State == domain.EffectSending {
			open = append(open, e)
		}
	}
	return open, nil
}

// parkingFull reports whether the organization has MaxParked waiting runs. It prevents the parking
// of other runs until the transaction ends. The lock cannot cause a deadlock: no transaction that
// waits for it has locked a row that this transaction locks later.
func parkingFull(ctx context.Context, tx *sqlx.Tx, org string) (bool, error) {
	// Without the lock, two transactions could count the runs at the same time, and both could park
	// a run above the limit.
	if _, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('parley.park ' || $1, 0))`, org); err != nil {
		return false, fmt.Errorf("locking parked runs: %w", err)
	}

	// The LIMIT in the subquery bounds the number of counted rows.
	var n int
	err := tx.GetContext(ctx, &n, `SELECT count(*) FROM (
		SELECT 1 FROM open_runs WHERE org_id = $1 AND status = 'requires_action' AND parked_at IS NOT NULL LIMIT $2) counted`, org, MaxParked)
	if err != nil {
		return false, fmt.Errorf("counting parked runs: %w", err)
	}
	return n >= MaxParked, nil
}

// parkRun saves the attempt's last events, makes the effects of the action wait, and releases the
// run from its worker by raising the fence. The row of the run must be locked.
func parkRun(ctx context.Context, tx *sqlx.Tx, held lease.Held, action domain.RequiredAction, events Chunk) error {
	raw, err := json.Marshal(action)
	if err != nil {
		return fmt.Errorf("rendering action: %w", err)
	}

	if events.FirstN > 0 { // a checkpoint whose reply was lost may already have written this chunk
		_, err = tx.ExecContext(ctx, `INSERT INTO run_events (run_id, org_id, fence, first_n, last_n, events) VALUES ($1, $2, $3, $4, $5, $6)
			ON CONFLICT (run_id, fence, first_n) DO UPDATE SET last_n = excluded.last_n, events = excluded.events`,
			held.RunID, held.OrganizationID, held.Fence, events.FirstN, events.LastN, events.Events)
		if err != nil {
			return fmt.Errorf("saving events: %w", err)
		}
	}

	// From now on, EndSend stores no late outcome, because a person decides about the call.
	_, err = tx.ExecContext(ctx, `UPDATE effects SET state = 'awaiting' WHERE run_id = $1 AND call_id = ANY ($2) AND org_id = $3`,
		held.RunID, pq.Array(action.CallIDs()), held.OrganizationID)
	if err != nil {
		return fmt.Errorf("parking effect: %w", err)
	}

	// The higher fence makes every later write of the worker ineffective. Because not_before is
	// infinity, the run is not in the indexes of runs that wait for a slot.
	_, err = tx.ExecContext(ctx, `UPDATE open_runs SET status = 'requires_action', fence = fence + 1, dispatched = false, lease_until = NULL,
		next_dispatch_at = NULL, not_before = 'infinity', last_error = NULL, required_action = $4, action_expires_at = $5,
		parked_at = clock_timestamp()
		WHERE run_id = $1 AND org_id = $2 AND fence = $3`, held.RunID, held.OrganizationID, held.Fence, raw, action.ExpiresAt)
	if err != nil {
		return fmt.Errorf("parking run: %w", err)
	}

	return nil
}
