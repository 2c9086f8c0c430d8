// Package queuedb accepts runs and deliveries and dispatches waiting runs. One batch accepts or
// dispatches the runs of many requests. All batches lock rows in the order of the ids.
//
// The ingress accepts runs for API requests, schedules and hooks. Agent workers announce their
// slots and dispatch waiting runs when their runs finish. The sweeper dispatches runs that wait
// although slots are free, and publishes lost jobs again.
//
// A run is accepted when its row is committed. If a slot of its lane is free, it is dispatched in
// the same statement: the row is marked, and the caller publishes a job message. Otherwise the run
// waits until another run finishes and frees a slot. Job messages may be lost or repeated, because
// a worker executes a run only after it has claimed the row with package executiondb.
//
// The slots are those that the workers announce. Each process estimates how many of them are free;
// see the type slots.
//
// The package writes the tables runs, open_runs, sessions, deliveries and collecting. It publishes
// no messages.
package queuedb

import (
	"parley/shared/store/budgetdb"
	"parley/shared/store/pg"
	"parley/shared/store/rundb"
	"parley/shared/store/sealdb"
)

// Store accepts and dispatches runs. It is safe for concurrent use.
type Store struct {
	db      *pg.DB
	budgets *budgetdb.Store
	runs    *rundb.Store
	seals   *sealdb.Store

	// The connections that are reserved for acceptance and for dispatch.
	accepts, dispatches *pg.Pinned

	// The connections that are reserved for simple deliveries, and the subset of these connections
	// that is not in use.
	deliveries     []*pg.Pinned
	idleDeliveries chan *pg.Pinned

	// slots decides which runs get free slots.
	slots *slots
}

// New creates the store on a database. The caller closes the store before db. The reserved
// connections are opened when they are first used.
func New(db *pg.DB, budgets *budgetdb.Store, runs *rundb.Store, seals *sealdb.Store) *Store {
	s := &Store{db: db, budgets: budgets, runs: runs, seals: seals, accepts: pg.NewPinned(db), dispatches: pg.NewPinned(db)}
	s.idleDeliveries = make(chan *pg.Pinned, deliveryConnections)
	for range deliveryConnections {
		p := pg.NewPinned(db)
		s.deliveries = append(s.deliveries, p)
		s.idleDeliveries <- p
	}
	s.slots = newSlots(s.countSlots)
	return s
}

// Close closes the connections that are reserved for batches. No other method may be called
// afterwards.
func (s *Store) Close() {
	for _, p := range append([]*pg.Pinned{s.accepts, s.dispatches}, s.deliveries...) {
		p.Close()
	}
}
