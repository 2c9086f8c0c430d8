// Package notificationdb stores notification endpoints and the notifications to send to them.
package notificationdb

import (
	"parley/shared/store/pg"
	"parley/shared/store/rundb"
)

// Store reads and writes notifications. It is safe for concurrent use.
type Store struct {
	db *pg.DB

	runs *rundb.Store
}

// New creates the store on a database.
func New(db *pg.DB, runs *rundb.Store) *Store {
	return &Store{db: db, runs: runs}
}
