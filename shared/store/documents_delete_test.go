package store_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley/shared/apierr"
	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/store"
	"parley/shared/store/executiondb"
	"parley/shared/store/knowledgedb"
	"parley/shared/store/lease"
	"parley/shared/store/queuedb"
	"parley/shared/store/rundb"
)

// ready creates a processed document whose name and text contain the canary.
func (r *storedEnv) ready(more string) string {
	r.Helper()
	content := r.upload([]byte("content of " + canary + more))
	doc := r.add(knowledgedb.NewDocument{Name: canary + ".txt", Content: &content, Metadata: map[string]string{"k": canary}})[0].Document
	r.process(doc.ID)
	return doc.ID
}

func (b *testEnv) give(held lease.Held, documents ...string) {
	b.Helper()
	given, kept, err := b.s.Knowledge.GiveDocuments(b.Context(), held, documents)
	if err != nil || !kept || !slices.Equal(given, documents) {
		b.Fatalf("given %v, %v, %v", given, kept, err)
	}
}

func (b *testEnv) deleteDocument(documentID string) []executiondb.Ended {
	b.Helper()
	ended, err := b.s.Knowledge.DeleteDocument(b.Context(), b.org, documentID)
	if err != nil {
		b.Fatalf("deleting: %v", err)
	}
	_, err = b.s.Knowledge.DocumentByID(b.Context(), b.org, documentID)
	wantCode(b.T, err, apierr.NotFound)
	return ended
}

// turn finishes a run of a session that has read documents. The run's answer contains the canary.
func (r *storedEnv) turn(session, key string, documents ...string) *executiondb.Claimed {
	r.Helper()
	run := r.chat("usr_1", session, "ask "+key)
	run.IdempotencyKey, run.KeyHash, run.Fingerprint = key, contract.Hash(r.org, key), []byte("print")
	c := r.mustClaim(r.accept(wideWindow, run)[0].Run.Run.ID)
	r.give(c.Held(), documents...)
	return c
}

func (r *storedEnv) answered(session, key, answer string, documents ...string) string {
	r.Helper()
	c := r.turn(session, key, documents...)
	if ok, err := r.s.Executions.Journal(r.Context(), c.Held(), 1, []byte(`{"text":"`+answer+`"}`)); err != nil || !ok {
		r.Fatalf("journal: %v, %v", ok, err)
	}
	r.keep(c.Held(), domain.Source{Text: answer})
	r.make(c.Held(), "c", made(key, answer))
	r.finish(c, answer)
	return c.RunID
}

func TestDeletingADocumentLeavesNothing(t *testing.T) {
	t.Parallel()
	r := newStoredEnv(t)
	ctx := t.Context()
	doc := r.ready("")
	before := r.answered("living", "before", "nothing of it")
	reads := r.answered("living", "reads", canary, doc)
	repeats := r.answered("living", "repeats", "as I said: "+canary)
	running := r.turn("living", "running")
	waiting := r.accept(wideWindow, r.chat("usr_1", "living", "waits "+canary))[0].Run.Run.ID
	whole := r.answered("whole", "whole", canary, doc)
	elsewhere := r.answered("elsewhere", "elsewhere", "stays")
	if got := r.leaks(); got == "" || r.number(`SELECT count(*) FROM run_documents`) != 2 {
		t.Fatalf("before: %s", got)
	}
	ended := r.deleteDocument(doc)
	if len(ended) != 2 || ended[0].RunID != running.RunID || ended[1].RunID != waiting || ended[0].OrganizationID != r.org || ended[0].Result != nil {
		t.Errorf("ended %+v", ended)
	}
	if got := r.leaks(); got != "" {
		t.Errorf("left: %s", got)
	}
	r.wantStored("contents", "2 contents 2 chunks 2 files") // contents, chunks and files of the remaining runs
	for what, n := range map[string]int{"run_documents": 0, "documents": 0, "open_runs": 0, "document_chunks": 0, "document_vectors": 0, "knowledge_terms": 0, "sessions": 2} {
		if got := r.number(`SELECT count(*) FROM ` + what); got != n {
			t.Errorf("%d %s, want %d", got, what, n)
		}
	}
	for _, run := range []string{reads, repeats, running.RunID, waiting, whole} {
		if got, err := r.s.Runs.RunByID(ctx, r.org, "usr_1", run); err != nil || !got.Erased || resultFor(got) != nil {
			t.Errorf("%s: %+v, %v", run, got, err)
		}
	}
	for _, run := range []string{before, elsewhere} {
		if got, err := r.s.Runs.RunByID(ctx, r.org, "usr_1", run); err != nil || got.Erased {
			t.Errorf("%s: %+v, %v", run, got, err)
		}
	}
	again := r.chat("usr_1", "living", "ask reads")
	again.IdempotencyKey, again.KeyHash, again.Fingerprint = "reads", contract.Hash(r.org, "reads"), []byte("print")
	if out := r.accept(wideWindow, again)[0]; !out.Existing || !out.Run.Erased || out.Run.Run.ID != reads {
		t.Errorf("a replay: %+v", out)
	}
	r.wantLivingSession(before)
	if r.finish(running, canary).Saved[running.RunID] || r.leaks() != "" {
		t.Error("an erased run was finished")
	}
	if _, kept, err := r.s.Knowledge.GiveDocuments(ctx, running.Held(), []string{doc}); err != nil || kept {
		t.Errorf("an erased run was given something: %v, %v", kept, err)
	}
	if _, err := r.s.Knowledge.DeleteDocument(ctx, r.org, doc); !isNotFound(err) {
		t.Errorf("deleted twice: %v", err)
	}
}

// wantLivingSession checks that only the first run of a session remains, and that the session can
// continue.
func (r *storedEnv) wantLivingSession(first string) {
	r.Helper()
	ctx := r.Context()
	found, turns, err := readSession(ctx, r.s, r.named("usr_1", "living"), 0, 9)
	if err != nil || found.Runs != 1 || len(turns) != 1 || turns[0].RunID != first {
		r.Errorf("the session has %+v, %+v, %v", found, turns, err)
	}
	if _, _, err := readSession(ctx, r.s, r.named("usr_1", "whole"), 0, 9); !isNotFound(err) {
		r.Errorf("reading a session without remaining runs: %v, want not found", err)
	}
	if runs, err := r.s.Runs.ListRuns(ctx, r.org, rundb.RunFilter{SessionID: "living"}, 9); err != nil || len(runs) != 1 {
		r.Errorf("runs %+v, %v", runs, err)
	}
	next := r.accept(wideWindow, r.chat("usr_1", "living", "go on"))[0]
	if next.Job == nil {
		r.Error("the next message waits for an erased run")
	}
	c := r.mustClaim(next.Run.Run.ID)
	history, err := r.s.Sessions.History(ctx, r.org, c.SessionRef, c.Seq, 9)
	if err != nil || len(history) != 1 || history[0].Answer != "nothing of it" || c.Seq != 6 {
		r.Errorf("turn %d with history %+v, %v", c.Seq, history, err)
	}
	r.finish(c, "on")
	if _, turns, err := readSession(ctx, r.s, r.named("usr_1", "living"), 0, 9); err != nil || len(turns) != 2 {
		r.Errorf("the next run has the turns %+v, %v", turns, err)
	}
}

// Slots of cancelled runs are passed to waiting runs, and the next run of a session is dispatched.
func TestDeletingADocumentFreesSlots(t *testing.T) {
	t.Parallel()
	r := newStoredEnv(t)
	doc := r.ready("")
	running := r.turn("s", "k", doc)
	waits := r.auto("")
	waits.Lane = domain.LaneChat
	other := r.accept(1, waits)[0] // all slots are taken
	if other.Job != nil {
		t.Fatal("a run was dispatched although all slots are taken")
	}
	ended := r.deleteDocument(doc)
	if len(ended) != 1 || ended[0].RunID != running.RunID || !ended[0].Dispatched {
		t.Fatalf("ended %+v", ended)
	}
	freed := queuedb.FreedSlots{{OrganizationID: ended[0].OrganizationID, Lane: ended[0].Lane}: {Slots: 1, Waiting: true}}
	jobs, err := r.s.Queue.DispatchNext(t.Context(), freed)
	if err != nil || len(jobs) != 1 || jobs[0].RunID != other.Run.Run.ID {
		t.Errorf("%+v, %v", jobs, err)
	}
}

func TestGivingDocuments(t *testing.T) {
	t.Parallel()
	r := newStoredEnv(t)
	ctx := t.Context()
	one, two, queued := r.ready("1"), r.ready("2"), r.document([]byte("queued")).ID
	theirs := newEnvOn(t, r.s, r.testEnv.raw, "bob@example.com")
	foreign := theirs.document([]byte("theirs")).ID
	theirs.process(foreign)
	held := r.claimedRun()
	given, kept, err := r.s.Knowledge.GiveDocuments(ctx, held, []string{two, one, "doc_none", queued, foreign, one})
	if err != nil || !kept || !slices.Equal(given, []string{one, two}) {
		t.Errorf("given %v, %v, %v", given, kept, err)
	}
	r.give(held, one)
	if n := r.number(`SELECT count(*) FROM run_documents`); n != 2 {
		t.Errorf("%d links", n)
	}
	if given, kept, err := r.s.Knowledge.GiveDocuments(ctx, held, nil); err != nil || !kept || len(given) != 0 {
		t.Errorf("none: %v, %v, %v", given, kept, err)
	}
	stale := held
	stale.Fence--
	if given, kept, err := r.s.Knowledge.GiveDocuments(ctx, stale, []string{one}); err != nil || kept || given != nil {
		t.Errorf("under another fence: %v, %v, %v", given, kept, err)
	}
	// The previous release erases a run with the following statement.
	r.raw(`INSERT INTO steps (run_id, org_id, n, fence, step) VALUES ($1, $2, 1, 1, '{}')`, held.RunID, r.org)
	r.raw(`DELETE FROM steps WHERE run_id = $1`, held.RunID)
	if n := r.number(`SELECT count(*) FROM run_documents`); n != 0 {
		t.Errorf("%d links are left", n)
	}
}

// A worker that is reading a document writes nothing while the document is deleted or afterwards.
func TestDeletingADocumentBeingRead(t *testing.T) {
	t.Parallel()
	r := newStoredEnv(t)
	doc := r.ready("")
	r.raw(`UPDATE documents SET status = 'processing', fence = fence + 1, lease_until = clock_timestamp() + interval '1 minute'`)
	held := r.held(doc)
	r.deleteDocument(doc)
	chunk := knowledgedb.NewChunk{Passage: domain.Passage{Text: canary}, Terms: []knowledgedb.Term{{Lexeme: canary, Positions: []int{1}}}}
	if kept, err := r.s.Knowledge.AddChunks(t.Context(), held, []knowledgedb.NewChunk{chunk}, "", nil, 1); err != nil || kept {
		t.Errorf("wrote: %v, %v", kept, err)
	}
	if kept, err := r.s.Knowledge.FinishDocument(t.Context(), held, knowledgedb.FinishedDocument{Title: canary}); err != nil || kept {
		t.Errorf("finished: %v, %v", kept, err)
	}
	if got := r.leaks(); got != "" {
		t.Errorf("left: %s", got)
	}
}

// If the process dies during a deletion, the document can be deleted again, and searches do not
// find it in the meantime.
func TestDeletingThatWasInterrupted(t *testing.T) {
	t.Parallel()
	for _, where := range []string{"documents", "sessions"} {
		r := newStoredEnv(t)
		doc := r.ready("")
		r.answered("first", "a", "nothing")
		r.answered("first", "b", canary, doc)
		r.answered("second", "c", canary, doc)
		r.turn("third", "d", doc)
		r.raw(`CREATE FUNCTION dies() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'dies'; END $$`)
		r.raw(`CREATE TRIGGER dies BEFORE DELETE ON ` + where + ` FOR EACH ROW EXECUTE FUNCTION dies()`)
		ended, err := r.s.Knowledge.DeleteDocument(t.Context(), r.org, doc)
		if err == nil || where == "documents" && len(ended) != 1 {
			t.Fatalf("%s: ended %+v, %v", where, ended, err)
		}
		left := r.wantDocument(doc, domain.DocumentFailed, "interrupted")
		if left.Error == nil || left.Error.Code != "deleting" {
			t.Errorf("%s: %+v", where, left)
		}
		r.wantIndexed("interrupted", "0 chunks 0 vectors 0 terms")
		held := r.claimedRun()
		if given, _, err := r.s.Knowledge.GiveDocuments(t.Context(), held, []string{doc}); err != nil || len(given) != 0 {
			t.Errorf("%s: given %v, %v", where, given, err)
		}
		r.raw(`DROP TRIGGER dies ON ` + where)
		r.deleteDocument(doc)
		if got := r.leaks(); got != "" {
			t.Errorf("%s: left %s", where, got)
		}
	}
}

// Deleting a document that very many runs have read uses many short transactions.
func TestDeletingADocumentThousandsHaveRead(t *testing.T) {
	t.Parallel()
	r := newStoredEnv(t)
	doc, other := r.ready(""), r.ready("other")
	r.raw(`INSERT INTO sessions (key, org_id, target_id, principal, session_id, last_seq)
		SELECT sha256(('s' || n)::bytea), $1, $2, 'usr_1', 's' || n, CASE WHEN n = 0 THEN 3500 ELSE 2 END FROM generate_series(0, 2500) n`, r.org, r.agent)
	r.raw(`INSERT INTO runs (id, org_id, agent_id, config_version, session_ref, seq, session_id, principal, caller_kind, trigger_type,
		input, retention, created_at, status, result, answer)
		SELECT 'run_' || s.ref || '_' || q, s.org_id, s.target_id, 1, s.ref, q, s.session_id, s.principal, 'user', 'chat',
		json_build_object('message', 'm'), 0, now(), 'completed', '{}', CASE WHEN q > 1 THEN $1 ELSE 'a' END
		FROM sessions s, generate_series(1, s.last_seq) q WHERE s.session_id ~ '^s[0-9]+$'`, canary)
	r.raw(`INSERT INTO run_documents (run_id, org_id, document_id) SELECT id, org_id, $1 FROM runs WHERE seq = 2`, doc)
	r.raw(`INSERT INTO run_documents (run_id, org_id, document_id) SELECT id, org_id, $1 FROM runs WHERE seq = 1 AND session_id = 's7'`, other)
	r.raw(`INSERT INTO steps (run_id, org_id, n, fence, step) SELECT id, org_id, 1, 1, to_json($1::text) FROM runs WHERE seq > 1`, canary)
	long := r.accept(wideWindow, func() queuedb.NewRun {
		run := r.chat("usr_1", "s0", canary)
		run.SessionKey = contract.Hash()
		return run
	}())[0].Run.Run.ID
	r.raw(`UPDATE runs SET session_ref = (SELECT ref FROM sessions WHERE session_id = 's0' AND last_seq > 3), seq = 3501 WHERE id = $1`, long)
	r.raw(`UPDATE open_runs SET session_ref = (SELECT ref FROM sessions WHERE session_id = 's0' AND last_seq > 3), seq = 3501 WHERE run_id = $1`, long)
	began := time.Now()
	ended := r.deleteDocument(doc)
	t.Logf("took %v", time.Since(began))
	if len(ended) != 1 || ended[0].RunID != long {
		t.Errorf("ended %+v", ended)
	}
	left := r.number(`SELECT count(*) FROM runs WHERE status IS NULL OR result IS NOT NULL`)
	if steps := r.number(`SELECT count(*) FROM steps`); left != 2501 || steps != 0 || r.number(`SELECT count(*) FROM run_documents`) != 1 {
		t.Errorf("left %d runs, %d steps", left, steps)
	}
	r.deleteDocument(other)
	if n := r.number(`SELECT count(*) FROM sessions WHERE session_id = 's7'`); n != 0 || r.leaks() != "" {
		t.Errorf("%d sessions, %s", n, r.leaks())
	}
}

// Documents are deleted while runs read them and while they are uploaded again. No run reads a
// deleted document without being erased, and all operations finish.
func TestDeletingAmidEverything(t *testing.T) {
	t.Parallel()
	r := newStoredEnv(t)
	const documents, sessions = 3, 6
	var mu sync.Mutex
	live := make([]string, documents)
	for n := range live {
		live[n] = r.ready(fmt.Sprint(n))
	}
	either := func() (int, string) {
		mu.Lock()
		defer mu.Unlock()
		n := rand.N(documents)
		return n, live[n]
	}
	deleted, gave := map[string]bool{}, atomic.Int64{}
	over := make(chan struct{})
	enough := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(deleted) >= 3 && gave.Load() >= 3
	}
	seconds := repetitions(t, 1, 2)
	go func() { // stops when these seconds have passed and a run has read a document that was being deleted
		defer close(over)
		for n := 0; n < 30 && (n < seconds || !enough()); n++ {
			<-time.After(time.Second)
		}
	}()
	var all sync.WaitGroup
	for n := range sessions {
		all.Go(func() {
			for !isClosed(over) {
				c := r.claim(r.accept(wideWindow, r.chat("usr_1", fmt.Sprint("s", n), "m"))[0].Run.Run.ID)
				if c.Run == nil { // the run was erased before it was claimed
					continue
				}
				_, doc := either()
				given, kept, err := r.s.Knowledge.GiveDocuments(t.Context(), c.Run.Held(), []string{doc})
				if err != nil {
					t.Errorf("giving: %v", err)
				}
				if kept && len(given) > 0 {
					gave.Add(1)
					r.finish(c.Run, "of "+doc)
				} else {
					r.finish(c.Run, "nothing")
				}
			}
		})
	}
	for range 2 {
		all.Go(func() {
			for !isClosed(over) {
				n, doc := either()
				if _, err := r.s.Knowledge.DeleteDocument(t.Context(), r.org, doc); err != nil && !isNotFound(err) {
					t.Errorf("deleting: %v", err)
				}
				fresh := r.ready(fmt.Sprint(n, rand.Int()))
				mu.Lock()
				deleted[doc], live[n] = true, fresh
				mu.Unlock()
			}
		})
	}
	all.Go(func() {
		for !isClosed(over) {
			_, doc := either()
			content := r.upload([]byte("content of " + canary + "resent"))
			sent := knowledgedb.NewDocument{ID: id.New(id.Document), Name: canary, Content: &content}
			_, err := r.s.Knowledge.AddDocuments(t.Context(), r.org, []knowledgedb.NewDocument{sent}, knowledgedb.DocumentLimits{Documents: 1000})
			_, retryErr := r.s.Knowledge.RetryDocument(t.Context(), r.org, doc)
			_, pruneErr := r.s.Blobs.PruneBlobs(t.Context(), 9)
			if retryErr != nil && !isNotFound(retryErr) && !isConflict(retryErr) || err != nil && !isConflict(err) || pruneErr != nil {
				t.Errorf("sending and sweeping: %v, %v, %v", err, retryErr, pruneErr)
			}
		}
	})
	all.Wait()
	t.Logf("%d deleted, %d given, %d deadlocks", len(deleted), gave.Load(),
		r.number(`SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`))
	if len(deleted) < 3 || gave.Load() < 3 {
		t.Errorf("only %d were deleted, %d given", len(deleted), gave.Load())
	}
	for doc := range deleted {
		if n := r.number(`SELECT count(*) FROM runs WHERE answer = $1`, "of "+doc); n > 0 {
			t.Errorf("%d answers of %s, which is deleted", n, doc)
		}
	}
	left, err := r.s.Knowledge.Documents(t.Context(), r.org, knowledgedb.DocumentFilter{}, "", 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, doc := range left {
		r.deleteDocument(doc.ID)
	}
	if got := r.leaks(); got != "" || r.number(`SELECT count(*) FROM run_documents`) != 0 {
		t.Errorf("left: %s", got)
	}
	r.wantIndexed("in the end", "0 chunks 0 vectors 0 terms")
}

// The cost of a document's operations depends neither on the documents of other organizations nor
// on runs that read other documents.
func TestDocumentsAreFoundByTheirIndexes(t *testing.T) {
	t.Parallel()
	r := newStoredEnv(t)
	r.raw(`INSERT INTO documents (id, org_id, name, mime_type, hash, bytes, created_by, status)
		SELECT 'doc_' || to_char(n, 'FM00000'), $1, 'name ' || n, '', sha256(n::text::bytea), 1, '', 'ready' FROM generate_series(1, 20000) n`, r.org)
	r.raw(`INSERT INTO runs (id, org_id, agent_id, config_version, session_ref, seq, session_id, principal, caller_kind, trigger_type,
		input, retention, created_at, status, result, answer) SELECT 'run_' || n, $1, $2, 1, 1000000 + n / 5, n % 5, 's', 'usr_1', 'user', 'chat',
		'{}', 0, now(), 'completed', '{}', 'a' FROM generate_series(1, 20000) n`, r.org, r.agent)
	r.raw(`INSERT INTO run_documents (run_id, org_id, document_id)
		SELECT 'run_' || n, $1, 'doc_' || to_char(n / 2 + 1, 'FM00000') FROM generate_series(1, 20000) n`, r.org)
	held, next := r.claimedRun(), 100
	for _, stats := range []string{"none", "up to date"} {
		for name, x := range map[string]struct {
			maximum int
			f       func(s *store.Store) error
		}{
			"DocumentByID": {17, func(s *store.Store) error {
				_, err := s.Knowledge.DocumentByID(t.Context(), r.org, "doc_00500")
				return err
			}},
			"GiveDocuments": {60, func(s *store.Store) error {
				_, _, err := s.Knowledge.GiveDocuments(t.Context(), held, []string{"doc_00001", "doc_00002"})
				return err
			}},
			"AddDocuments": {300, func(s *store.Store) error {
				up, err := s.Blobs.Upload(t.Context(), r.org, strings.NewReader(fmt.Sprint("new ", stats)), 100)
				if err != nil {
					return err
				}
				docs := []knowledgedb.NewDocument{{ID: id.New(id.Document), Content: &up}, {ID: id.New(id.Document), URL: "https://example.com/" + stats}}
				_, err = s.Knowledge.AddDocuments(t.Context(), r.org, docs, knowledgedb.DocumentLimits{})
				return err
			}},
			"DeleteDocument": {900, func(s *store.Store) error {
				next++
				_, err := s.Knowledge.DeleteDocument(t.Context(), r.org, fmt.Sprintf("doc_%05d", next))
				return err
			}},
		} {
			n := r.touched(func(s *store.Store) { r.must(nil, x.f(s)) })
			if n > x.maximum || n == 0 {
				t.Errorf("%s, statistics %s: %d pages were touched, want at most %d", name, stats, n, x.maximum)
			} else {
				t.Logf("%s, statistics %s: %d pages", name, stats, n)
			}
		}
		r.raw(`ANALYZE`)
	}
	r.raw(`VACUUM documents`)
	for _, query := range []string{
		`SELECT count(*), sum(bytes) FROM documents WHERE org_id = 'org_x'`,
		`SELECT DISTINCT ON (hash) bytes FROM documents WHERE org_id = 'org_x' AND hash IS NOT NULL ORDER BY hash`,
	} {
		if plan := strings.Join(texts(t, r.testEnv.raw, `EXPLAIN `+query), "\n"); !strings.Contains(plan, "Index Only Scan") {
			t.Error(plan)
		}
	}
}
