// Package toolserver implements the role tool: it receives tool calls from the bus and executes
// them with a backend.
//
//	refused ◄── capability? ── accepted ── slot? ── configuration ── enabled? ── backend ──► result, truncated
//	                                                                                │
//	                                              Sending: effect ready → sending, under the run's fence;
//	                                              then the request leaves, and the outcome is recorded
//	                                              in the ledger before the reply
//
// Only the capability determines the organization and the permissions of a call. It is signed
// together with the call's body, for one run, one configuration and a short time. Text that a model
// has written never grants permission.
//
// The reply to a call with an effect depends on what is known about the effect:
//
//   - The request was not sent: the reply is an ordinary failure.
//   - The call was certainly executed, or certainly not executed: the reply is this outcome, which
//     is recorded in the ledger.
//   - Anything else is unknown: the effect stays in the state sending, until the ledger's recovery
//     or a person resolves it.
package toolserver
