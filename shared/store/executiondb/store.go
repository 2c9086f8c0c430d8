// Package executiondb writes the progress of runs: claims, journals, effects, waits for
// decisions, and results. It also requeues or ends runs whose worker was lost.
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

// New creates the store on a database.
func New(db *pg.DB, runs *rundb.Store) *Store {
	return &Store{db: db, runs: runs, claims: pg.NewPinned(db), finishes: pg.NewPinned(db), progress: newProgressWriter(db)}
}

// Close waits for writes and closes the connections that are reserved for batches.
func (s *Store) Close() {
	s.progress.close()
	for _, p := range []*pg.Pinned{s.claims, s.finishes} {
		p.Close()
	}
}
