// Package knowledgedb stores documents with their chunks, and searches them.
package knowledgedb

import (
	"parley/shared/store/blobdb"
	"parley/shared/store/pg"
)

// Store reads and writes documents. It is safe for concurrent use.
type Store struct {
	db *pg.DB

	// the original files
	blobs        *blobdb.Store
	countedTerms int // maximum number of counted terms per document
}

// New creates the store on a database.
func New(db *pg.DB, blobs *blobdb.Store) *Store {
	return &Store{db: db, blobs: blobs, countedTerms: countedTerms}
}

// LimitCountedTerms sets the maximum number of terms that are counted for a document from now on.
// The default is countedTerms.
func (s *Store) LimitCountedTerms(terms int) { s.countedTerms = terms }
