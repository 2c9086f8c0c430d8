// Package accountdb stores users and organizations: logins, memberships, invitations, links, and
// API keys.
//
// The ingress authenticates each request with the credentials of this package. The account API uses
// the other methods. The operator's commands create users and reset links. Package accountdb stores
// only hashes of keys, tokens and passwords; its callers generate the secrets.
//
// A method that changes an organization takes an Actor. It locks the organization's row, reads the
// actor's role again, and checks that the actor's credential has not ended. So a request that was
// authenticated from a cache cannot use a role or key that was withdrawn meanwhile.
//
// Locks are taken in a fixed order: the organization, the user, and then the user's login sessions.
//
// The package writes the tables users, identities, login_sessions, login_links, organizations,
// memberships, invitations and api_keys. Rows of an organization are visible only to transactions
// that act for it.
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

// New creates the store on a database, without quotas.
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
