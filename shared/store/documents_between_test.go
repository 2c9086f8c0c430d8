package store_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"parley/shared/store/executiondb"
	"parley/shared/testkit"
)

// gate creates a trigger that blocks transactions until open is called. The argument is, for
// example, "BEFORE DELETE ON documents FOR EACH ROW".
func (b *testEnv) gate(trigger string) (open func()) {
	b.Helper()
	// The function sets its own lock timeout to 0, so that the lock timeout of batches does not end
	// its wait.
	b.exec(`CREATE FUNCTION gate() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET lock_timeout = 0 AS
		$$ BEGIN PERFORM pg_advisory_xact_lock_shared(7331); RETURN coalesce(NEW, OLD); END $$`)
	b.exec(`CREATE TRIGGER gate ` + trigger + ` EXECUTE FUNCTION gate()`)
	return b.locked(`SELECT pg_advisory_xact_lock(7331)`)
}

// locked starts a transaction that executes a statement and holds its locks until end is called.
func (b *testEnv) locked(query string, args ...any) (end func()) {
	b.Helper()
	tx, err := b.raw.BeginTx(b.Context(), nil)
	b.must(err)
	_, err = tx.ExecContext(b.Context(), query, args...)
	b.must(err)
	return func() { b.Helper(); b.must(tx.Commit()) }
}

// async runs f concurrently and returns a channel for its result.
func async(f func() error) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- f() }()
	return ended
}

// awaitLockWaiters waits until n transactions wait for locks. If a result arrives earlier on the
// channel last, the test fails.
func (b *testEnv) awaitLockWaiters(n int, last <-chan error, what string) {
	b.Helper()
	over := time.After(testkit.Within(20 * time.Second))
	for b.number(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) != n {
		select {
		case err := <-last:
			b.Fatalf("%s did not wait, and ended with %v", what, err)
		case <-over:
			b.Fatalf("%s did not wait", what)
		default:
		}
	}
}

func (b *testEnv) number(query string, args ...any) (n int) {
	b.Helper()
	b.must(b.raw.QueryRowContext(b.Context(), query, args...).Scan(&n))
	return n
}

// A run that gets a document's text while the document is being deleted counts as a reader. The
// deletion waits for the run's transaction, checks again for readers, and erases the run.
func TestDeletingWaitsForNewReaders(t *testing.T) {
	t.Parallel()
	r := newStoredEnv(t)
	doc := r.ready("")
	run := r.turn("s", "reads")
	open := r.testEnv.gate(`BEFORE INSERT ON run_documents FOR EACH ROW`)
	giving := async(func() error {
		given, kept, err := r.s.Knowledge.GiveDocuments(t.Context(), run.Held(), []string{doc})
		if err == nil && (!kept || !slices.Equal(given, []string{doc})) {
			err = errors.New("the run did not get the text")
		}
		return err
	})
	r.testEnv.awaitLockWaiters(1, giving, "giving")
	var ended []executiondb.Ended
	deleting := async(func() (err error) {
		ended, err = r.s.Knowledge.DeleteDocument(t.Context(), r.org, doc)
		return err
	})
	r.testEnv.awaitLockWaiters(2, deleting, "deleting")
	open()
	r.must(nil, <-giving)
	r.must(nil, <-deleting)
	if len(ended) != 1 || ended[0].RunID != run.RunID {
		t.Errorf("ended %+v", ended)
	}
	if got, err := r.s.Runs.RunByID(t.Context(), r.org, "usr_1", run.RunID); err != nil || !got.Erased {
		t.Errorf("the run that was given it: %+v, %v", got, err)
	}
	if got := r.leaks(); got != "" {
		t.Errorf("left: %s", got)
	}
}

// A run may see that a document is ready but reach the document's row only during the removal. The
// run then waits and does not get the text.
func TestGivingWaitsForADeletion(t *testing.T) {
	t.Parallel()
	r := newStoredEnv(t)
	docs := []string{r.ready("1"), r.ready("2")}
	slices.Sort(docs) // the documents are locked in this order
	run := r.turn("s", "reads")
	open := r.testEnv.gate(`BEFORE DELETE ON run_documents FOR EACH STATEMENT`)
	letGo := r.testEnv.locked(`SELECT FROM documents WHERE id = $1 FOR UPDATE`, docs[0])
	var given []string
	giving := async(func() (err error) {
		given, _, err = r.s.Knowledge.GiveDocuments(t.Context(), run.Held(), docs)
		return err
	})
	r.testEnv.awaitLockWaiters(1, giving, "giving")
	deleting := async(func() error {
		_, err := r.s.Knowledge.DeleteDocument(t.Context(), r.org, docs[1])
		return err
	})
	r.testEnv.awaitLockWaiters(2, deleting, "deleting")
	letGo()
	r.testEnv.waitsFor(giving)
	open()
	r.must(nil, <-deleting)
	r.must(nil, <-giving)
	if !slices.Equal(given, docs[:1]) {
		t.Errorf("given %v of %v", given, docs)
	}
	if n := r.testEnv.number(`SELECT count(*) FROM run_documents WHERE document_id = $1`, docs[1]); n != 0 {
		t.Errorf("%d runs were given what is gone", n)
	}
}

// waitsFor waits until the call whose result arrives on the channel named giving is blocked by the
// row of the document that is being removed. The row of the preceding document must not block the
// call.
func (b *testEnv) waitsFor(giving <-chan error) {
	b.Helper()
	over := time.After(testkit.Within(20 * time.Second))
	for b.number(`SELECT count(*) FROM pg_stat_activity g JOIN pg_stat_activity d ON d.pid = ANY (pg_blocking_pids(g.pid))
		WHERE g.datname = current_database() AND g.query LIKE 'SELECT id FROM documents%' AND d.query LIKE 'DELETE FROM run_documents%'`) != 1 {
		select {
		case err := <-giving:
			b.Fatalf("the run did not wait for the deletion, and ended with %v", err)
		case <-over:
			b.Fatal("the run did not wait for the deletion")
		default:
		}
	}
}
