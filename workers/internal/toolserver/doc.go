// Package toolserver is the role tool: it takes tool calls from the bus and has a backend carry them out.
//
//	refused ◄── capability? ── accepted ── place? ── configuration ── enabled? ── backend ──► result, capped
//	                                                                                 │
//	                                                     Sending: effect ready → sending, under the run's fence
//	                                                     then the request leaves, and what comes of it is kept
//	                                                     as the effect's outcome before it is answered
//
// Whose call it is, and what it may do, is told by the capability alone: it is signed together with the call's body,
// for one run of one organization, one configuration and a short time. Nothing that a model wrote is believed.
//
// What is known of a call with an effect decides its answer. Nothing left: a failure as any other. It was carried out,
// or certainly was not: that is its outcome, kept in the ledger. Anything else is unknown: the effect stays in sending,
// and the ledger's recovery, or a person, goes on from there.
package toolserver
