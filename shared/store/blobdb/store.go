// Package blobdb stores contents: uploads, the files and sources of runs, and the
// chunks of their bytes.
package blobdb

import (
	"parley/shared/store/pg"
	"parley/shared/store/sealdb"
)

// Store reads and writes contents. It is safe for concurrent use.
type Store struct {
	db *pg.DB

	seals *sealdb.Store
}

// New creates the store on a database.
func New(db *pg.DB, seals *sealdb.Store) *Store {
	return &Store{db: db, seals: seals}
}
