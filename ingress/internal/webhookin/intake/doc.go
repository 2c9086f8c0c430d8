// Package intake decides what becomes of a delivery whose signature is good: it is answered, filtered, refused, put off, gathered with
// others, or run.
//
//	hook, event ──► Take ──► rules ──► budget ──► run ──► dispatch.Deliver: the delivery's log and its run, in one transaction
//	                  │                                      ▲
//	                  └── over the limit of requests ── Hold ┘
package intake
