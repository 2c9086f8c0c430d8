// Package sessiondb reads sessions and their history, and erases sessions and runs.
package sessiondb

import (
	"parley/shared/store/pg"
)

// Store reads and erases sessions. It is safe for concurrent use.
type Store struct {
	db *pg.DB
}

// New creates the store on a database.
func New(db *pg.DB) *Store {
	return &Store{db: db}
}
