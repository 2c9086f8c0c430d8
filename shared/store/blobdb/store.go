// Package blobdb stores blobs in chunks: the contents of uploads, documents and runs' files. It
// also stores the source texts that runs have read.
//
// A blob is stored once per organization and hash. Its life has three steps: it is reserved, its
// chunks are written, and a row of files or documents links to it. A blob without a link is kept
// for an hour. When the last link is removed, the blob is removed in the same transaction. The
// sweeper removes blobs that were never linked.
//
// Transactions lock blobs in the order of their hashes. A transaction that links to blobs first
// calls HoldBlobs, so that none of them is removed concurrently.
//
// Package sealdb encrypts the chunks if sealing is configured. Quotas count the bytes of each blob
// once, and fileCost for each file.
//
// The package writes the tables blobs, blob_chunks, files, sources and run_sources.
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

// New creates the store on a database. seals encrypts and decrypts the contents.
func New(db *pg.DB, seals *sealdb.Store) *Store {
	return &Store{db: db, seals: seals}
}
