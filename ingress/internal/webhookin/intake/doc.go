// Package intake decides about deliveries with a valid signature: each is answered, filtered,
// refused, delayed, coalesced with others, or run.
//
//	hook, event ──► Take ──► rules ──► budget ──► run ──► dispatch.Deliver: the delivery's log and its run, in one transaction
//	                  │                                      ▲
//	                  └── over the limit of requests ── Hold ┘
package intake
