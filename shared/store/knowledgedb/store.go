// Package knowledgedb keeps documents with their chunks, and searches them.
package knowledgedb

import (
	"parley/shared/store/blobdb"
	"parley/shared/store/pg"
)

// Store reads and writes them. It is safe for concurrent use.
type Store struct {
	db *pg.DB

	blobs        *blobdb.Store
	countedTerms int // of each document
}

// New makes the store on a database.
func New(db *pg.DB, blobs *blobdb.Store) *Store {
	return &Store{db: db, blobs: blobs, countedTerms: countedTerms}
}

// LimitCountedTerms sets how many terms of a document the store counts from then on; see countedTerms for the default.
func (s *Store) LimitCountedTerms(terms int) { s.countedTerms = terms }
