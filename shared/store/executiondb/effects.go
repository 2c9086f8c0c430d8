package executiondb

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"parley/shared/domain"
	"parley/shared/store/lease"
	"parley/shared/store/pg"
)

// effectRow is a row of effectSelect.
type effectRow struct {
	CallID     string         `db:"call_id"`
	Name       string         `db:"name"`
	Input      []byte         `db:"input"`
	SideEffect string         `db:"side_effect"`
	Key        string         `db:"key"` // the idempotency key for the receiver
	State      string         `db:"state"`
	Outcome    []byte         `db:"outcome"` // JSON; nil until the effect is done
	Decision   sql.NullString `db:"decision"`
	Sent       bool           `db:"sent"` // the call may have reached its receiver
}

// effectSelect reads the effect of run $1, call $2 and organization $3.
const effectSelect = `SELECT call_id, name, input, side_effect, key, state, outcome, decision, sent_at IS NOT NULL AS sent
	FROM effects WHERE run_id = $1 AND call_id = $2 AND org_id = $3`

func (row effectRow) effect() domain.Effect {
	return domain.Effect{
		CallID: row.CallID, Name: row.Name, Input: row.Input, SideEffect: domain.SideEffect(row.SideEffect), Key: row.Key,
		State: domain.EffectState(row.State), Sent: row.Sent, Outcome: row.Outcome,
	}
}

// PrepareEffect inserts a call into the effect ledger. The effect is ready to be sent, or waits
// for a person's decision if ask is true. If an earlier attempt has inserted the call,
// PrepareEffect takes over its effect and returns it. An effect that may have been sent becomes
// ready again if its receiver honours idempotency keys; otherwise it waits for a person to report
// the outcome. The result is false, and nothing is written, if the worker no longer holds the run.
func (s *Store) PrepareEffect(ctx context.Context, held lease.Held, e domain.Effect, ask bool) (domain.Effect, bool, error) {
	var out domain.Effect
	kept, err := lease.UnderFence(ctx, s.db, held, func(tx *sqlx.Tx, _ time.Time) (err error) {
		out, err = insertEffect(ctx, tx, held, e, ask)
		if out.State == "" && err == nil { // the effect existed before
			out, err = takeEffect(ctx, tx, held, e.CallID)
		}
		return err
	})
	if err != nil {
		return domain.Effect{}, false, fmt.Errorf("preparing effect: %w", err)
	}
	return out, kept, nil
}

// insertEffect inserts the effect of a call. It returns an effect without a state if the call
// already has one.
func insertEffect(ctx context.Context, tx *sqlx.Tx, held lease.Held, e domain.Effect, ask bool) (domain.Effect, error) {
	e.State, e.Sent, e.Outcome = domain.EffectReady, false, nil
	if ask {
		e.State = domain.EffectAwaiting
	}

	if len(e.Input) == 0 {
		e.Input = json.RawMessage(`{}`)
	}

	// The primary key makes the effect unique across all attempts of the run.
	done, err := tx.ExecContext(ctx, `INSERT INTO effects (run_id, call_id, org_id, name, input, side_effect, key, state, fence)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT (run_id, call_id) DO NOTHING`,
		held.RunID, e.CallID, held.OrganizationID, e.Name, []byte(e.Input), string(e.SideEffect), e.Key, string(e.State), held.Fence)
	if err != nil {
		return domain.Effect{}, err
	}

	if n, err := done.RowsAffected(); err != nil || n == 0 {
		return domain.Effect{}, err
	}

	return e, nil
}

// takeEffect moves the effect of a call to the fence of the current attempt.
func takeEffect(ctx context.Context, tx *sqlx.Tx, held lease.Held, callID string) (domain.Effect, error) {
	var row effectRow
	if err := tx.GetContext(ctx, &row, effectSelect+` FOR UPDATE`, held.RunID, callID, held.OrganizationID); err != nil {
		return domain.Effect{}, err
	}

	e := row.effect()
	if e.State = taken(e); isSettled(e.State) {
		return e, nil
	}

	// A settled effect keeps its fence, because nothing will be written to it.
	_, err := tx.ExecContext(ctx, `UPDATE effects SET state = $4, fence = $5 WHERE run_id = $1 AND call_id = $2 AND org_id = $3`,
		held.RunID, callID, held.OrganizationID, string(e.State), held.Fence)
	return e, err
}

// taken returns the state of an earlier attempt's effect after the current attempt has taken it
// over.
func taken(e domain.Effect) domain.EffectState {
	switch {
	case e.State == domain.EffectVoid, e.State == domain.EffectSending && e.SideEffect != domain.SideEffectUnsafe:
		return domain.EffectReady
	case e.State == domain.EffectSending:
		return domain.EffectAwaiting
	default:
		return e.State
	}
}

// isSettled reports whether an effect in that state is final: nothing will be sent for it.
func isSettled(state domain.EffectState) bool {
	return state == domain.EffectDone || state == domain.EffectDenied || state == domain.EffectHappened
}

// BeginSend is the last check before a call's effect is sent. It returns true only if the worker
// holds the run, the lease has not expired, and the effect is ready under the fence. It returns
// true once; after that the effect must be made ready again.
func (s *Store) BeginSend(ctx context.Context, held lease.Held, callID string) (bool, error) {
	var began bool
	_, err := lease.UnderFence(ctx, s.db, held, func(tx *sqlx.Tx, lease time.Time) (err error) {
		began, err = pg.AnyRow(tx.ExecContext(ctx, `UPDATE effects SET state = 'sending', sent_at = clock_timestamp()
			WHERE run_id = $1 AND call_id = $2 AND org_id = $3 AND fence = $4 AND state = 'ready' AND $5 > clock_timestamp()`,
			held.RunID, callID, held.OrganizationID, held.Fence, lease))
		return err
	})
	if err != nil {
		return false, fmt.Errorf("beginning to send effect: %w", err)
	}
	return began, nil
}

// EndSend stores the outcome of an effect, a JSON value. It returns false, and stores nothing,
// if another attempt or a person has decided about the effect since BeginSend, or if the run
// has finished. It also works after the lease is lost, as long as no other attempt has started:
// a known outcome saves a person the decision.
func (s *Store) EndSend(ctx context.Context, held lease.Held, callID string, outcome []byte) (bool, error) {
	var kept bool
	err := s.db.Within(ctx, []string{held.OrganizationID}, func(tx *sqlx.Tx) error {
		// The shared lock keeps the run from finishing until the outcome is stored.
		var open int
		err := tx.GetContext(ctx, &open, `SELECT 1 FROM open_runs WHERE run_id = $1 AND org_id = $2 FOR SHARE`, held.RunID, held.OrganizationID)
		if err != nil {
			return pg.IgnoreNone(err)
		}
		kept, err = pg.AnyRow(tx.ExecContext(ctx, `UPDATE effects SET state = 'done', outcome = $5
			WHERE run_id = $1 AND call_id = $2 AND org_id = $3 AND fence = $4 AND state = 'sending'`,
			held.RunID, callID, held.OrganizationID, held.Fence, outcome))
		return err
	})
	if err != nil {
		return false, fmt.Errorf("keeping outcome of effect: %w", err)
	}

	return kept, nil
}

// VoidEffect records that no worker took a call, so that no worker can take it later. It returns
// false if the call was taken in this or an earlier attempt, or if the worker no longer holds the
// run.
func (s *Store) VoidEffect(ctx context.Context, held lease.Held, callID string) (bool, error) {
	var void bool
	_, err := lease.UnderFence(ctx, s.db, held, func(tx *sqlx.Tx, _ time.Time) (err error) {
		void, err = pg.AnyRow(tx.ExecContext(ctx, `UPDATE effects SET state = 'void'
			WHERE run_id = $1 AND call_id = $2 AND org_id = $3 AND fence = $4 AND state = 'ready' AND sent_at IS NULL`,
			held.RunID, callID, held.OrganizationID, held.Fence))
		return err
	})
	if err != nil {
		return false, fmt.Errorf("voiding effect: %w", err)
	}
	return void, nil
}
