package knowledgedb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"parley/shared/apierr"
	"parley/shared/store/blobdb"
	"parley/shared/store/executiondb"
	"parley/shared/store/pg"
	"parley/shared/store/sessiondb"
)

const (
	// maxReadersPerQuery is the maximum number of readers that one statement finds. A reader is a
	// run that got text from a document.
	maxReadersPerQuery = 20_000
	// deleteTries is the maximum number of searches for readers of a document. After the document
	// is withdrawn, the only new readers are runs for which a transaction was already recording
	// that they got text from the document.
	deleteTries = 32
	// lockTries is the maximum number of attempts of a transaction that waits for the lock of a
	// document's row or of its organization's counts. A worker holds both locks while it finishes a
	// large document. That may take longer than the lock timeout.
	lockTries        = 4
	lockNotAvailable = "55P03"
)

// DeleteDocument removes a document and everything derived from it: its original, its index
// entries, and the runs that may contain its text. Afterwards no part of the document is found,
// cited or stored. In each session, DeleteDocument erases the runs from the first run that got text
// from the document up to the newest run, in the same way as [Store.EraseSession]. A session
// without remaining runs is removed, too. DeleteDocument returns the runs that it ended for this
// purpose, even if it also returns an error.
//
// DeleteDocument uses several transactions, each with a bounded amount of work. The first one
// withdraws the document from searches and runs; the last one removes its row. If the process dies
// in between, the document can be deleted again, and everything already removed stays removed.
func (s *Store) DeleteDocument(ctx context.Context, org, id string) ([]executiondb.Ended, error) {
	err := s.withdraw(ctx, org, id)
	if err == nil {
		err = s.removeAll(ctx, org, id)
	}

	if err != nil {
		return nil, fmt.Errorf("deleting document: %w", err)
	}

	// Each round erases the known readers and then tries to remove the row.
	// A run may be recorded as a reader after the search for readers has ended, so the search is
	// repeated.
	var ended []executiondb.Ended
	for range deleteTries {
		more, err := s.eraseReaders(ctx, org, id)
		ended = append(ended, more...)
		if err != nil {
			return ended, fmt.Errorf("deleting document: %w", err)
		}
		gone, err := s.dropDocument(ctx, org, id)
		if err != nil {
			return ended, fmt.Errorf("deleting document: %w", err)
		}
		if gone {
			return ended, nil
		}
	}

	busy := apierr.New(apierr.Unavailable, "the document is still being processed; delete it again")
	busy.RetryAfter = time.Second
	return ended, busy
}

// withdraw ends all uses of a document. Afterwards no worker writes to it, no search finds it, and
// no run gets text from it. withdraw has a separate transaction, so that the document stays
// withdrawn even if a later transaction fails.
func (s *Store) withdraw(ctx context.Context, org, id string) error {
	return s.withLocked(ctx, org, id, func(tx *sqlx.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE documents SET status = 'failed', error_code = 'deleting',
			error_message = 'this document is being deleted; if it stays, delete it again',
			fence = fence + 1, lease_until = NULL, chunks = 0, updated_at = clock_timestamp() WHERE id = $1 AND org_id = $2`, id, org)
		return err
	})
}

// removeAll removes the index entries of a withdrawn document. Each batch is a separate
// transaction, so that the terms of the organization's other documents can be counted in between.
func (s *Store) removeAll(ctx context.Context, org, id string) error {
	for more := true; more; {
		err := s.withLocked(ctx, org, id, func(tx *sqlx.Tx) (err error) {
			more, err = removeSome(ctx, tx, org, id)
			return err
		})
		if apierr.CodeFor(err) == apierr.NotFound { // another request has deleted it meanwhile
			return nil
		}
		if err != nil {
			return err
		}
	}

	return nil
}

// withLocked runs f in a transaction that has locked a document's row. If waiting for the lock
// times out, withLocked tries again, with at most lockTries tries in total. f must therefore be
// repeatable.
func (s *Store) withLocked(ctx context.Context, org, id string, f func(*sqlx.Tx) error) error {
	try := func() error {
		return s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
			// If a worker is writing to the document, this transaction waits for the worker. Later
			// writes of workers wait for this transaction.
			if _, err := lockDocument(ctx, tx, org, id); err != nil {
				return err
			}
			return f(tx)
		})
	}

	err := try()
	for n := 1; n < lockTries && pg.HasCode(err, lockNotAvailable); n++ {
		err = try()
	}

	return err
}

// readerSession is a session with runs that got text from a document.
type readerSession struct {
	Ref   int64 `db:"session_ref"`
	First int   `db:"first"` // the number of the first run that got text from the document
	Last  int   `db:"last"`  // the number of the session's newest run
}

// readersQuery finds the sessions with readers of a document. It skips erased runs. An erased run
// still has a link to the document only if a binary of the previous release erased the run.
const readersQuery = `SELECT f.session_ref, f.first, (SELECT max(n.seq) FROM runs n WHERE n.session_ref = f.session_ref) AS last FROM (
	  SELECT r.session_ref, min(r.seq) AS first
	  FROM (SELECT run_id FROM run_documents WHERE org_id = $1 AND document_id = $2 ORDER BY run_id LIMIT $3) l
	  JOIN runs r ON r.id = l.run_id AND` + sessiondb.NotErased + ` GROUP BY r.session_ref) f ORDER BY f.session_ref`

// eraseReaders erases, in each session, the first run that got text from a document and all later
// runs. If sessions together have at most EraseBatch such runs, they are erased in one transaction.
func (s *Store) eraseReaders(ctx context.Context, org, id string) (ended []executiondb.Ended, err error) {
	for {
		var found []readerSession
		err := s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
			found = found[:0]
			return tx.SelectContext(ctx, &found, readersQuery, org, id, maxReadersPerQuery)
		})
		// If the search finds no readers, no run is left to erase.
		if err != nil || len(found) == 0 {
			return ended, err
		}

		// Several short sessions are erased in one transaction. If a session has more than
		// EraseBatch runs, its later runs are erased first.
		for len(found) > 0 {
			var parts []sessiondb.Span
			for room := sessiondb.EraseBatch; len(found) > 0 && (room == sessiondb.EraseBatch || found[0].runs() <= room); found = found[1:] {
				parts = append(parts, sessiondb.Span{Ref: found[0].Ref, After: found[0].First - 1, UpTo: -1})
				room -= min(room, found[0].runs())
				// If a session is long, the runs after its first reader are erased in separate
				// transactions, newest first.
				if found[0].runs() > sessiondb.EraseBatch {
					if err := s.eraseLaterRuns(ctx, org, found[0]); err != nil {
						return ended, err
					}
				}
			}
			more, err := closeParts(ctx, s.db, org, parts)
			if err != nil {
				return ended, err
			}
			ended = append(ended, more...)
		}
	}
}

// runs returns the number of runs to erase in the session.
func (r readerSession) runs() int { return r.Last - r.First + 1 }

// closeParts calls sessiondb.CloseSessions in a transaction of its own, and returns the runs that
// it ended.
func closeParts(ctx context.Context, db *pg.DB, org string, parts []sessiondb.Span) (ended []executiondb.Ended, err error) {
	err = db.Within(ctx, []string{org}, func(tx *sqlx.Tx) (err error) {
		ended, _, err = sessiondb.CloseSessions(ctx, tx, parts)
		return err
	})
	return ended, err
}

// eraseLaterRuns erases runs of a long session, newest first: the finished runs that follow the
// first run that got text from a document. That first run is erased last, because its link leads to
// the session.
func (s *Store) eraseLaterRuns(ctx context.Context, org string, of readerSession) error {
	for last := of.Last; last > of.First; last -= sessiondb.EraseBatch {
		err := s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
			ended, _, err := sessiondb.Ends(ctx, tx, of.Ref)
			if err != nil {
				return err
			}
			last = min(last, ended)
			return sessiondb.EraseRuns(ctx, tx, sessiondb.Span{
				Ref: of.Ref, After: max(last-sessiondb.EraseBatch, of.First), UpTo: max(last, of.First),
			})
		})
		if err != nil {
			return err
		}
	}

	return nil
}

// dropDocument removes a document, unless a run has got text from it since the search for readers.
// It locks the row. A run that requests the text at this time waits for the lock and then finds
// that the document is gone. dropDocument reports whether the document is gone.
func (s *Store) dropDocument(ctx context.Context, org, id string) (gone bool, err error) {
	err = s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		gone = false
		var hash []byte
		err := tx.GetContext(ctx, &hash, `SELECT hash FROM documents WHERE id = $1 AND org_id = $2 FOR UPDATE`, id, org)
		if errors.Is(err, sql.ErrNoRows) { // another request has deleted it meanwhile
			gone = true
			return nil
		}

		if err != nil {
			return err
		}

		var left []readerSession
		if err := tx.SelectContext(ctx, &left, readersQuery, org, id, maxReadersPerQuery); err != nil || len(left) > 0 {
			return err
		}

		if err := removeIndexed(ctx, tx, org, []string{id}); err != nil {
			return err
		}

		for _, query := range []string{
			`DELETE FROM run_documents WHERE document_id = $1 AND org_id = $2`,
			`DELETE FROM documents WHERE id = $1 AND org_id = $2`,
		} {
			if _, err := tx.ExecContext(ctx, query, id, org); err != nil {
				return err
			}
		}

		gone = true
		if hash == nil {
			return nil
		}

		return blobdb.RemoveUnlinkedBlobs(ctx, tx, blobdb.Contents(org, [][]byte{hash}))
	})
	return gone, err
}
