// Package executiondb writes the progress of runs: claims, journals, effects, waits for
// decisions, and results. It also requeues or ends runs whose worker was lost.
package executiondb

import (
	"context"
	"sync"

	"parley/shared/batch"
	"parley/shared/store/pg"
	"parley/shared/store/rundb"
)

// Store reads and writes runs that are being executed. It is safe for concurrent use.
type Store struct {
	db *pg.DB

	runs *rundb.Store

	// The reserved connections of Claim, of Finish, and of the writes in progress.go.
	claims, finishes, writes *pg.Pinned

	// The group combines concurrent writes. It runs from the first write until Close.
	group   *batch.Group[*progressWrite, written]
	start   sync.Once
	stop    context.CancelFunc
	stopped chan struct{}
}

// New creates the store on a database.
func New(db *pg.DB, runs *rundb.Store) *Store {
	return &Store{
		db: db, runs: runs, claims: pg.NewPinned(db), finishes: pg.NewPinned(db), writes: pg.NewPinned(db), stopped: make(chan struct{}),
	}
}

// Close waits for writes and closes the connections that are reserved for batches.
func (s *Store) Close() {
	s.start.Do(func() {}) // from here on the group does not start
	if s.group != nil {
		s.stop()
		<-s.stopped
	}
	for _, p := range []*pg.Pinned{s.claims, s.finishes, s.writes} {
		p.Close()
	}
}

// startGroup starts the group of writes, once.
func (s *Store) startGroup() {
	s.start.Do(func() {
		s.group = batch.New(maxWrites, maxWaiting, s.writeBatch).Sized(MaxBatchBytes, (*progressWrite).size)
		ctx, cancel := context.WithCancel(context.Background())
		s.stop = cancel
		go func() {
			defer close(s.stopped)
			s.group.Run(ctx)
		}()
	})
}
