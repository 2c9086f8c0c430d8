// Package sessiondb reads sessions and their history, and erases sessions and runs.
//
// A session is the sequence of the runs with the same target, session id and principal. Package
// queuedb creates a session with its first run. The runs have consecutive numbers; a run may
// continue any earlier run, so the history of a run is a path.
//
// The ingress lists sessions and erases them. Workers read the history of a run, and record how
// much of an answer was played or shown. The sweeper calls DeleteExpired and the methods that prune
// old records.
//
// To erase means to remove all text at the request of a person: a run stays as a tombstone. To
// delete means that the retention period has ended: the row is removed. In both cases the session
// is removed with its last run.
//
// A transaction that closes sessions locks them in the order of their keys, like acceptance, and
// then locks their open runs.
package sessiondb

import (
	"parley/shared/store/pg"
)

// Store reads and erases sessions. It is safe for concurrent use.
type Store struct {
	db *pg.DB
}

// New creates the store on a database.
func New(db *pg.DB) *Store {
	return &Store{db: db}
}
