// Package limitdb stores the counts of the service's rate limits: token buckets and the uses of the
// public demo. All ingresses share them, so a limit applies to the whole service.
//
// The package writes the tables demo_clients and rate_buckets. Its callers decide which limits
// apply.
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
