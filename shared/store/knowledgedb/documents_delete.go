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
	// readersAtOnce is how many of the runs that were given text of a document are looked at in one statement.
	readersAtOnce = 20_000
	// deleteTries bounds how often a document is looked for readers anew: it gives nothing to new ones, so that those which
	// were just about to note that they were are all that come between.
	deleteTries = 32
	// lockTries bounds how often a transaction is tried that waits for a document's row or for its organization's counts: a worker
	// holds both while it finishes a large document, which may take longer than a lock is waited for.
	lockTries        = 4
	lockNotAvailable = "55P03"
)

// DeleteDocument removes a document and everything of it, so that nothing of it is found, cited or stored afterwards: its
// original, what was read of it, and in each session the runs from the first one that was given text of it to the newest. Those are
// erased as [Store.EraseSession] erases them, and a session of which nothing is left then goes, too. The runs that were ended for it
// are given back, also with an error.
//
// It takes several transactions, each of bounded work. The first one withdraws the document from searches and runs, the last one
// removes its row: if the service dies in between, the document can be deleted again, and what was removed stays removed.
func (s *Store) DeleteDocument(ctx context.Context, org, id string) ([]executiondb.Ended, error) {
	err := s.withdraw(ctx, org, id)
	if err == nil {
		err = s.removeAll(ctx, org, id)
	}
	if err != nil {
		return nil, fmt.Errorf("deleting document: %w", err)
	}
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

// withdraw ends everything that uses a document: no worker writes to it, no search finds it, and no run is given text of it. It is a
// transaction of its own, so that this holds whatever becomes of the next ones.
func (s *Store) withdraw(ctx context.Context, org, id string) error {
	return s.withLocked(ctx, org, id, func(tx *sqlx.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE documents SET status = 'failed', error_code = 'deleting',
			error_message = 'this document is being deleted; if it stays, delete it again',
			fence = fence + 1, lease_until = NULL, chunks = 0, updated_at = clock_timestamp() WHERE id = $1 AND org_id = $2`, id, org)
		return err
	})
}

// removeAll removes what is indexed of a document that was withdrawn, a batch in each transaction: others of the organization count
// their terms in between.
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

// withLocked runs f in a transaction that holds a document's row. It tries again where a lock is not free in time.
func (s *Store) withLocked(ctx context.Context, org, id string, f func(*sqlx.Tx) error) error {
	try := func() error {
		return s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
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

// reader is a session in which runs were given text of a document.
type reader struct {
	Ref   int64 `db:"session_ref"`
	First int   `db:"first"` // the number of the first one
	Last  int   `db:"last"`  // and of the session's newest run
}

// readers of runs that are erased are none: their links went, or a binary of the release before has left them.
const readersQuery = `SELECT f.session_ref, f.first, (SELECT max(n.seq) FROM runs n WHERE n.session_ref = f.session_ref) AS last FROM (
	  SELECT r.session_ref, min(r.seq) AS first
	  FROM (SELECT run_id FROM run_documents WHERE org_id = $1 AND document_id = $2 ORDER BY run_id LIMIT $3) l
	  JOIN runs r ON r.id = l.run_id AND` + sessiondb.NotErased + ` GROUP BY r.session_ref) f ORDER BY f.session_ref`

// eraseReaders erases what runs did from when they were given text of a document, as many sessions in a transaction as have few
// enough runs.
func (s *Store) eraseReaders(ctx context.Context, org, id string) (ended []executiondb.Ended, err error) {
	for {
		var found []reader
		err := s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
			found = found[:0]
			return tx.SelectContext(ctx, &found, readersQuery, org, id, readersAtOnce)
		})
		if err != nil || len(found) == 0 {
			return ended, err
		}
		for len(found) > 0 {
			var parts []sessiondb.Span
			for room := sessiondb.EraseBatch; len(found) > 0 && (room == sessiondb.EraseBatch || found[0].runs() <= room); found = found[1:] {
				parts = append(parts, sessiondb.Span{Ref: found[0].Ref, After: found[0].First - 1, UpTo: -1})
				room -= min(room, found[0].runs())
				if found[0].runs() > sessiondb.EraseBatch {
					if err := s.eraseLater(ctx, org, found[0]); err != nil {
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

func (r reader) runs() int { return r.Last - r.First + 1 }

func closeParts(ctx context.Context, db *pg.DB, org string, parts []sessiondb.Span) (ended []executiondb.Ended, err error) {
	err = db.Within(ctx, []string{org}, func(tx *sqlx.Tx) (err error) {
		ended, _, err = sessiondb.CloseSessions(ctx, tx, parts)
		return err
	})
	return ended, err
}

// eraseLater erases the ended runs of a long session behind the first one that was given text of a document, from the newest on.
// That first one, by whose link the session is found, is for the end.
func (s *Store) eraseLater(ctx context.Context, org string, of reader) error {
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

// dropDocument removes a document, unless a run has been given text of it since they were looked for. Its row is locked: who
// gives some now waits, and then finds it gone. It reports whether it is gone.
func (s *Store) dropDocument(ctx context.Context, org, id string) (gone bool, err error) {
	err = s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		gone = false
		var hash []byte
		err := tx.GetContext(ctx, &hash, `SELECT hash FROM documents WHERE id = $1 AND org_id = $2 FOR UPDATE`, id, org)
		if errors.Is(err, sql.ErrNoRows) { // somebody else has deleted it meanwhile
			gone = true
			return nil
		}
		if err != nil {
			return err
		}
		var left []reader
		if err := tx.SelectContext(ctx, &left, readersQuery, org, id, readersAtOnce); err != nil || len(left) > 0 {
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
