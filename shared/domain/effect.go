package domain

import "encoding/json"

// EffectState is where a side-effecting call stands in the effect ledger.
type EffectState string

// The states of an effect; see the package's drawing of its way.
//
//	         ┌─────────► awaiting ──approve, resend──► ready
//	         │              │ deny, happened: denied, happened (the run goes on); abandon ends the run
//	(none) ──┴─► ready ──► sending ──► done
//	                          └── outcome unknown: idempotent → ready, same key; unsafe → awaiting
const (
	EffectReady    EffectState = "ready"    // committed, not sent: the attempt with its fence may send it
	EffectAwaiting EffectState = "awaiting" // a person must decide
	EffectSending  EffectState = "sending"  // a tool worker is about to send it, or has
	EffectDone     EffectState = "done"     // its outcome is known and kept
	EffectDenied   EffectState = "denied"   // a person refused it; it was never sent
	EffectHappened EffectState = "happened" // a person says that it was carried out; its answer is lost
	EffectVoid     EffectState = "void"     // nobody took it; it was not sent and never will be
)

// Effect is an entry of the effect ledger: one tool call of a run that may not be repeated freely, or
// that a person must approve.
type Effect struct {
	CallID     string
	Name       string // of the tool, as the model knows it
	Input      json.RawMessage
	SideEffect SideEffect
	Key        string // sent as Idempotency-Key, the same however often it is sent
	State      EffectState
	Sent       bool            // it was begun to be sent once, and may have been
	Outcome    json.RawMessage // of EffectDone: the tool worker's reply
}

// Waiting says what an effect in EffectAwaiting waits for: leave to be sent, or word of what became of it.
func (e Effect) Waiting() ActionKind {
	if e.Sent {
		return ActionUnknownOutcome
	}
	return ActionApproval
}
