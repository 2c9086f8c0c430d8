// Package accountdb stores users and organizations: logins, memberships, invitations,
// links, and API keys.
package accountdb

import (
	"parley/shared/store/pg"
)

// Store reads and writes users: their logins, their links, and the credentials that
// authenticate a request. It is safe for concurrent use.
type Store struct {
	db *pg.DB

	quotas Limits
}

// New creates the store on a database.
func New(db *pg.DB) *Store {
	return &Store{db: db}
}

// Organizations reads and writes organizations: their members, invitations and API keys. It is
// safe for concurrent use.
type Organizations struct {
	db       *pg.DB
	accounts *Store
}

// NewOrganizations creates the store of organizations. The quotas of accounts apply to it.
func NewOrganizations(accounts *Store) *Organizations {
	return &Organizations{db: accounts.db, accounts: accounts}
}
