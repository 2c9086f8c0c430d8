package executiondb

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"parley/shared/domain"
	"parley/shared/store/lease"
)

// effectRow is a row of effectSelect: an entry of the effect ledger. An effect is one call of a
// tool that may change something outside of Parley.
type effectRow struct {
	CallID     string `db:"call_id"`
	Name       string `db:"name"`
	Input      []byte `db:"input"`
	SideEffect string `db:"side_effect"`
	Key        string `db:"key"` // the idempotency key for the receiver
	// State is a domain.EffectState.
	State   string `db:"state"`
	Outcome []byte `db:"outcome"` // JSON; nil until the effect is done
	// Decision is null until a person decides, or until the client has sent the result of the call.
	Decision sql.NullString `db:"decision"`
	Sent     bool           `db:"sent"` // the call may have reached its receiver
}

// effectSelect reads the effect of run $1, call $2 and organization $3. The call id is unique
// within its run.
const effectSelect = `SELECT call_id, name, input, side_effect, key, state, outcome, decision, sent_at IS NOT NULL AS sent
	FROM effects WHERE run_id = $1 AND call_id = $2 AND org_id = $3`

// effectsSelect is like effectSelect, for several calls in the order of their ids.
const effectsSelect = `SELECT call_id, name, input, side_effect, key, state, outcome, decision, sent_at IS NOT NULL AS sent
	FROM effects WHERE run_id = $1 AND call_id = ANY ($2) AND org_id = $3 ORDER BY call_id`

// effect returns the ledger's entry. The result does not contain the person's decision.
func (row effectRow) effect() domain.Effect {
	return domain.Effect{
		CallID: row.CallID, Name: row.Name, Input: row.Input, SideEffect: domain.SideEffect(row.SideEffect), Key: row.Key,
		State: domain.EffectState(row.State), Sent: row.Sent, Outcome: row.Outcome,
	}
}

// maxCheckAge is the maximum duration of the check that BeginSend makes before an effect is sent.
// The result of a longer check does not count. The maximum is below 4 s: an agent worker treats a
// tool worker as lost after 6 s of silence, and the tool worker's last sign of life may precede the
// check by 2 s.
const maxCheckAge = 3 * time.Second

// errLateCheck is the error of BeginSend after a check that took longer than maxCheckAge.
var errLateCheck = errors.New("the check took too long; another worker may have taken over the run meanwhile")

// PrepareEffect inserts a call into the effect ledger. If the argument ask is true, the effect
// waits for a person's decision. Otherwise it is ready to be sent. If an earlier attempt has
// inserted the call, PrepareEffect takes over its effect and returns it. An effect that may have
// been sent becomes ready again if its receiver honours idempotency keys; otherwise it waits for a
// person to report the outcome. The result is false, and nothing is written, if the worker no
// longer holds the run.
func (s *Store) PrepareEffect(ctx context.Context, held lease.Held, e domain.Effect, ask bool) (domain.Effect, bool, error) {
	// The field State is the state of a new effect. For an existing effect, the database keeps the
	// state or derives a new state from it.
	e.State = domain.EffectReady
	if ask {
		e.State = domain.EffectAwaiting
	}

	// The column must contain JSON, even for a call without arguments.
	if len(e.Input) == 0 {
		e.Input = json.RawMessage(`{}`)
	}

	out, err := s.progress.write(ctx, &progressWrite{Held: held, kind: writePrepare, callID: e.CallID, content: e.Input, effect: e})
	if err != nil {
		return domain.Effect{}, false, fmt.Errorf("preparing effect: %w", err)
	}
	return out.effect, out.done, nil
}

// BeginSend is the last check before a call's effect is sent. It returns true only if the worker
// holds the run, the lease has not expired, and the effect is ready under the fence. It returns
// true only once: the effect must be made ready again before another BeginSend succeeds. If
// BeginSend returns an error, it is unknown whether the effect is marked as being sent. It also
// returns an error if the check took longer than maxCheckAge. A later EndSend always follows
// BeginSend in the database, even if the reply to BeginSend was lost. sender identifies the
// execution of the call for CancelSend.
func (s *Store) BeginSend(ctx context.Context, held lease.Held, callID, sender string) (bool, error) {
	out, err := s.progress.write(ctx, &progressWrite{Held: held, kind: writeBegin, callID: callID, effect: domain.Effect{Key: sender}})
	if err != nil {
		return false, fmt.Errorf("marking an effect as being sent: %w", err)
	}

	// The check was correct when it was made. Since then, the caller may have declared this worker
	// lost and may have let another worker send the call.
	if out.done && out.took > maxCheckAge {
		return false, fmt.Errorf("marking an effect as being sent: %w", errLateCheck)
	}
	return out.done, nil
}

// EndSend stores the outcome of an effect, a JSON value. It returns false, and stores nothing, if
// another attempt or a person has decided about the effect since BeginSend, or if the run has
// finished. EndSend also works after the lease is lost, if no other attempt has started. A person
// then does not have to decide about an effect whose outcome is known.
func (s *Store) EndSend(ctx context.Context, held lease.Held, callID string, outcome []byte) (bool, error) {
	out, err := s.progress.write(ctx, &progressWrite{Held: held, kind: writeEnd, callID: callID, content: outcome})
	if err != nil {
		return false, fmt.Errorf("storing outcome of effect: %w", err)
	}
	return out.done, nil
}

// CancelSend makes an effect ready again after BeginSend, if nothing was sent. A later BeginSend
// may then succeed. CancelSend returns false if the effect is not in the state sending under the
// worker's fence, or if BeginSend was called by another sender. Like EndSend, it also works after
// the lease is lost.
func (s *Store) CancelSend(ctx context.Context, held lease.Held, callID, sender string) (bool, error) {
	out, err := s.progress.write(ctx, &progressWrite{Held: held, kind: writeUnsend, callID: callID, effect: domain.Effect{Key: sender}})
	if err != nil {
		return false, fmt.Errorf("cancelling the sending of an effect: %w", err)
	}
	return out.done, nil
}

// VoidEffect records that no worker took a call. Afterwards no worker can take the call. VoidEffect
// returns false if the call was taken in this or an earlier attempt, or if the worker no longer
// holds the run.
func (s *Store) VoidEffect(ctx context.Context, held lease.Held, callID string) (bool, error) {
	out, err := s.progress.write(ctx, &progressWrite{Held: held, kind: writeVoid, callID: callID})
	if err != nil {
		return false, fmt.Errorf("voiding effect: %w", err)
	}
	return out.done, nil
}
