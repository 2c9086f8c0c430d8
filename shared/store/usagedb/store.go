// Package usagedb answers what an organization's runs have used.
package usagedb

import (
	"parley/shared/store/pg"
)

// Store reads and writes them. It is safe for concurrent use.
type Store struct {
	db *pg.DB
}

// New makes the store on a database.
func New(db *pg.DB) *Store {
	return &Store{db: db}
}
