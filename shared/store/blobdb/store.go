// Package blobdb stores blobs in chunks: the contents of uploads, documents and runs' files. It
// also stores the source texts that runs have read.
package blobdb

import (
	"parley/shared/store/pg"
	"parley/shared/store/sealdb"
)

// Store reads and writes blobs. It is safe for concurrent use.
type Store struct {
	db *pg.DB

	// seals and opens contents
	seals *sealdb.Store
}

// New creates the store on a database.
func New(db *pg.DB, seals *sealdb.Store) *Store {
	return &Store{db: db, seals: seals}
}
