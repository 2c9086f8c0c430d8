// Package model is a model of the protocol in docs/architecture.md: how a run is accepted, executed
// once and answered. It has no real processes. It runs tens of thousands of schedules per minute in
// virtual time, one event after another. A seed determines the faults between any two steps, and
// every promise is checked after each step.
//
// The model finds interleavings that a test with real processes would reach only about once a
// month. Its results apply to the product only as far as the model matches the product. Each part
// of the model therefore corresponds to a part of the product:
//
//	model                         product
//	database_test.go, accept      store/queuedb/accept.go and slots.go, accept_runs and accept_single_runs in migrations/functions
//	  claim, voidClaim            store/executiondb/claim.go, claim_runs and void_claims
//	  extend, journal, finish     store/executiondb/claim.go, finish.go and progress.go, extend_leases, write_progress, end_lane_runs
//	  requeueHeld, dispatchNext   store/executiondb/finish.go, store/queuedb/slots.go, dispatch_runs
//	  lost … redispatch           store/executiondb/sweep.go, store/queuedb/dispatch.go, lost_runs, overdue_runs …
//	ledger_test.go                store/executiondb/effects.go, park.go, actions.go, write_progress
//	stream_test.go                shared/bus/jobs.go and bus.go, and what nats-server promises of a work queue, no more
//	ingress_test.go               ingress/internal/dispatch
//	worker_test.go                workers/internal/runner
//	batch_test.go                 shared/batch, store/executiondb/claim.go and finish.go
//	tools_test.go                 workers/internal/toolset/remote.go, workers/internal/toolserver
//	sweeper_test.go               workers/internal/sweep
//
// A transaction is one event, because PostgreSQL's row locks and unique indexes serialize
// transactions. The model has two exceptions. Acceptance reads the heads of sessions and the used
// slots from a snapshot that is older than its writes. A sweeper finds rows in one transaction and
// changes them in another. A reply may be lost, and a statement may be executed after its caller
// has given up.
//
// As in the product, runs are accepted, claimed and finished in batches, and one statement sends
// the heartbeats of all of a worker's runs. These statements skip rows that another transaction has
// locked. The other statements of a worker ignore such locks.
//
// If runs of a batch cannot be claimed, a second statement finds out why. If this statement fails,
// the worker gets no result for the batch, although its other runs are claimed. In two of three
// schedules with faults, the first claim or result of a batch waits for others, so that batches are
// large.
//
// When a run's retention period ends, the model takes the key from the run and keeps the row. As in
// the product, a key is kept for longer than the stream's duplicate window. In half of the
// schedules both times are seconds, so that keys expire while faults happen.
//
// The model omits clock steps, erasure, lanes, event streams, documents and budgets.
//
// A mutant is the model without one rule of the protocol (mutants_test.go). For each mutant, the
// test searches for a schedule that breaks a promise. If there is none, either the checks miss the
// fault or the rule is not needed. The package scripts/mutants does the same with the product.
//
// A violation prints its seed. A command prints the schedule of a seed:
//
//	go test ./scripts/model -run TestSchedule -args -model.seed=4711 [-model.mutant=NAME]
package model
