// Package toolserver implements the role tool: it receives tool calls from the bus and executes
// them with a backend.
//
//	refused ◄── capability? ── accepted ── slot? ── configuration ── enabled? ── backend ──► result, truncated
//	                                                                                │
//	                                              Sending: effect ready → sending, under the run's fence;
//	                                              then the request leaves, and the outcome is recorded
//	                                              in the ledger before the reply
//
// The capability alone determines a call's organization and permissions. It is signed together with
// the call's body, for one run, one configuration and a short time. Text written by a model never
// grants permission.
//
// The reply to a call with an effect depends on what is known about it:
//
//   - The request did not leave: the reply is an ordinary failure.
//   - The call was executed, or certainly was not: that is its outcome, recorded in the ledger.
//   - Anything else is unknown: the effect stays in the state sending, until the ledger's recovery
//     or a person resolves it.
package toolserver
