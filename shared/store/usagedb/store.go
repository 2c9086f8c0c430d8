// Package usagedb counts the usage of an organization's runs.
package usagedb

import (
	"parley/shared/store/pg"
)

// Store reads usage. It is safe for concurrent use.
type Store struct {
	db *pg.DB
}

// New creates the store on a database.
func New(db *pg.DB) *Store {
	return &Store{db: db}
}
