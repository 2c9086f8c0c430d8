// Package accountdb keeps people and organizations: users, logins, memberships, invitations, links, and API keys.
package accountdb

import (
	"parley/shared/store/pg"
)

// Store reads and writes people: users, logins, links, and what authenticates a request. It is safe for concurrent use.
type Store struct {
	db *pg.DB

	bounds Limits
}

// New makes the store on a database.
func New(db *pg.DB) *Store {
	return &Store{db: db}
}

// Organizations reads and writes organizations: their members, invitations and API keys. It is safe for concurrent use.
type Organizations struct {
	db       *pg.DB
	accounts *Store
}

// NewOrganizations makes the store of organizations, to which the limits of accounts apply.
func NewOrganizations(accounts *Store) *Organizations {
	return &Organizations{db: accounts.db, accounts: accounts}
}
