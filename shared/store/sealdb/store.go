// Package sealdb seals and opens contents, and finds and reseals what is sealed with an older key.
package sealdb

import "parley/shared/store/pg"

// Store seals and opens contents. It is safe for concurrent use once the process has started.
type Store struct {
	db *pg.DB

	sealer  Sealer // nil: what is sealed cannot be opened
	sealing int    // how many bytes longer a sealed piece is; 0: contents are stored as they are
	// unopened, if not nil, is called with each content that no key of sealer opens.
	unopened func(v Value, sealed []byte)
}

// New makes the store on a database.
func New(db *pg.DB) *Store { return &Store{db: db} }

// Overhead is how many bytes longer a sealed piece is than its content; 0 when contents are stored as they are.
func (s *Store) Overhead() int { return s.sealing }
