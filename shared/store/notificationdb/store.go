// Package notificationdb keeps notification endpoints and the messages for them.
package notificationdb

import (
	"parley/shared/store/pg"
	"parley/shared/store/rundb"
)

// Store reads and writes them. It is safe for concurrent use.
type Store struct {
	db *pg.DB

	runs *rundb.Store
}

// New makes the store on a database.
func New(db *pg.DB, runs *rundb.Store) *Store {
	return &Store{db: db, runs: runs}
}
