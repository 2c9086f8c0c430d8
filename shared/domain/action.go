package domain

import (
	"encoding/json"
	"slices"
)

// Approval determines which calls of a tool require a person's approval.
type Approval string

// Approval policies: approval for no calls (the default), for calls with an unsafe side effect, or
// for all calls.
const (
	ApprovalNever  Approval = "never"
	ApprovalUnsafe Approval = "unsafe"
	ApprovalAlways Approval = "always"
)

// Asks reports whether the policy requires approval for a call with the given side effect. The
// policy "" is the default and means never.
func (a Approval) Asks(effect SideEffect) bool {
	return a == ApprovalAlways || a == ApprovalUnsafe && effect == SideEffectUnsafe
}

// ActionKind is the kind of decision that a run in requires_action waits for.
type ActionKind string

// The kinds of decision: to approve a call, or to report the outcome of a call that may have been
// executed. A run with ActionClientTools waits for the results of calls that the client makes, and
// not for a decision.
const (
	ActionApproval       ActionKind = "approval"
	ActionUnknownOutcome ActionKind = "unknown_outcome"
	ActionClientTools    ActionKind = "client_tools"
)

// Awaited is the kind of input that a run in requires_action waits for.
type Awaited string

// A run waits for a person's decision, or for the results of calls that the client makes.
const (
	AwaitedPerson Awaited = "person"
	AwaitedClient Awaited = "client"
)

// RequiredAction is the action that a run waits for: a person's decision about one call, or the
// results of Calls, which the client makes.
type RequiredAction struct {
	Kind       ActionKind      `json:"kind"`
	ToolCallID string          `json:"toolCallId,omitempty"`
	Name       string          `json:"name,omitempty"`
	Input      json.RawMessage `json:"input,omitempty"`
	Calls      []ClientCall    `json:"calls,omitempty"` // of ActionClientTools only
	ExpiresAt  Time            `json:"expiresAt"`
}

// CallIDs returns the ids of the calls that the action is about.
func (a *RequiredAction) CallIDs() []string {
	if a.Kind != ActionClientTools {
		return []string{a.ToolCallID}
	}
	ids := make([]string, len(a.Calls))
	for i, call := range a.Calls {
		ids[i] = call.ToolCallID
	}
	return ids
}

// Decision is a person's decision about a required action.
type Decision string

// The decisions.
const (
	DecisionApprove  Decision = "approve"
	DecisionDeny     Decision = "deny"
	DecisionHappened Decision = "happened" // the call was executed; its result is lost
	DecisionResend   Decision = "resend"   // the call was not executed, or may be executed again
	DecisionAbandon  Decision = "abandon"  // end the run
)

// Decisions returns the possible decisions about a kind of action. There are none for client tools,
// whose results the client sends.
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

// Takes reports whether d is a possible decision about this kind of action.
func (k ActionKind) Takes(d Decision) bool { return slices.Contains(k.Decisions(), d) }
