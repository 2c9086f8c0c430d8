// Package budgetdb keeps budgets, and what running work has reserved of them.
package budgetdb

import (
	"parley/shared/store/pg"
)

// Store reads and writes them. It is safe for concurrent use.
type Store struct {
	db *pg.DB

	budgeted Budgeted
}

// New makes the store on a database.
func New(db *pg.DB) *Store {
	return &Store{db: db}
}
