// Package intake decides about deliveries with a valid signature: each is answered like a ping,
// filtered out, refused, delayed, coalesced with others, or starts a run.
//
//	hook, event ──► Take ──► rules ──► budget ──► run ──► dispatch.Deliver: the delivery's log and its run, in one transaction
//	                  │                                      ▲
//	                  └── over the limit of requests ── Hold ┘
package intake
