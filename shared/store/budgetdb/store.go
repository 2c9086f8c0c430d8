// Package budgetdb stores budgets and the amounts that running calls have reserved in them.
package budgetdb

import (
	"parley/shared/domain"
	"parley/shared/store/pg"
)

// Store reads and writes budgets. It is safe for concurrent use.
type Store struct {
	db       *pg.DB
	currency string // of costs

	budgeted Budgeted
}

// New creates the store on a database.
func New(db *pg.DB) *Store {
	return &Store{db: db, currency: domain.DefaultCurrency}
}

// SetCurrency sets the currency of costs, in which budgets of costs are shown. Call it before the
// store is used.
func (s *Store) SetCurrency(code string) { s.currency = code }
