// Package accountdb keeps people and organizations: users, logins, memberships, invitations, links, and API keys.
package accountdb

import (
	"parley/shared/store/pg"
)

// Store reads and writes them. It is safe for concurrent use.
type Store struct {
	db *pg.DB

	accounts AccountLimits
}

// New makes the store on a database.
func New(db *pg.DB) *Store {
	return &Store{db: db}
}
