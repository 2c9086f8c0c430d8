// Package floor is the baseline of Parley's benchmarks: the least work that a service can do between a request and its
// response. It shares no code with Parley, because a fault in shared code would slow both sides equally and stay hidden.
//
// The floor of a run keeps one promise, that the request survives:
//
//	client ──▶ gin handler ──▶ one grouped INSERT (PostgreSQL) ──▶ JetStream, asynchronously
//	               ▲                                                     │
//	               └──── inbox of the ingress (core NATS) ◀── worker ◀───┘ pull consumer
//
// It has no authentication, no idempotency, no limits, no claim and no lease, and saves no result.
//
// Serve runs a process and Start starts several. The kinds of processes are:
//   - Ingress and Worker, the floor of a run
//   - Parked, whose requests only wait
//   - Hooks, which verifies and inserts deliveries
//   - Replay, which reads an answer by its key
package floor
