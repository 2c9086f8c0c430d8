// Package intake decides what happens to a delivery with a valid signature. A delivery can start a
// run, be delayed, be coalesced with others, be filtered out, be refused, or be answered directly,
// like a ping.
//
//	hook, event ──► Take ──► rules ──► budget ──► run ──► dispatch.Deliver: the delivery's log and its run, in one transaction
//	                  │                                      ▲
//	                  └── over the limit of requests ── Hold ┘
//
// Package httpapi/hook reads the hook with [Hooks], verifies the signature and calls [Intake.Take].
// All processes share the log, which package hookdb stores. Each process has its own cache of
// hooks. A result of the run is not sent to the sender of the delivery.
package intake
