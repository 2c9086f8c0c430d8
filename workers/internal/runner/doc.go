// Package runner executes runs. It receives job messages, claims the runs, runs the agent loop
// under a lease, saves the result and replies. It implements the worker role "agent".
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
//
// One statement usually serves many runs: claims, results, requeues, notes and checkpoints of
// concurrent attempts are combined by package batch. The package reads and writes the database only
// through the interfaces in runner.go, which package executiondb and others implement. The files
// are:
//
//   - runner.go: dependencies, start and shutdown, fetching of jobs
//   - execute.go, failure.go and park.go: an attempt from its claim to its outcome
//   - attempt.go, attachments.go and clienttools.go: the input of the agent loop
//   - events.go and pace.go: the events of a run
//   - budget.go: budgets of the organization
//   - inputs.go, slots.go, held.go and gate.go: memory, dispatch slots, leases, and the state
//     of the database
package runner
