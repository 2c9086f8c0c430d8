// Package model is a model of how a run is accepted, carried out once and answered: the protocol of docs/architecture.md without its
// processes. It runs schedules in virtual time, one event after another, with faults drawn from a seed between any two steps, tens of
// thousands a minute, and looks after every step whether a promise was broken. It is for the interleavings that killing real processes
// meets once a month; what it says holds for the product as far as the model is like it, so it is written to be read beside it:
//
//	model                         product
//	database_test.go, accept      store/queuedb/accept.go and slots.go, accept_runs and accept_single_runs in migrations/functions
//	  claim, voidClaim            store/executiondb/claim.go, claim_runs and void_claims
//	  extend, journal, finish     store/executiondb/claim.go and finish.go, extend_leases, append_steps, end_lane_runs
//	  putBack, handOver           store/executiondb/finish.go, store/queuedb/slots.go, dispatch_runs
//	  lost … redispatch           store/executiondb/sweep.go, store/queuedb/dispatch.go, lost_runs, overdue_runs …
//	ledger_test.go                store/executiondb/effects.go, park.go, actions.go
//	stream_test.go                shared/bus/jobs.go and bus.go, and what nats-server promises of a work queue, no more
//	ingress_test.go               ingress/internal/dispatch
//	worker_test.go                workers/internal/runner
//	batch_test.go                 shared/batch, store/executiondb/claim.go and finish.go
//	tools_test.go                 workers/internal/toolset/remote.go, workers/internal/toolserver
//	sweeper_test.go               workers/internal/sweep
//
// A transaction is one event: what PostgreSQL's row locks and unique indexes serialize is serial here. What they do not is not: accept
// reads the heads of sessions and the places of the window from a snapshot that is older than its writes, and a sweeper finds rows in
// another transaction than it changes them. An answer may be lost, and a statement whose caller has given up may be carried out late.
//
// As in the product, runs are accepted, claimed and finished in batches, and a worker's heartbeats are one statement. These statements skip
// a row that another transaction has locked; all other statements of a worker ignore such locks. A second statement explains claims that
// cannot be granted. If it fails, the whole batch fails, although its other runs are claimed. In two of three schedules with faults, claims
// and results wait for others, so that batches are large.
//
// When the retention of a run is over, the model removes its key and keeps its row. A key is kept for longer than the stream knows message
// ids, as in the product; in half of the schedules both times are seconds, so that keys expire while faults happen.
//
// Not modelled: steps of the clock, erasure, lanes, streams of events, documents, budgets.
//
// A mutant is the model with one rule of the protocol left out (mutants_test.go). For each the test looks for a schedule that breaks a
// promise; if it finds none, either the invariants are blind or the rule is not needed. scripts/mutants does the same to the product.
//
// A violation prints its seed. To see what happened:
//
//	go test ./scripts/model -run TestSchedule -args -model.seed=4711 [-model.mutant=NAME]
package model
