// Package rundb reads runs: one run, lists of runs, timelines, and automations.
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
