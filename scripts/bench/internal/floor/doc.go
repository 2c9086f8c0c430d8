// Package floor is the least that a service could do between a request and its answer when
// the request is to be on disk first and carried out in another process: what Parley is
// measured against.
//
//	client ──▶ gin handler ──▶ one grouped INSERT (PostgreSQL) ──▶ JetStream, asynchronously
//	               ▲                                                     │
//	               └──── inbox of the ingress (core NATS) ◀── worker ◀───┘ pull consumer
//
// It has no authentication, no idempotency, no limits, no claim, no lease, and saves no result:
// every promise is missing but that the request survives. Nothing in it is borrowed from Parley,
// so that a fault in a shared part cannot slow both sides alike and hide itself.
//
// RunIngress and RunWorker are its two processes. The others are for other comparisons: RunParked keeps requests that do nothing
// but wait, RunHooks checks and inserts deliveries, RunReplay reads an answer by its key.
package floor
