// Package chaos breaks a whole Parley for minutes while clients ask for runs, and then looks what became of each of them. `make chaos` runs
// it for ten minutes; without flags TestChaos is a short form of a few seconds of faults.
//
//	load ──▶ Front ──▶ ingress (2) ──▶ DB ──▶ PostgreSQL ◀── watcher: terminal rows as they appear
//	                      │             ▲
//	                      ▼             │
//	                     Bus ──▶ NATS ◀── Bus ── agent (3), tool (2), sweep (1) ──▶ model and ledger, which nobody strikes
//
// Everything in the middle is a process of scripts/internal/cluster. schedule draws the faults from a seed, as a pure function; striker
// carries them out and prints each with what came of it. What clients were answered, what the ledger counted, what the model was shown,
// what processes held and what the database says go into evidence, which only ever grows; check, which is pure, holds it against the
// promises of the service, a rule for each. Its tests plant a violation of each rule.
//
// What must have happened in a run is counted, too: one that has shown nothing of a kind fails. What cannot be done on a machine is
// printed as NOT DONE. When a run fails, its history and the logs of all processes are kept in a directory that the last line names.
//
// The same seed draws the same load and the same faults at the same times; where in a run they land is up to the machine.
package chaos
