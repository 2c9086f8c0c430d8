// Package runner carries out runs: it hears their doorbells, claims them, lets the agent
// loop work under a lease, saves what came of it and replies.
//
// What a worker may write is decided by the fence of its claim, in PostgreSQL:
//
//	doorbell ─► claim ─┬─ not claimable ──────────────────────► ack (whatever it waits for rings again)
//	                   └─ claimed ─► attempt ─┬─ answer, or failed for good ─► finish ─► reply ─► ack
//	     heartbeat: lease + doorbell │        ├─ a retry can cure it, or draining ─► put back ─► ack
//	                                 │        └─ run taken away, or cancelled ─► nothing ─► ack
//	                                 └─ lease lost: the attempt is cancelled
//
// A result is committed before anybody is told of it, and told before the doorbell is
// acknowledged: dying between two of these costs a repetition that the fence makes harmless.
package runner
