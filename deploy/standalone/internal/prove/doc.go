// Package prove is `parley prove`: it shows on this machine that keyed triggers are answered as one run with one effect
// each, whatever is killed meanwhile.
//
//	clients ──HTTP──▶ ingress ──▶ PostgreSQL, NATS ◀── worker, worker
//	   │  retry with their key      ▲         ▲           │ httpRequest, sideEffect idempotent
//	   │  until there is an answer  └─ kill -9 ─ strikes  ▼
//	   └────────────────────────── verdict ◀─────────── ledger
//
// Everything but the clients and the ledger is a process of its own: this very executable as `serve`, `migrate` and the
// hidden `nats`, and a private PostgreSQL, all on loopback ports of their own and below one temporary directory. The
// strikes are a pure function of the seed and the sizes; when each comes is said in answers, not in seconds, so that a
// slow machine is struck at the same places as a fast one.
//
// The ledger counts what reaches it and asks no process under test. A strike leaves the runs of a dead worker to their
// leases, of 30 s: so the strikes come in the first half of the answers, and workers have so few places that the runs
// which wait for a lease are at most half of those that are under way.
//
// The verdict is a pure function of what clients, ledger and the service's own list of runs say.
package prove
