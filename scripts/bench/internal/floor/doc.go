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
// The floor of a streamed chat has the same shape without the INSERT: its worker calls the model and publishes each piece of
// the answer to the inbox, and the handler writes it as a server-sent event.
//
// Serve runs a process and Start starts several. The kinds of processes are:
//   - Ingress and Worker, the floor of a run
//   - ChatIngress and ChatWorker, the floor of a streamed chat
//   - Parked, whose requests only wait
//   - Hooks, which verifies and inserts deliveries
//   - Replay, which reads an answer by its key
package floor
