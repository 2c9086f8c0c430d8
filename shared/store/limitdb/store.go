// Package limitdb keeps what the service's limits have counted: token buckets and the uses of the public demo.
package limitdb

import (
	"parley/shared/store/pg"
)

// Store reads and writes them. It is safe for concurrent use.
type Store struct {
	db *pg.DB
}

// New makes the store on a database.
func New(db *pg.DB) *Store {
	return &Store{db: db}
}
