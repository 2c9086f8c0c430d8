// Package blobdb keeps contents: uploads, the files and sources of runs, and the pieces they are stored in.
package blobdb

import (
	"parley/shared/store/pg"
	"parley/shared/store/sealdb"
)

// Store reads and writes them. It is safe for concurrent use.
type Store struct {
	db *pg.DB

	seals *sealdb.Store
}

// New makes the store on a database.
func New(db *pg.DB, seals *sealdb.Store) *Store {
	return &Store{db: db, seals: seals}
}
