// Package floor is the baseline of Parley's benchmarks: the least work that a service can do
// between a request and its response. It shares no code with Parley, because a slow shared function
// would slow both sides equally and the comparison would not show it.
//
// The floor of a run gives one guarantee: a request that it has accepted is on disk.
//
//	client ──▶ gin handler ──▶ one grouped INSERT (PostgreSQL) ──▶ JetStream, asynchronously
//	               ▲                                                     │
//	               └──── inbox of the ingress (core NATS) ◀── worker ◀───┘ pull consumer
//
// It has no authentication, no idempotency, no limits and no leases, and does not store results.
//
// The floor of a streamed chat is built in the same way, without the INSERT. Its worker calls the
// model and publishes each piece of the answer to the inbox. The handler writes each piece as a
// server-sent event.
//
// Serve runs one process, and Start starts several processes. The kinds of processes are:
//   - Ingress and Worker, the floor of a run
//   - ChatIngress and ChatWorker, the floor of a streamed chat
//   - Parked, whose requests only wait
//   - Hooks, which verifies and inserts webhook deliveries
//   - Replay, which returns the answer stored under a request's key
package floor
