// Package sealdb seals and opens blobs, and finds and reseals values that were sealed with an older
// key.
//
// Package blobdb and the packages for hooks use it to encrypt contents, if the operator has enabled
// this. The operator's commands list the sealed values and reseal them after a change of
// SECRETS_KEY.
//
// A blob is sealed in pieces. The name of a piece is authenticated, so that no piece can be moved
// to another position, blob or organization. Secrets of agents, hooks and endpoints are sealed by
// their owners; this package only reseals them.
//
// The encryption itself is in package secrets.
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

// New creates the store on a database. It neither seals nor opens blobs until SealContents or
// OpenContents is called.
func New(db *pg.DB) *Store { return &Store{db: db} }

// Overhead returns the number of bytes that sealing adds to a piece, or 0 if blobs are stored
// unsealed.
func (s *Store) Overhead() int { return s.sealing }
