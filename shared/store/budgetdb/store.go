// Package budgetdb stores budgets and the amounts that running calls have reserved in them.
package budgetdb

import (
	"parley/shared/store/pg"
)

// Store reads and writes budgets. It is safe for concurrent use.
type Store struct {
	db *pg.DB

	budgeted Budgeted
}

// New creates the store on a database.
func New(db *pg.DB) *Store {
	return &Store{db: db}
}
