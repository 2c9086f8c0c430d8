// Package overviewdb reads the overview of an organization, which is the first page that its
// members see.
//
// The overview contains the first steps that are done, the runs that wait for a decision, and the
// problems of hooks, endpoints and documents. The package reads tables of other packages, so that
// one transaction suffices. It writes nothing.
package overviewdb

import (
	"parley/shared/store/pg"
)

// Store reads overviews. It is safe for concurrent use.
type Store struct {
	db *pg.DB
}

// New creates the store on a database.
func New(db *pg.DB) *Store {
	return &Store{db: db}
}
