// Package prove implements `parley prove`. On the user's machine, it shows that each trigger with
// an idempotency key gets the answer of one run with one effect, even while processes are killed.
//
//	clients ──HTTP──▶ ingress ──▶ PostgreSQL, NATS ◀── worker, worker
//	   │  retry with their key      ▲         ▲           │ httpRequest, sideEffect idempotent
//	   │  until there is an answer  └─ kill -9 ─ kills    ▼
//	   └────────────────────────── verdict ◀─────────── ledger
//
// The clients and the ledger run in this process. All other parts are separate processes: this
// program as `serve`, `migrate` and the hidden command `nats`, and a private PostgreSQL. They use
// loopback ports and one temporary directory.
//
// The kills depend only on the seed and on the sizes. Each kill is due after a number of answers
// and not after a time, so that kills come at the same points on slow and fast machines.
//
// The ledger counts the requests that it receives, independently of the processes under test. The
// runs of a killed worker wait until their leases (30 s) expire. All kills therefore happen during
// the first half of the answers. Workers have so few slots that at most half of the runs in
// progress wait for a lease.
//
// The verdict depends only on the clients' answers, the ledger, and the service's list of runs.
package prove
