// Package floor is the least that a service can do between a request and its answer: what Parley is measured against. Nothing in it comes
// from Parley, so that a fault in a shared part cannot slow both sides alike and hide itself.
//
// The floor of a run keeps one promise, that the request survives:
//
//	client ──▶ gin handler ──▶ one grouped INSERT (PostgreSQL) ──▶ JetStream, asynchronously
//	               ▲                                                     │
//	               └──── inbox of the ingress (core NATS) ◀── worker ◀───┘ pull consumer
//
// It has no authentication, no idempotency, no limits, no claim and no lease, and saves no result.
//
// Each process is a kind that Serve runs and Start starts: Ingress and Worker; Parked, whose requests only wait; Hooks, which verifies
// and inserts deliveries; Replay, which reads an answer by its key.
package floor
