package store_test

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"

	"parley/shared/apierr"
	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/store"
	"parley/shared/store/blobdb"
	"parley/shared/store/executiondb"
	"parley/shared/store/lease"
	"parley/shared/store/sessiondb"
	"parley/shared/testkit"
)

// newStoredEnv returns a test environment with a connection that bypasses row-level security.
func newStoredEnv(t *testing.T) *storedEnv {
	t.Helper()
	r := newStoredEnvFor(t)
	r.testEnv.raw = testkit.SQL(t, r.dsn)
	return r
}

// A blob is removed together with the last file that links to it, by erasure or at the end of the
// retention period, and not earlier.
func TestAContentIsRemovedWithItsLastFile(t *testing.T) {
	t.Parallel()
	r := newStoredEnv(t)
	ctx := t.Context()
	makes := func(session string, contents ...string) *executiondb.Claimed {
		c := r.mustClaim(r.accept(wideWindow, r.auto(session))[0].Run.Run.ID)
		for i, content := range contents {
			r.make(c.Held(), fmt.Sprint("call ", i), made("x", content))
		}
		r.remove(c.Held(), "remover", "y")
		r.finish(c, "x")
		return c
	}
	makes("erased", "one", "both", "both")
	other := makes("expired", "two", "both", "")
	makes("kept", "two")
	r.wantStored("before", "4 contents 3 chunks 10 files")
	r.erase(r.named(domain.SystemPrincipal, "erased"))
	r.wantStored("after erasing", "3 contents 2 chunks 6 files")
	r.raw(`UPDATE runs SET expires_at = clock_timestamp(), sweep_after = clock_timestamp() WHERE id = $1`, other.RunID)
	if n, err := r.s.Sessions.DeleteExpired(ctx, 9); err != nil || n != 1 {
		t.Errorf("%d, %v", n, err)
	}
	r.wantStored("after retention", "1 contents 1 chunks 2 files")
	if n, err := r.s.Blobs.PruneBlobs(ctx, 9); err != nil || n != 0 {
		t.Errorf("a young content was checked: %d, %v", n, err)
	}
	r.raw(`UPDATE blobs SET sweep_after = clock_timestamp()`)
	for _, want := range []int{1, 0} {
		if n, err := r.s.Blobs.PruneBlobs(ctx, 9); err != nil || n != want {
			t.Errorf("checked %d, want %d: %v", n, want, err)
		}
	}
	r.wantStored("after pruning what is linked", "1 contents 1 chunks 2 files")

	// The previous release erases runs with the following statement, which deletes the steps.
	open := r.mustClaim(r.accept(wideWindow, r.auto("open"))[0].Run.Run.ID)
	r.make(open.Held(), "c", made("x", "two"), made("y", "three"))
	r.raw(`INSERT INTO steps (run_id, org_id, n, fence, step) SELECT run_id, org_id, 1, 1, '{}' FROM (SELECT DISTINCT run_id, org_id FROM files) f`)
	r.raw(`DELETE FROM steps WHERE run_id = $1`, open.RunID)
	r.wantStored("after the release before has erased one", "1 contents 1 chunks 2 files")
	r.raw(`DELETE FROM steps`)
	r.wantStored("and the other", "0 contents 0 chunks 0 files")
}

// If there are more unused contents than one statement removes, the sweeper removes the remaining
// contents.
func TestManyContentsAreRemovedInParts(t *testing.T) {
	t.Parallel()
	r := newStoredEnv(t)
	c := r.mustClaim(r.accept(wideWindow, r.auto("s"))[0].Run.Run.ID)
	for n := range 5 {
		r.make(c.Held(), fmt.Sprint(n), made("x", fmt.Sprint(n)))
	}
	r.raw(`UPDATE blobs SET bytes = 134217728`) // a false size; one statement then removes little more than two contents
	r.erase(r.named(domain.SystemPrincipal, "s"))
	r.wantStored("at once", "3 contents 3 chunks 0 files")
	for _, left := range []string{"1 contents 1 chunks 0 files", "0 contents 0 chunks 0 files"} {
		if n, err := r.s.Blobs.PruneBlobs(t.Context(), 9); err != nil || n == 0 {
			t.Errorf("checked %d, %v", n, err)
		}
		r.wantStored("swept", left)
	}
}

// storeBlocked stores a blob while another transaction is writing the blob's second chunk. It calls
// f as soon as the write waits for that transaction, rolls the transaction back after f, and
// returns the result of storing the blob. The argument of f is a function that interrupts the
// write.
func (b *testEnv) storeBlocked(held lease.Held, content []byte, f func(die context.CancelFunc)) (kept bool, err error) {
	b.Helper()
	ctx, die := context.WithCancel(b.Context())
	defer die()
	tx, err := b.raw.BeginTx(b.Context(), nil)
	if err != nil {
		b.Fatal(err)
	}
	_, err = tx.ExecContext(b.Context(), `INSERT INTO blob_chunks (org_id, hash, n, data) VALUES ($1, sha256($2), 1, 'x')`, b.org, content)
	if err != nil {
		b.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, kept, err = b.s.Blobs.KeepFiles(ctx, held, "c", []blobdb.NewFile{{Name: "x", Content: content}}, nil, 1<<30)
	}()
	for waiting := "0"; waiting == "0" && !isClosed(done); {
		waiting = b.text(`SELECT count(*)::text FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`)
	}
	if isClosed(done) {
		b.Errorf("keeping did not wait: %v", err)
	}
	f(die)
	if ctx.Err() != nil {
		<-done // otherwise the chunk might be written just before the interruption
	}
	if err := tx.Rollback(); err != nil {
		b.Fatal(err)
	}
	<-done
	return kept, err
}

// While a blob is written, the lease of its run can be renewed, and the run may even finish.
func TestWritingHoldsNoRun(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	held := b.claimedRun()
	kept, err := b.storeBlocked(held, randomBytes(3*mib, 1), func(context.CancelFunc) {
		if extended, err := b.s.Executions.Extend(t.Context(), []lease.Held{held}); err != nil || len(extended.Extended) != 1 {
			t.Errorf("extended %v, %v", extended, err)
		}
		b.wantStored("meanwhile", "1 contents 1 chunks 0 files")
	})
	if err != nil || !kept {
		t.Errorf("%v, %v", kept, err)
	}
	b.wantStored("then", "1 contents 3 chunks 1 files")

	for what, end := range map[string]func(held lease.Held){
		"cancelled": func(held lease.Held) {
			if _, _, err := b.s.Executions.Cancel(t.Context(), b.org, "", held.RunID); err != nil {
				t.Error(err)
			}
		},
		"taken": func(held lease.Held) { b.requeueAndClaim(held.RunID) },
		"erased": func(held lease.Held) {
			name := sessiondb.SessionName{OrganizationID: b.org, TargetID: b.agent, SessionID: held.RunID, Key: contract.Hash(b.org, b.agent, held.RunID)}
			if ended, err := b.s.Sessions.EraseSession(t.Context(), name); err != nil || len(ended) != 1 {
				t.Errorf("erasing: %v, %v", ended, err)
			}
		},
	} {
		held := b.claimedRun()
		kept, err := b.storeBlocked(held, randomBytes(2*mib, 2), func(context.CancelFunc) { end(held) })
		if err != nil || kept {
			t.Errorf("for a run that was %s in the meantime: %v, %v", what, kept, err)
		}
		b.wantStored("of what was written for one that was "+what, "1 contents 3 chunks 1 files")
	}
}

// A worker that dies while it writes a blob leaves some of its chunks. The next writer of the same
// blob uses these chunks. If there is no such writer, the sweeper removes them.
func TestChunksOfADeadWorkerAreUsedOrSwept(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	content := randomBytes(3*mib, 1)
	for _, used := range []bool{true, false} {
		held := b.claimedRun()
		kept, err := b.storeBlocked(held, content, func(die context.CancelFunc) { die() })
		if err == nil || kept {
			t.Errorf("%v, %v", kept, err)
		}
		b.wantStored("of the dead", "1 contents 1 chunks 0 files")
		if used {
			first := b.text(`SELECT ctid::text FROM blob_chunks`)
			file := b.make(b.requeueAndClaim(held.RunID).Held(), "c", blobdb.NewFile{Name: "x", Content: content})[0]
			if b.content(file.ID) != string(content) || b.text(`SELECT ctid::text FROM blob_chunks WHERE n = 0`) != first {
				t.Error("the second writer did not use the chunks of the first")
			}
			b.remove(b.requeueAndClaim(held.RunID).Held(), "c")
			b.wantStored("once removed", "0 contents 0 chunks 0 files")
			continue
		}
		if n, err := b.s.Blobs.PruneBlobs(t.Context(), 9); err != nil || n != 0 {
			t.Errorf("the sweeper checked a content within the hour in which it may be linked: %d, %v", n, err)
		}
		b.exec(`UPDATE blobs SET sweep_after = clock_timestamp()`)
		if n, err := b.s.Blobs.PruneBlobs(t.Context(), 9); err != nil || n != 1 {
			t.Errorf("checked %d, %v", n, err)
		}
		b.wantStored("swept", "0 contents 0 chunks 0 files")
	}
}

// The sweeper, or the removal of another file, may remove a blob before a file links to it. The
// blob is then written again. Storing a blob again restarts the hour in which it must be linked.
func TestAContentRemovedMeanwhileIsWrittenAgain(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	content := randomBytes(3*mib, 1)
	kept, err := b.storeBlocked(b.claimedRun(), content, func(context.CancelFunc) {
		b.exec(`DELETE FROM blob_chunks`)
		// The transaction that writes a chunk locks the blob's row. The following statement waits
		// for that transaction and then deletes the row immediately.
		go func() { _, _ = b.raw.ExecContext(t.Context(), `DELETE FROM blobs`) }()
		b.awaitWaiters(2)
	})
	if err != nil || !kept {
		t.Errorf("%v, %v", kept, err)
	}
	if n := b.text(`SELECT count(*)::text FROM files f JOIN blobs b ON b.hash = f.hash WHERE (SELECT count(*) FROM blob_chunks c WHERE c.hash = b.hash) = 3`); n != "1" {
		t.Errorf("%s whole files, of %s", n, b.stored())
	}

	b.exec(`DELETE FROM files`)
	b.exec(`UPDATE blobs SET sweep_after = clock_timestamp()`)
	b.exec(`DELETE FROM blob_chunks WHERE n = 1`)
	if kept, err := b.storeBlocked(b.claimedRun(), content, func(die context.CancelFunc) { die() }); err == nil || kept {
		t.Errorf("%v, %v", kept, err)
	}
	if n, err := b.s.Blobs.PruneBlobs(t.Context(), 9); err != nil || n != 0 {
		t.Errorf("checked %d, %v", n, err)
	}
	b.wantStored("in the end", "1 contents 2 chunks 0 files")
}

// storeUnlinked stores a blob. It calls f when the blob is completely written but not yet linked. f
// calls its argument letGo to let the write continue.
func (b *testEnv) storeUnlinked(held lease.Held, content []byte, f func(letGo func())) {
	b.Helper()
	tx, err := b.raw.BeginTx(b.Context(), nil)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := tx.ExecContext(b.Context(), `SELECT pg_advisory_xact_lock(hashtextextended('files ' || $1 || ' c', 0))`, held.RunID); err != nil {
		b.Fatal(err)
	}
	done := race(b.T, func() (bool, error) {
		_, kept, err := b.s.Blobs.KeepFiles(b.Context(), held, "c", []blobdb.NewFile{{Name: "x", Content: content}}, nil, 0)
		return kept, err
	}, func() (bool, error) {
		b.awaitWaiters(1)
		f(func() {
			if err := tx.Commit(); err != nil {
				b.Error(err)
			}
		})
		return true, nil
	})
	if !done[0] {
		b.Error("the content was not stored")
	}
}

// awaitWaiters waits until n transactions wait for locks.
func (b *testEnv) awaitWaiters(n int) {
	b.Helper()
	for b.text(`SELECT count(*)::text FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) != fmt.Sprint(n) {
		if b.Context().Err() != nil {
			b.Fatalf("there are not %d that wait", n)
		}
	}
}

// A file never links to an incomplete blob. A complete blob may be removed just before or during
// linking, and may then be written again.
func TestIncompleteContentsAreNotLinked(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	content := randomBytes(2*mib, 1)
	remove := func(tx *sql.Tx) {
		if _, err := tx.ExecContext(t.Context(), `SELECT remove_unlinked_blobs(ARRAY[$1], ARRAY[sha256($2)])`, b.org, content); err != nil {
			t.Fatal(err)
		}
	}
	for what, between := range map[string]func(tx *sql.Tx, letGo func()){
		"removed":       func(tx *sql.Tx, letGo func()) { remove(tx); b.must(tx.Commit()); letGo() },
		"being removed": func(tx *sql.Tx, letGo func()) { remove(tx); letGo(); b.awaitWaiters(1); b.must(tx.Commit()) },
		"begun anew": func(tx *sql.Tx, letGo func()) {
			remove(tx)
			b.must(tx.Commit())
			b.exec(`INSERT INTO blobs (org_id, hash, bytes) VALUES ($1, sha256($2), $3)`, b.org, content, len(content))
			b.exec(`INSERT INTO blob_chunks (org_id, hash, n, data) VALUES ($1, sha256($2), 0, $3)`, b.org, content, content[:mib])
			letGo()
		},
	} {
		held := b.claimedRun()
		b.storeUnlinked(held, content, func(letGo func()) {
			b.wantStored("when all is written", "1 contents 2 chunks 0 files")
			tx, err := b.raw.BeginTx(t.Context(), nil)
			b.must(err)
			between(tx, letGo)
		})
		b.wantStored("of one that was "+what, "1 contents 2 chunks 1 files")
		if b.content(b.text(`SELECT id FROM files`)) != string(content) {
			t.Errorf("one that was %s became another content", what)
		}
		b.remove(held, "c")
	}
}

func (b *testEnv) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// A blob that is due for removal is not removed while a transaction is linking a file to it.
func TestPruningSkipsContentsBeingLinked(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	ctx := t.Context()
	held := b.claimedRun()
	file := b.make(held, "c", made("x", "x"))[0]
	b.exec(`UPDATE files SET run_id = 'run_other', id = 'file_other' RETURNING hash`)
	b.exec(`CREATE TABLE other AS TABLE files`)
	b.exec(`DELETE FROM files`)
	b.exec(`UPDATE blobs SET sweep_after = clock_timestamp()`)
	tx, err := b.raw.BeginTx(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, query := range []string{ // the same statement as in KeepFiles
		`SELECT 1 FROM blobs FOR KEY SHARE`,
		`INSERT INTO files OVERRIDING SYSTEM VALUE SELECT * FROM other`,
	} {
		if _, err := tx.ExecContext(ctx, query); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := b.s.Blobs.PruneBlobs(ctx, 9); err != nil || n != 0 {
		t.Errorf("checked %d, %v", n, err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if n, err := b.s.Blobs.PruneBlobs(ctx, 9); err != nil || n != 1 {
		t.Errorf("checked %d, %v", n, err)
	}
	if got := b.content("file_other"); got != "x" {
		t.Errorf("content %q", got)
	}
	_, _, err = b.s.Blobs.OpenFile(ctx, b.org, file.ID)
	wantCode(t, err, apierr.NotFound)
}

// Contents are stored repeatedly while the last files that refer to the same contents are removed.
// No file loses its content, and no content remains at the end.
func TestMakingFilesWhileFilesGo(t *testing.T) {
	t.Parallel()
	r := newStoredEnv(t)
	contents := [][]byte{randomBytes(mib+7, 1), []byte("small"), nil}
	rounds := repetitions(t, 10, 25)
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for n := range rounds {
				session := fmt.Sprint(w, " ", n)
				c := r.mustClaim(r.accept(wideWindow, r.auto(session))[0].Run.Run.ID)
				file := r.make(c.Held(), "1", blobdb.NewFile{Name: "a", Content: contents[n%2]}, blobdb.NewFile{Name: "b", Content: contents[2]})[0]
				r.make(c.Held(), "2", blobdb.NewFile{Name: "a", Content: contents[1-n%2]})
				if got := r.content(file.ID); got != string(contents[n%2]) {
					t.Errorf("a content has %d bytes, want %d", len(got), len(contents[n%2]))
				}
				if n%5 == 0 {
					r.make(c.Held(), "1", blobdb.NewFile{Name: "a", Content: contents[1-n%2]})
				}
				if n%5 == w { // makes the contents look an hour old, although the test takes milliseconds
					r.exec(`UPDATE blobs SET sweep_after = clock_timestamp() WHERE (org_id, hash) IN (SELECT org_id, hash FROM blobs FOR UPDATE SKIP LOCKED)`)
					if _, err := r.s.Blobs.PruneBlobs(t.Context(), 9); err != nil {
						t.Errorf("pruning: %v", err)
					}
				}
				r.erase(r.named(domain.SystemPrincipal, session))
			}
		})
	}
	wg.Wait()
	r.wantStored("in the end", "0 contents 0 chunks 0 files")
}

// If two callers store the same content concurrently, the database contains it once.
func TestTheSameContentStoredTwiceConcurrently(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	content := randomBytes(4*mib+1, 1)
	var calls []func() (bool, error)
	var held []lease.Held
	for n := range 6 {
		held = append(held, b.claimedRun())
		calls = append(calls, func() (bool, error) {
			files := []blobdb.NewFile{{Name: "a", Content: content}, {Name: "b", Content: []byte("b")}}
			_, kept, err := b.s.Blobs.KeepFiles(t.Context(), held[n], "c", files, nil, int64(len(content))+1+12*4096)
			return kept, err
		})
	}
	for n, kept := range race(t, calls...) {
		if files, _, err := b.s.Blobs.SessionFiles(t.Context(), held[n], "d"); err != nil || !kept || len(files) != 2 || b.content(files[0].ID) != string(content) {
			t.Errorf("%d: %v, %+v, %v", n, kept, files, err)
		}
	}
	b.wantStored("in the end", "2 contents 6 chunks 12 files")
}

// A large file is read without holding all of it in memory. The test does not run in parallel,
// because the allocations of other tests would count.
func TestALargeFileIsReadInParts(t *testing.T) { //nolint:paralleltest // see above
	const size = 24 * mib // three times the memory that may be held
	b := newTestEnv(t)
	file := func() domain.File {
		return b.make(b.claimedRun(), "c", blobdb.NewFile{Name: "x", Content: randomBytes(size, 1)})[0]
	}()
	_, r, err := b.s.Blobs.OpenFile(t.Context(), b.org, file.ID)
	if err != nil {
		t.Fatal(err)
	}
	live := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before, maximum, total := live(), uint64(0), 0
	buf := make([]byte, 5*mib/4)
	for {
		n, err := r.Read(buf)
		total += n
		if err == io.EOF { //nolint:errorlint // readers return exactly this value
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		maximum = max(maximum, live())
	}
	if held := int64(maximum) - int64(before); total != size || held > 8*mib {
		t.Errorf("read %d bytes while memory grew by %d KiB", total, held>>10)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// The cost of reading files depends neither on the files of other sessions nor on earlier calls
// that wrote files with the same names.
func TestFilesAreFoundByTheirIndexes(t *testing.T) {
	t.Parallel()
	r := newStoredEnv(t)
	c := r.mustClaim(r.accept(wideWindow, r.auto("s"))[0].Run.Run.ID)
	file := r.make(c.Held(), "c", made("x", "x"))[0]
	r.raw(`INSERT INTO blobs (org_id, hash, bytes) SELECT $1, sha256(n::text::bytea), 1 FROM generate_series(1, 20000) n`, r.org)
	r.raw(`INSERT INTO blob_chunks (org_id, hash, n, data) SELECT org_id, hash, 0, 'x' FROM blobs WHERE hash <> sha256('x')`)
	r.raw(`INSERT INTO files (id, org_id, run_id, call_id, session_ref, name, mime_type, bytes, hash)
		SELECT 'file_' || n, $1, 'run_' || n / 5, 'c', CASE WHEN n % 2 = 0 THEN $2::bigint ELSE 1000000 + n % 7 END, 'name ' || n % 10, '', 1,
			sha256((n / 2 + 1)::text::bytea) FROM generate_series(1, 39000) n`, r.org, c.SessionRef)
	for _, stats := range []string{"none", "up to date"} {
		for name, x := range map[string]struct {
			maximum int
			f       func(s *store.Store)
		}{
			"SessionFiles": {100, func(s *store.Store) {
				if files, _, err := s.Blobs.SessionFiles(t.Context(), c.Held(), "d"); err != nil || len(files) != 6 {
					t.Errorf("%d files, %v", len(files), err)
				}
			}},
			"OpenFile": {30, func(s *store.Store) {
				_, content, err := s.Blobs.OpenFile(t.Context(), r.org, file.ID)
				if err == nil {
					_, err = io.ReadAll(content)
				}
				r.must(nil, err)
			}},
			"KeepFiles": {500, func(s *store.Store) {
				_, _, err := s.Blobs.KeepFiles(t.Context(), c.Held(), "d", []blobdb.NewFile{made("new", "new"), made("old", "1")}, []string{"name 2"}, 0)
				r.must(nil, err)
				_, _, err = s.Blobs.KeepFiles(t.Context(), c.Held(), "d", nil, nil, 0)
				r.must(nil, err)
			}},
			"PruneBlobs": {150, func(s *store.Store) { r.must(s.Blobs.PruneBlobs(t.Context(), 9)) }},
		} {
			if name == "PruneBlobs" {
				r.raw(`UPDATE blobs SET sweep_after = clock_timestamp() WHERE hash IN (sha256('1'), sha256('2'), sha256('19999'))`)
			}
			if n := r.touched(x.f); n > x.maximum || n == 0 {
				t.Errorf("%s, statistics %s: %d pages were touched, want at most %d", name, stats, n, x.maximum)
			} else {
				t.Logf("%s, statistics %s: %d pages", name, stats, n)
			}
		}
		r.raw(`ANALYZE blobs, blob_chunks, files`)
	}
	// Storing a file requires counting the organization's usage. The count uses only indexes.
	r.raw(`VACUUM blobs`)
	r.raw(`VACUUM files`)
	for _, query := range []string{`SELECT sum(bytes) FROM blobs WHERE org_id = 'org_x'`, `SELECT count(*) FROM files WHERE org_id = 'org_x'`} {
		if plan := strings.Join(texts(t, r.testEnv.raw, `EXPLAIN `+query), "\n"); !strings.Contains(plan, "Index Only Scan") {
			t.Error(plan)
		}
	}
}
