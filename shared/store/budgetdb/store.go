// Package budgetdb stores budgets and the amounts that running calls have reserved in them.
//
// The ingress manages budgets, and rejects a request whose budget is used up. Before each model
// call or code execution, a worker reserves the maximum amounts with Reserve; afterwards it reports
// the used amounts with Charge. Concurrent calls therefore exceed a budget only if a call uses more
// than was reserved. The sweeper ends the reservations of lost attempts.
//
// A budget has a count for each period. The count is created on demand, from the usage of the runs
// in the period; the functions of the schema then maintain it.
//
// An organization without budgets costs at most one query every 5 seconds in each process.
//
// The package writes the tables budgets and budget_counts, and usage that belongs to no run.
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

// New creates the store on a database. Costs are in the default currency until SetCurrency is
// called.
func New(db *pg.DB) *Store {
	return &Store{db: db, currency: domain.DefaultCurrency}
}

// SetCurrency sets the currency of costs, in which budgets of costs are shown. Call it before the
// store is used.
func (s *Store) SetCurrency(code string) { s.currency = code }
