// Package runner executes runs. It receives their job messages, claims them, runs the agent loop
// under a lease, saves the result and replies.
//
// The fence of a run's claim, in PostgreSQL, decides whether a worker's writes take effect:
//
//	job message ─► claim ─┬─ not claimable ─────────────────────────► ack (a later dispatch sends a new message)
//	                      └─ claimed ─► attempt ─┬─ answer, or final failure ─► finish ─► reply ─► ack
//	  heartbeat: lease + message │               ├─ retryable error, or draining ─► requeue ─► ack
//	                             │               └─ run taken over or cancelled ─► nothing ─► ack
//	                             └─ lease lost: the attempt is cancelled
//
// A result is committed before it is published, and published before the job message is
// acknowledged. A worker that dies between two of these steps causes a repetition, which the fence
// makes harmless.
package runner
