// Package limitdb stores the counts of the service's rate limits: token buckets and the uses of
// the public demo.
package limitdb

import (
	"parley/shared/store/pg"
)

// Store reads and writes rate limits. It is safe for concurrent use.
type Store struct {
	db *pg.DB
}

// New creates the store on a database.
func New(db *pg.DB) *Store {
	return &Store{db: db}
}
