// Package executiondb writes the progress of runs: claims, journals, effects, decisions, and
// results. It also requeues or ends runs whose worker was lost.
//
// Agent workers claim runs, renew their leases, and write steps, effects, events and outcomes. The
// ingress cancels runs, records decisions, and reads event logs. The sweeper requeues lost runs and
// ends overdue runs. Package queuedb accepts runs and gives them slots; package rundb reads them
// for the API.
//
// A claim has a fence. Each write of a worker contains the fence. The database ignores the write if
// a later claim, a requeue or an end has raised the fence. The result of a write therefore shows
// whether the worker still holds the run.
//
// Statements that concern many runs never wait for the lock of one run. They skip the locked run
// and report it, and the caller tries again later. Rows are locked in the order of their run ids.
//
// The package writes the tables open_runs, runs, steps, effects, run_events and run_attempts. It
// publishes no messages; its callers publish messages according to the results.
package executiondb

import (
	"parley/shared/store/pg"
	"parley/shared/store/rundb"
)

// Store reads and writes runs that are being executed. It is safe for concurrent use.
type Store struct {
	db *pg.DB

	// reads runs for the results of Decide and Cancel
	runs *rundb.Store

	// the connections that are reserved for Claim and for Finish
	claims, finishes *pg.Pinned

	progress *progressWriter
}

// New creates the store on a database. The caller closes the store before db. New opens no
// connection: the reserved connections are opened when they are first used.
func New(db *pg.DB, runs *rundb.Store) *Store {
	return &Store{db: db, runs: runs, claims: pg.NewPinned(db), finishes: pg.NewPinned(db), progress: newProgressWriter(db)}
}

// Close waits for pending writes and closes the connections that are reserved for batches. No other
// method may be called afterwards.
func (s *Store) Close() {
	s.progress.close()
	for _, p := range []*pg.Pinned{s.claims, s.finishes} {
		p.Close()
	}
}
