// Package runner executes runs. It receives job messages, claims the runs, runs the agent loop
// under a lease, saves the result and replies.
//
// A job message is acknowledged before its run is claimed. From then on, the run's row in
// PostgreSQL replaces the message. The fence of the claim decides whether a worker's writes take
// effect:
//
//	job message ─► ack ─► claim ─┬─ not claimed ─► nothing (the sweeper publishes the job of an unclaimed run again)
//	                             └─ claimed ─► attempt ─┬─ answer, or final failure ─► finish ─► reply
//	                        heartbeat: lease │          ├─ retryable error, draining, or lease lost ─► requeue
//	                                         │          ├─ waits for a person or the client ─► park
//	                                         │          └─ run taken over or cancelled ─► nothing
//
// A result is committed before it is published. If a worker dies during an attempt, the sweeper
// requeues the run, and the fence rejects later writes of the attempt.
package runner
