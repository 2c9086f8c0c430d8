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
	EffectReady    EffectState = "ready"    // stored but not sent: the attempt with the same fence may send the call
	EffectAwaiting EffectState = "awaiting" // a person must decide
	EffectSending  EffectState = "sending"  // a tool worker is about to send the call, or has sent it
	EffectDone     EffectState = "done"     // the outcome is known and stored
	EffectDenied   EffectState = "denied"   // a person denied the call; it was never sent
	EffectHappened EffectState = "happened" // a person reported that the call was executed; its result is lost
	EffectVoid     EffectState = "void"     // no worker took the call; it was not sent and never will be
)

// Effect is an entry of the effect ledger: a tool call of a run that must not be repeated
// freely, or that requires approval.
type Effect struct {
	CallID     string
	Name       string // name of the tool, as the model uses it
	Input      json.RawMessage
	SideEffect SideEffect
	Key        string // sent as Idempotency-Key, the same in every attempt
	State      EffectState
	Sent       bool            // a worker has begun to send the call at least once, so the call may have been executed
	Outcome    json.RawMessage // the tool worker's reply, in state EffectDone
}

// Waiting returns the kind of decision for which an effect in the state EffectAwaiting waits. A
// call that was never sent needs only an approval.
func (e Effect) Waiting() ActionKind {
	if e.Sent {
		return ActionUnknownOutcome
	}
	return ActionApproval
}
