// Package hookdb stores webhooks and reads the log of their deliveries.
package hookdb

import (
	"parley/shared/store/pg"
	"parley/shared/store/sealdb"
)

// Store reads and writes webhooks. It is safe for concurrent use.
type Store struct {
	db *pg.DB

	// opens the bodies of deliveries
	seals *sealdb.Store
}

// New creates the store on a database.
func New(db *pg.DB, seals *sealdb.Store) *Store {
	return &Store{db: db, seals: seals}
}
