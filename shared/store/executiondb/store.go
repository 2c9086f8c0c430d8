// Package executiondb writes what workers do with a run: claims, journals, effects, waits for
// decisions, ends. It also requeues and ends runs whose worker was lost.
package executiondb

import (
	"parley/shared/store/pg"
	"parley/shared/store/rundb"
)

// Store reads and writes them. It is safe for concurrent use.
type Store struct {
	db *pg.DB

	runs *rundb.Store

	claims, finishes *pg.Pinned
}

// New makes the store on a database.
func New(db *pg.DB, runs *rundb.Store) *Store {
	return &Store{db: db, runs: runs, claims: pg.NewPinned(db), finishes: pg.NewPinned(db)}
}

// Close ends the connections that batches have reserved.
func (s *Store) Close() {
	for _, p := range []*pg.Pinned{s.claims, s.finishes} {
		p.Close()
	}
}
