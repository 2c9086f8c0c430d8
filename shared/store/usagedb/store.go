// Package usagedb counts the usage of an organization's runs.
//
// Usage is the number of runs by outcome, their tokens, costs, sandbox time and durations. It is
// computed from the rows of runs. When a run is removed after its retention, the schema adds its
// usage to the tables past_usage and past_usage_by, which this package also reads.
//
// The package writes nothing. Budgets are counted separately, in package budgetdb.
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
