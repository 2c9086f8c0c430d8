// Package sealdb seals and opens blobs, and finds and reseals values that were sealed
// with an older key.
package sealdb

import "parley/shared/store/pg"

// Store seals and opens blobs. It is safe for concurrent use once it is configured.
type Store struct {
	db *pg.DB

	sealer  Sealer // nil: sealed blobs cannot be opened
	sealing int    // number of bytes that sealing adds to a piece; 0 if blobs are stored unsealed
	// unopened, if not nil, is called with each blob that cannot be opened with any key.
	unopened func(v Value, sealed []byte)
}

// New creates the store on a database.
func New(db *pg.DB) *Store { return &Store{db: db} }

// Overhead returns the number of bytes that sealing adds to a piece, or 0 if blobs are stored
// unsealed.
func (s *Store) Overhead() int { return s.sealing }
