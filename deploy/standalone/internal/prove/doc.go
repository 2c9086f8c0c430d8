// Package prove implements `parley prove`. It demonstrates on this machine that each keyed trigger is answered by one run
// with one effect, even while processes are killed.
//
//	clients ──HTTP──▶ ingress ──▶ PostgreSQL, NATS ◀── worker, worker
//	   │  retry with their key      ▲         ▲           │ httpRequest, sideEffect idempotent
//	   │  until there is an answer  └─ kill -9 ─ kills    ▼
//	   └────────────────────────── verdict ◀─────────── ledger
//
// The clients and the ledger run in this process. All other parts are separate processes: this executable as `serve`,
// `migrate` and the hidden command `nats`, and a private PostgreSQL. They use loopback ports and one temporary directory.
//
// The kills are a pure function of the seed and the sizes. Each kill is due after a number of answers rather than seconds, so that
// a slow machine is hit at the same points as a fast one.
//
// The ledger counts the requests that reach it, independently of the processes under test. The runs of a killed worker wait
// until their leases (30 s) expire. Therefore all kills happen during the first half of the answers, and workers have so few
// slots that at most half of the runs in progress wait for a lease.
//
// The verdict is a pure function of the clients' answers, the ledger, and the service's list of runs.
package prove
