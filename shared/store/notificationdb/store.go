// Package notificationdb stores notification endpoints and the notifications to send to them.
//
// The database creates a notification in the transaction in which its event takes place, for
// example the end of a run. Workers claim due notifications, send them, and record the results. The
// ingress manages endpoints, lists notifications and schedules their repetition.
//
// A claim has a fence and a lease. A worker writes only while it holds the notification. Delivery
// is at least once: the receiver recognizes a repetition by the notification's id.
//
// The payload is rendered once and stored. It is removed together with the run that it describes.
//
// The package writes the tables notification_endpoints and notifications. It sends no requests.
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

// New creates the store on a database. The argument runs reads the runs that payloads contain.
func New(db *pg.DB, runs *rundb.Store) *Store {
	return &Store{db: db, runs: runs}
}
