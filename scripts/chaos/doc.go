// Package chaos injects faults into a complete Parley for minutes while clients start runs, and
// then checks every run. `make chaos` injects faults for ten minutes. Without flags, TestChaos is a
// short form with a few seconds of faults.
//
//	load ──▶ Front ──▶ ingress (2) ──▶ DB ──▶ PostgreSQL ◀── watcher: terminal rows as they appear
//	                      │             ▲
//	                      ▼             │
//	                     Bus ──▶ NATS ◀── Bus ── agent (3), tool (2), sweep (1) ──▶ model and ledger, without faults
//
// The package scripts/internal/cluster starts the servers, Parley's processes and the fault proxies
// between them. A chaos run has these parts:
//
//   - schedule draws the faults from a seed, as a pure function.
//   - striker injects the faults, and logs each fault with its outcome.
//   - evidence contains the clients' responses, the ledger's counts, the messages shown to the model,
//     the processes' resource usage, and the database's rows. Evidence is added and never removed.
//   - check, a pure function, compares the evidence with the service's promises. There is one rule for
//     each promise. Tests of check construct a violation of each rule.
//
// A chaos run also counts its faults and events. It fails if a required kind of fault or event is
// missing. Faults that the machine does not allow are printed as NOT DONE. After a failure, the
// last line names a directory with the history and the logs of all processes.
//
// The same seed draws the same load and the same faults at the same times. The point in a run at
// which a fault strikes also depends on the machine.
package chaos
