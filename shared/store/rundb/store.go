// Package rundb reads runs: one run, lists of runs, timelines, and automations.
//
// The ingress uses it to answer requests. The packages queuedb and executiondb, which write runs,
// use its rows and columns. Package rundb writes only the index of the search.
//
// A run has a row in the table runs for all of its life. While the run is open, a row in open_runs
// contains its state. A finished run has its rendered object in the column result. That object may
// be large. If it exceeds a limit, most methods leave it in the database and set Deferred to its
// size.
//
// After its retention period, a run is treated as removed; see RunLive. An erased run still exists,
// but has no input and no result.
//
// Methods that take a principal find only that principal's runs; with an empty principal, they find
// all runs of the organization.
package rundb

import (
	"parley/shared/store/pg"
)

// Store reads runs. It is safe for concurrent use.
type Store struct {
	db *pg.DB
}

// New creates the store on a database.
func New(db *pg.DB) *Store {
	return &Store{db: db}
}
