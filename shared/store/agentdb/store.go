// Package agentdb stores agents with their versions, templates, and the settings of widgets.
package agentdb

import (
	"parley/shared/store/pg"
)

// Store reads and writes agents, templates and widgets. It is safe for concurrent use.
type Store struct {
	db *pg.DB
}

// New creates the store on a database.
func New(db *pg.DB) *Store {
	return &Store{db: db}
}
