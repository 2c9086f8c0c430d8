// Package knowledgedb stores documents with their chunks, and searches them.
//
// The ingress adds, changes and deletes documents; their originals are in package blobdb. An ingest
// worker claims a queued document, reads it, and stores its chunks with AddChunks. FinishDocument
// makes the document ready. Agents search the chunks of ready documents by words and by vectors.
//
// The status of a document changes from queued to processing and then to ready or failed. A claim
// has a fence, as in package executiondb. A worker that has lost the document can write nothing
// more.
//
// Locks are taken in a fixed order: the organization's documents (an advisory lock), the rows of
// documents in the order of their ids, and then the term counts.
//
// The package writes the tables documents, document_chunks, document_vectors, indexed_documents,
// knowledge_terms and run_documents. Package sessiondb erases the runs that got text from a deleted
// document. Reading formats, splitting texts and computing vectors are tasks of the workers.
package knowledgedb

import (
	"parley/shared/store/blobdb"
	"parley/shared/store/pg"
)

// Store reads and writes documents. It is safe for concurrent use.
type Store struct {
	db *pg.DB

	// blobs contains the original files.
	blobs        *blobdb.Store
	countedTerms int // maximum number of counted terms per document
}

// New creates the store on a database. blobs must use the same database.
func New(db *pg.DB, blobs *blobdb.Store) *Store {
	return &Store{db: db, blobs: blobs, countedTerms: countedTerms}
}

// LimitCountedTerms sets the maximum number of terms that are counted for a document from now on.
// The default is countedTerms. Tests use it; it is not safe for concurrent use.
func (s *Store) LimitCountedTerms(terms int) { s.countedTerms = terms }
