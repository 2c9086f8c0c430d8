package domain

import "encoding/json"

// EffectState is the state of a side-effecting call in the effect ledger.
type EffectState string

// The states of an effect:
//
//	         ┌─────────► awaiting ──approve, resend──► ready
//	         │              │ deny, happened: denied, happened (the run continues); abandon ends the run
//	(none) ──┴─► ready ──► sending ──► done
//	                          └── outcome unknown: idempotent → ready, same key; unsafe → awaiting
const (
	EffectReady    EffectState = "ready"    // committed, not sent: the attempt with its fence may send it
	EffectAwaiting EffectState = "awaiting" // a person must decide
	EffectSending  EffectState = "sending"  // a tool worker is about to send it, or has sent it
	EffectDone     EffectState = "done"     // its outcome is known and stored
	EffectDenied   EffectState = "denied"   // a person denied it; it was never sent
	EffectHappened EffectState = "happened" // a person reported that it was executed; its answer is lost
	EffectVoid     EffectState = "void"     // no worker took it; it was not sent and never will be
)

// Effect is an entry of the effect ledger: a tool call of a run that must not be repeated
// freely, or that requires approval.
type Effect struct {
	CallID     string
	Name       string // of the tool, as the model calls it
	Input      json.RawMessage
	SideEffect SideEffect
	Key        string // sent as Idempotency-Key, the same in every attempt
	State      EffectState
	Sent       bool            // sending has begun once, so it may have been sent
	Outcome    json.RawMessage // set in EffectDone: the tool worker's reply
}

// Waiting returns the decision that an effect in EffectAwaiting waits for.
func (e Effect) Waiting() ActionKind {
	if e.Sent {
		return ActionUnknownOutcome
	}
	return ActionApproval
}
