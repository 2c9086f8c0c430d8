package domain

import (
	"encoding/json"
	"slices"
)

// Approval says when a person is asked before a tool's call is made.
type Approval string

// When to ask: never (the default), before calls whose side effect is unsafe, or before each call.
const (
	ApprovalNever  Approval = "never"
	ApprovalUnsafe Approval = "unsafe"
	ApprovalAlways Approval = "always"
)

// Asks reports whether a call with that side effect waits for a person.
func (a Approval) Asks(effect SideEffect) bool {
	return a == ApprovalAlways || a == ApprovalUnsafe && effect == SideEffectUnsafe
}

// ActionKind says what a run in requires_action waits for.
type ActionKind string

// What a run waits for: leave to make a call, or word of what became of one whose outcome nobody knows.
const (
	ActionApproval       ActionKind = "approval"
	ActionUnknownOutcome ActionKind = "unknown_outcome"
)

// RequiredAction is what a person must decide before a run goes on.
type RequiredAction struct {
	Kind       ActionKind      `json:"kind"`
	ToolCallID string          `json:"toolCallId"`
	Name       string          `json:"name"`
	Input      json.RawMessage `json:"input"`
	ExpiresAt  Time            `json:"expiresAt"`
}

// Decision is a person's answer to a required action.
type Decision string

// The decisions.
const (
	DecisionApprove  Decision = "approve"
	DecisionDeny     Decision = "deny"
	DecisionHappened Decision = "happened" // the call was carried out; its answer is lost
	DecisionResend   Decision = "resend"   // it was not, or may be carried out once more
	DecisionAbandon  Decision = "abandon"  // end the run
)

// Decisions gives the answers that a kind of action takes.
func (k ActionKind) Decisions() []Decision {
	switch k {
	case ActionApproval:
		return []Decision{DecisionApprove, DecisionDeny}
	case ActionUnknownOutcome:
		return []Decision{DecisionHappened, DecisionResend, DecisionAbandon}
	default:
		return nil
	}
}

// Takes reports whether a decision answers this kind of action.
func (k ActionKind) Takes(d Decision) bool { return slices.Contains(k.Decisions(), d) }
