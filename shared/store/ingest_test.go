package store_test

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/shared/domain"
	"parley/shared/store/knowledgedb"
	"parley/shared/store/lease"
	"parley/shared/testkit"
)

var broken = domain.DocumentError{Code: "broken", Message: "it is broken"}

// claimDocument claims the only available document.
func (b *testEnv) claimDocument() knowledgedb.LeasedDocument {
	b.Helper()
	claimed, err := b.s.Knowledge.ClaimDocuments(b.Context(), knowledgedb.DocumentClaim{Max: 1})
	if err != nil || len(claimed) != 1 {
		b.Fatalf("claiming: %+v, %v", claimed, err)
	}
	return claimed[0].LeasedDocument
}

func (b *testEnv) wantNoClaim(what string) {
	b.Helper()
	if claimed, err := b.s.Knowledge.ClaimDocuments(b.Context(), knowledgedb.DocumentClaim{Max: 10}); err != nil || len(claimed) != 0 {
		b.Errorf("%s: %+v, %v", what, claimed, err)
	}
}

// loseDocuments makes all leases expire.
func (b *testEnv) loseDocuments() {
	b.Helper()
	b.exec(`UPDATE documents SET lease_until = clock_timestamp() - interval '1 second' WHERE status = 'processing'`)
}

// serverStarted makes the database's functions use another start time of the server. The tests'
// server has just started, so expired leases would not count as lost yet.
func (b *testEnv) serverStarted(when string) {
	b.Helper()
	definitions := texts(b.T, b.raw, `SELECT pg_get_functiondef(p.oid) FROM pg_proc p WHERE p.proname IN ('claim_documents', 'hopeless_documents')`)
	for _, definition := range definitions {
		if !strings.Contains(definition, "pg_postmaster_start_time()") {
			b.Fatal("when the server was started counts for nothing")
		}
		b.exec(strings.ReplaceAll(definition, "pg_postmaster_start_time()", when))
	}
}

// termsIn counts the terms of chunks.
func termsIn(chunks []knowledgedb.NewChunk) (counts knowledgedb.TermCounts) {
	for _, c := range chunks {
		counts.Add(c.Terms)
	}
	return counts
}

const longAgo = `'-infinity'::timestamptz`

// While workers are running, a document may wait for any length of time before its first claim.
// After the first claim, it must be finished within an hour.
func TestWaitingDoesNotFailDocuments(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	other := newEnvOn(t, b.s, b.raw, "bob@example.com")
	ended := func(what string, want int) {
		t.Helper()
		if orgs, err := b.s.Knowledge.EndDocuments(t.Context(), 10); err != nil || len(orgs) != want {
			t.Errorf("%s: ended %v, %v; want %d", what, orgs, err, want)
		}
	}
	doc := b.document([]byte("waits")).ID
	ended("a new one", 0)
	theirs := other.document([]byte("theirs")).ID
	b.exec(`UPDATE documents SET not_before = clock_timestamp() - interval '61 minutes' WHERE id = $1`, doc)
	b.exec(`UPDATE documents SET not_before = clock_timestamp() - interval '59 minutes', claimed_at = clock_timestamp() - interval '59 minutes' WHERE id = $1`, theirs)
	ended("somebody's was claimed within the hour", 0)
	b.exec(`UPDATE documents SET claimed_at = clock_timestamp() - interval '61 minutes', status = 'processing', lease_until = clock_timestamp() + interval '1 minute' WHERE id = $1`, theirs)
	ended("another organization's document is being processed", 0)
	b.exec(`UPDATE documents SET status = 'queued', lease_until = NULL WHERE id = $1`, theirs)
	ended("nobody reads", 1)
	if got := b.wantDocument(doc, domain.DocumentFailed, "nobody reads"); got.Error == nil || *got.Error != knowledgedb.DocumentNotProcessed {
		t.Errorf("%+v", got.Error)
	}
	deadline := func(what string, want time.Duration) {
		t.Helper()
		left := b.text(`SELECT coalesce(round(extract(epoch FROM deadline - clock_timestamp()) / 60)::text, 'none') FROM documents WHERE id = $1`, doc)
		if left != fmt.Sprint(int(want.Minutes())) && (want > 0 || left != "none") {
			t.Errorf("%s: %s minutes are left", what, left)
		}
	}
	if _, err := b.s.Knowledge.RetryDocument(t.Context(), b.org, doc); err != nil {
		t.Fatal(err)
	}
	b.exec(`UPDATE documents SET not_before = clock_timestamp() + interval '1 hour' WHERE id = $1`, theirs)
	deadline("anew", 0)
	held := b.claimDocument()
	deadline("claimed", time.Hour)
	if err := b.s.Knowledge.ReleaseDocument(t.Context(), held); err != nil {
		t.Fatal(err)
	}
	deadline("given back", 0)
	held = b.claimDocument()
	b.exec(`UPDATE documents SET deadline = deadline - interval '10 minutes' WHERE id = $1`, doc)
	if kept, err := b.s.Knowledge.PostponeDocument(t.Context(), held, broken, 0); err != nil || !kept {
		t.Fatal(kept, err)
	}
	if got := b.wantDocument(doc, domain.DocumentQueued, "put back"); got.Error == nil || *got.Error != broken {
		t.Errorf("the document's error does not contain the reason for the requeue: %+v", got.Error)
	}
	held = b.claimDocument()
	deadline("claimed again", 50*time.Minute)
	if got := b.wantDocument(doc, domain.DocumentProcessing, "again"); got.Error != nil {
		t.Errorf("%+v", got.Error)
	}
	if err := b.s.Knowledge.ReleaseDocument(t.Context(), held); err != nil {
		t.Fatal(err)
	}
	deadline("given back the second time", 50*time.Minute)
}

// chunkFor returns a chunk whose text and terms are the given words.
func chunkFor(n int, words ...string) knowledgedb.NewChunk {
	c := knowledgedb.NewChunk{Passage: domain.Passage{Chunk: n, Text: strings.Join(words, " ")}}
	for i, w := range words {
		c.Terms = append(c.Terms, knowledgedb.Term{Lexeme: w, Positions: []int{i + 1}})
	}
	return c
}

// wantCounted checks that the counts of terms and chunks match the chunks of ready documents. It
// also checks that every other chunk belongs to a document in progress, and that every vector has a
// chunk.
func (b *testEnv) wantCounted(what string) {
	b.Helper()
	wrong := texts(b.T, b.raw, `WITH ready AS (SELECT c.* FROM document_chunks c JOIN documents d ON d.id = c.document_id WHERE d.status = 'ready'),
		are AS (SELECT r.org_id, substr(u.lexeme, 5) AS term, count(*) AS chunks FROM ready r, unnest(r.terms) u GROUP BY 1, 2
		  UNION ALL SELECT org_id, '', count(*) FROM ready GROUP BY 1)
		SELECT format('%s %s: %s are counted as %s', org_id, a.term, a.chunks, k.chunks) FROM are a FULL JOIN knowledge_terms k USING (org_id, term)
		  WHERE a.chunks IS DISTINCT FROM k.chunks
		UNION ALL SELECT format('chunk %s of a document that is %s', c.n, coalesce(d.status, 'gone')) FROM document_chunks c
		  LEFT JOIN documents d ON d.id = c.document_id WHERE d.status IN ('ready', 'processing') IS NOT TRUE
		UNION ALL SELECT format('%s chunks of %s', d.chunks, (SELECT count(*) FROM document_chunks c WHERE c.document_id = d.id)) FROM documents d
		  WHERE d.status = 'ready' AND d.chunks <> (SELECT count(*) FROM document_chunks c WHERE c.document_id = d.id)
		UNION ALL SELECT 'a vector without chunk' FROM document_vectors v WHERE NOT EXISTS (SELECT FROM document_chunks c WHERE c.id = v.chunk_id)`)
	if len(wrong) > 0 {
		b.Errorf("%s: %v", what, wrong)
	}
}

// attempt is a worker's attempt to process a document. The method step executes one step of the
// attempt.
type attempt struct {
	*testEnv
	held  knowledgedb.LeasedDocument
	words []string
	terms knowledgedb.TermCounts
}

func (a *attempt) step(what string) (bool, error) {
	switch what {
	case "finish":
		return a.s.Knowledge.FinishDocument(a.Context(), a.held, knowledgedb.FinishedDocument{Language: "en", Terms: a.terms})
	case "fail":
		return a.s.Knowledge.FailDocument(a.Context(), a.held, broken)
	case "postpone":
		return a.s.Knowledge.PostponeDocument(a.Context(), a.held, broken, 0)
	case "release":
		return true, a.s.Knowledge.ReleaseDocument(a.Context(), a.held)
	}
	n := int(what[0] - '0')
	chunk := chunkFor(n, a.words[n], "both")
	chunk.Vector = []float32{1, 0}
	a.terms.Add(chunk.Terms)
	for range 2 { // each call is repeated, as if the worker had received no reply to the first one
		if kept, err := a.s.Knowledge.AddChunks(a.Context(), a.held, []knowledgedb.NewChunk{chunk}, "m", nil, n); err != nil || !kept {
			return kept, err
		}
	}
	return true, nil
}

func (b *testEnv) interleave(order []bool, first, second []string) {
	b.Helper()
	doc := b.document([]byte("read by two")).ID
	one := &attempt{testEnv: b, held: b.claimDocument(), words: []string{"old", "older"}}
	two := &attempt{testEnv: b, words: []string{"new", "newer"}}
	holder, open, published := one, true, ""
	for _, of := range order {
		who, steps := one, &first
		if of {
			who, steps = two, &second
		}
		step := (*steps)[0]
		*steps = (*steps)[1:]
		published += fmt.Sprintf(" %v:%s", of, step)
		if step == "lose" {
			holder, open = b.takeOver(doc, two, holder, open)
			continue
		}
		kept, err := who.step(step)
		if want := who == holder && open; err != nil || kept != want && step != "release" {
			b.Fatalf("%s: %v, %v; want %v", published, kept, err, want)
		}
		if who == holder && open && len(*steps) == 0 {
			open = false
			if step == "postpone" || step == "release" {
				holder = nil
			}
			b.wantCounted(published)
		}
	}
	b.wantCounted(published)
	b.wantOneEnd(doc, published, two, first, second)
	b.deleteDocument(doc)
	b.wantIndexed("after deleting", "0 chunks 0 vectors 0 terms")
}

// takeOver lets the holder's lease expire, and claims the document for another worker.
func (b *testEnv) takeOver(doc string, two, holder *attempt, open bool) (*attempt, bool) {
	b.Helper()
	b.loseDocuments()
	claimed, err := b.s.Knowledge.ClaimDocuments(b.Context(), knowledgedb.DocumentClaim{Max: 5})
	if err != nil {
		b.Fatal(err)
	}
	if ended := !open && holder != nil; ended {
		if len(claimed) > 0 {
			b.Fatalf("a document that has ended was claimed: %+v", claimed)
		}
		two.held = knowledgedb.LeasedDocument{OrganizationID: b.org, ID: doc, Fence: 1 << 40}
		return holder, open
	}
	if len(claimed) != 1 || claimed[0].ID != doc {
		b.Fatalf("claimed %+v", claimed)
	}
	two.held = claimed[0].LeasedDocument
	return two, true
}

// wantOneEnd checks the final state of a document. It also checks that the index contains the words
// of exactly one attempt.
func (b *testEnv) wantOneEnd(doc, published string, two *attempt, first, second []string) {
	b.Helper()
	if len(first)+len(second) > 0 {
		b.Fatalf("%s: steps were not executed: %v, %v", published, first, second)
	}
	got, err := b.s.Knowledge.DocumentByID(b.Context(), b.org, doc)
	if err != nil {
		b.Fatal(err)
	}
	terms := strings.Join(texts(b.T, b.raw, `SELECT term || ' ' || chunks FROM knowledge_terms WHERE org_id = $1 AND term <> '' ORDER BY term`, b.org), ", ")
	switch got.Status {
	case domain.DocumentReady:
		if got.Chunks != 2 || terms != "both 2, new 1, newer 1" && terms != "both 2, old 1, older 1" {
			b.Errorf("%s: %d chunks with %q", published, got.Chunks, terms)
		}
		b.wantIndexed(published, "2 chunks 2 vectors 3 terms")
	case domain.DocumentFailed:
		if got.Error == nil || *got.Error != broken || got.Chunks != 0 {
			b.Errorf("%s: %+v", published, got)
		}
		b.wantIndexed(published, "0 chunks 0 vectors 0 terms")
	case domain.DocumentQueued, domain.DocumentProcessing:
		b.Errorf("%s: the document has not been finished; its status is %s, and its holder is %+v", published, got.Status, two.held)
	}
}

func TestClaimsAreFair(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	other := newEnvOn(t, b.s, b.raw, "bob@example.com")
	third := newEnvOn(t, b.s, b.raw, "eve@example.com")
	names := map[string]string{}
	name := func(of *testEnv, letter string, documents int) {
		for i := range documents {
			names[of.document(fmt.Appendf(nil, "%d", i)).ID] = fmt.Sprint(letter, i)
		}
	}
	name(b, "a", 6)
	name(other, "b", 2)
	name(third, "c", 1)
	b.exec(`UPDATE documents SET not_before = clock_timestamp() + interval '1 hour' WHERE org_id = $1`, third.org)
	var got []string
	for _, maximum := range []int{1, 1, 3, 1, 10} {
		claimed, err := b.s.Knowledge.ClaimDocuments(t.Context(), knowledgedb.DocumentClaim{Max: maximum})
		if err != nil {
			t.Fatal(err)
		}
		var these []string
		for _, c := range claimed {
			if c.Attempts != 1 || c.Document.Status != domain.DocumentProcessing || time.Until(c.Deadline) < 50*time.Minute {
				t.Errorf("claimed %+v", c)
			}
			these = append(these, names[c.ID])
		}
		slices.Sort(these)
		got = append(got, strings.Join(these, "+"))
	}
	slices.Sort(got[:2]) // these two may be in any order, because their organizations have equally many claimed documents
	if want := "a0 b0 a1+a2+b1 a3 a4+a5"; strings.Join(got, " ") != want {
		t.Errorf("claimed %v, want %s", got, want)
	}
	b.wantNoClaim("with all documents claimed")
}

// In an organization, a short document is claimed before a longer document, unless the longer
// document has waited much longer.
func TestShortDocumentsComeFirst(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	names := map[string]string{}
	add := func(name string, bytes, waited int) {
		doc := b.document([]byte(name)).ID
		names[doc] = name
		b.exec(`UPDATE documents SET bytes = $2, not_before = clock_timestamp() - $3::int * interval '1 second' WHERE id = $1`, doc, bytes, waited)
	}
	add("large", 20*mib, 200)
	add("larger and late", 20*mib, 10)
	add("middling", 2*mib, 5)
	for n := range 30 { // more documents than one claim considers
		add(fmt.Sprint("tiny ", n), 100+n, 100-n)
	}
	add("very old", 20*mib, 1_000_000)
	address := b.add(knowledgedb.NewDocument{Name: "page", URL: "https://example.com/"})[0].Document.ID
	names[address] = "address"
	b.exec(`UPDATE documents SET not_before = clock_timestamp() WHERE id = $1`, address)
	var got []string
	for range len(names) {
		held := b.claimDocument()
		got = append(got, names[held.ID])
	}
	want := []string{"very old"}
	for n := range 30 {
		want = append(want, fmt.Sprint("tiny ", n))
	}
	want = append(want, "large", "middling", "address", "larger and late")
	if !slices.Equal(got, want) {
		t.Errorf("claimed %v, want %v", got, want)
	}
}

func TestClaimsPassOrganizations(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	b.serverStarted(longAgo)
	other := newEnvOn(t, b.s, b.raw, "bob@example.com")
	b.document([]byte("waits"))
	b.document([]byte("lost"))
	b.claimDocument()
	b.loseDocuments()
	theirs := other.document([]byte("theirs")).ID
	for _, want := range [][]string{{theirs}, nil} {
		claimed, err := b.s.Knowledge.ClaimDocuments(t.Context(), knowledgedb.DocumentClaim{Max: 5, Not: []string{"org_none", b.org}})
		var got []string
		for _, c := range claimed {
			got = append(got, c.ID)
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("claimed %v, %v; want %v", got, err, want)
		}
	}
	if claimed, err := b.s.Knowledge.ClaimDocuments(t.Context(), knowledgedb.DocumentClaim{Max: 5, Not: []string{}}); err != nil || len(claimed) != 2 {
		t.Errorf("claimed %+v, %v", claimed, err)
	}
}

// At least half of the time, small documents are claimed before large documents of other
// organizations, and large documents are not skipped forever.
func TestNoDocumentsAreSkippedForever(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	other := newEnvOn(t, b.s, b.raw, "bob@example.com")
	b.document([]byte("small"))
	large := other.document([]byte("large")).ID
	b.exec(`UPDATE documents SET bytes = 20 * 1048576 WHERE id = $1`, large)
	first := 0
	for range 60 {
		held := b.claimDocument()
		if held.ID == large {
			first++
		}
		b.exec(`UPDATE documents SET status = 'queued', not_before = clock_timestamp() WHERE id = $1`, held.ID)
	}
	if first < 2 || first > 35 { // the large document comes first with a probability of 1/4; other counts are very improbable
		t.Errorf("the large one came first %d times of 60", first)
	}
}

func TestConcurrentClaimsTakeEachRunOnce(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	const documents = 40
	for i := range documents {
		b.document(fmt.Appendf(nil, "%d", i))
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	taken := map[string]int{}
	for range 8 {
		wg.Go(func() {
			for {
				claimed, err := b.s.Knowledge.ClaimDocuments(t.Context(), knowledgedb.DocumentClaim{Max: 3})
				if err != nil {
					t.Error(err)
				}
				if len(claimed) == 0 {
					return
				}
				mu.Lock()
				for _, c := range claimed {
					taken[c.ID]++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(taken) != documents {
		t.Errorf("%d were taken", len(taken))
	}
	for doc, n := range taken {
		if n != 1 {
			t.Errorf("%s was taken %d times", doc, n)
		}
	}
}

func TestLeasesOfDocuments(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	b.document([]byte("1"))
	b.document([]byte("2"))
	one, two := b.claimDocument(), b.claimDocument()
	stale, gone := one, two
	stale.Fence--
	gone.OrganizationID = "org_other"
	b.serverStarted(`clock_timestamp()`)
	b.loseDocuments()
	b.wantNoClaim("of workers that the server has kept from renewing")
	lost, err := b.s.Knowledge.ExtendDocuments(t.Context(), []knowledgedb.LeasedDocument{one, stale, two, gone})
	if err != nil || !slices.Equal(lost, []knowledgedb.LeasedDocument{stale, gone}) {
		t.Errorf("lost %v, %v", lost, err)
	}
	b.wantNoClaim("with leases that were renewed")
	if lost, err := b.s.Knowledge.ExtendDocuments(t.Context(), nil); err != nil || len(lost) != 0 {
		t.Errorf("of none: %v, %v", lost, err)
	}
}

// The renewal of a document's lease does not wait for the lock on its row, for example while chunks
// are added.
func TestHeartbeatsPassLockedDocuments(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	b.document([]byte("1"))
	b.document([]byte("2"))
	one, two := b.claimDocument(), b.claimDocument()
	b.loseDocuments()
	left := func(what, held, want string) {
		t.Helper()
		if got := b.text(`SELECT (lease_until > clock_timestamp() + interval '20 seconds')::text FROM documents WHERE id = $1`, held); got != want {
			t.Errorf("%s: %s", what, got)
		}
	}
	tx, err := b.raw.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(t.Context(), `SELECT FROM documents WHERE id = $1 FOR UPDATE`, one.ID); err != nil {
		t.Fatal(err)
	}
	stale := two
	stale.Fence--
	lost, err := b.s.Knowledge.ExtendDocuments(t.Context(), []knowledgedb.LeasedDocument{one, two, stale})
	if err != nil || !slices.Equal(lost, []knowledgedb.LeasedDocument{stale}) {
		t.Errorf("lost %v, %v", lost, err)
	}
	left("locked", one.ID, "false")
	left("beside it", two.ID, "true")
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if kept, err := b.s.Knowledge.AddChunks(t.Context(), one, nil, "", nil, 1); err != nil || !kept {
		t.Fatal(kept, err)
	}
	left("with chunks", one.ID, "true")
}

// A transaction that finishes a document may have to wait for another such transaction. It waits
// for that lock longer than for other locks, and its document's lease is renewed meanwhile.
func TestFinishingWaitsForOthers(t *testing.T) {
	t.Parallel()
	dsn := testkit.Postgres(t)
	s, raw := openAt(t, dsn+"&lock_timeout=100")
	b := newEnvOn(t, s, raw, "ada@example.com")
	b.readyDocument(nil, chunkFor(0, "word"))
	doc := b.document([]byte("1")).ID
	held := b.claimDocument()
	if kept, err := b.s.Knowledge.AddChunks(t.Context(), held, []knowledgedb.NewChunk{chunkFor(0, "word")}, "m", nil, 0); err != nil || !kept {
		t.Fatal(kept, err)
	}
	for _, lock := range []string{
		`SELECT pg_advisory_xact_lock(hashtextextended('finished documents ' || $1, 0))`, `SELECT FROM knowledge_terms WHERE org_id = $1 AND term = '' FOR UPDATE`,
	} {
		tx, err := raw.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.ExecContext(t.Context(), lock, b.org); err != nil {
			t.Fatal(err)
		}
		finished := make(chan error, 1)
		go func() {
			kept, err := b.s.Knowledge.FinishDocument(t.Context(), held, knowledgedb.FinishedDocument{})
			if err == nil && !kept {
				err = errors.New("taken")
			}
			finished <- err
		}()
		b.awaitText(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
			AND query_start < clock_timestamp() - interval '300 milliseconds'`, "1", finished)
		if lost, err := b.s.Knowledge.ExtendDocuments(t.Context(), []knowledgedb.LeasedDocument{held}); err != nil || len(lost) > 0 {
			t.Errorf("lost %v, %v", lost, err)
		}
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
		if err := <-finished; err != nil {
			t.Fatal(err)
		}
		b.wantDocument(doc, domain.DocumentReady, "at last")
		if _, err := b.s.Knowledge.RetryDocument(t.Context(), b.org, doc); err != nil {
			t.Fatal(err)
		}
		held = b.claimDocument()
	}
}

// awaitText waits until a query returns want. It fails the test if a value arrives on the channel
// named ended before that.
func (b *testEnv) awaitText(query, want string, ended <-chan error) {
	b.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	over := time.After(testkit.Within(10 * time.Second))
	for b.text(query) != want {
		select {
		case <-tick.C:
		case err := <-ended:
			b.Fatalf("the transaction has not waited: %v", err)
		case <-over:
			b.Fatalf("%s does not return %s", query, want)
		}
	}
}

func TestADocumentThatKillsItsWorkersFails(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	b.serverStarted(longAgo)
	doc := b.document([]byte("poison")).ID
	for n := range lease.MaxDeaths {
		held := b.claimDocument()
		if n == 2 { // a worker releases the document, which does not count as a death
			if err := b.s.Knowledge.ReleaseDocument(t.Context(), held); err != nil {
				t.Fatal(err)
			}
			held = b.claimDocument()
		}
		if kept, err := b.s.Knowledge.AddChunks(t.Context(), held, []knowledgedb.NewChunk{chunkFor(0, "x")}, "", nil, 1); err != nil || !kept {
			t.Fatalf("adding: %v, %v", kept, err)
		}
		if ended, err := b.s.Knowledge.EndDocuments(t.Context(), 10); err != nil || len(ended) != 0 {
			t.Fatalf("while the document is read: %v, %v", ended, err)
		}
		b.loseDocuments()
	}
	b.wantNoClaim("poison")
	if ended, err := b.s.Knowledge.EndDocuments(t.Context(), 10); err != nil || len(ended) != 1 || ended[0] != b.org {
		t.Fatalf("ended %v, %v", ended, err)
	}
	if got := b.wantDocument(doc, domain.DocumentFailed, "poison"); got.Error == nil || *got.Error != knowledgedb.DocumentWorkerLost {
		t.Errorf("%+v", got.Error)
	}
	b.wantIndexed("of poison", "0 chunks 0 vectors 0 terms")
	if _, err := b.s.Knowledge.RetryDocument(t.Context(), b.org, doc); err != nil {
		t.Fatal(err)
	}
	b.claimDocument() // the document can be claimed again
}

func TestDeadlinesOfDocuments(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	b.serverStarted(longAgo)
	late := func() { b.exec(`UPDATE documents SET deadline = clock_timestamp() - interval '1 second'`) }
	never := b.document([]byte("never")).ID
	late()
	b.wantNoClaim("past the deadline")
	put := b.document([]byte("put back")).ID
	if kept, err := b.s.Knowledge.PostponeDocument(t.Context(), b.claimDocument(), broken, time.Minute); err != nil || !kept {
		t.Fatalf("postponing: %v, %v", kept, err)
	}
	b.wantDocument(put, domain.DocumentQueued, "put back")
	b.wantNoClaim("before its time")
	late()
	lost := b.document([]byte("lost")).ID
	b.claimDocument()
	b.loseDocuments()
	late()
	living := b.document([]byte("living")).ID
	held := b.claimDocument()
	late()
	if ended, err := b.s.Knowledge.EndDocuments(t.Context(), 10); err != nil || len(ended) != 3 {
		t.Errorf("ended %v, %v", ended, err)
	}
	for doc, want := range map[string]domain.DocumentError{never: knowledgedb.DocumentNotProcessed, put: broken, lost: knowledgedb.DocumentWorkerLost} {
		if got := b.wantDocument(doc, domain.DocumentFailed, want.Code); got.Error == nil || *got.Error != want {
			t.Errorf("%+v, want %v", got.Error, want)
		}
	}
	if kept, err := b.s.Knowledge.PostponeDocument(t.Context(), held, broken, 0); err != nil || !kept {
		t.Fatalf("postponing: %v, %v", kept, err)
	}
	if got := b.wantDocument(living, domain.DocumentFailed, "no time is left"); got.Error == nil || *got.Error != broken {
		t.Errorf("%+v", got.Error)
	}
}

func TestProgressAndEndOfADocument(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	doc := b.document([]byte("long")).ID
	held := b.claimDocument()
	pages := 7
	for done := range 3 {
		if kept, err := b.s.Knowledge.AddChunks(t.Context(), held, nil, "", &pages, done); err != nil || !kept {
			t.Fatal(kept, err)
		}
	}
	if got := b.wantDocument(doc, domain.DocumentProcessing, "halfway"); got.Done != 2 || got.Pages == nil || *got.Pages != 7 {
		t.Errorf("%+v", got)
	}
	content, kept, err := b.s.Knowledge.DocumentContent(t.Context(), held)
	if err != nil || !kept {
		t.Fatal(kept, err)
	}
	if got := readAll(t, content); got != "long" {
		t.Errorf("content %q", got)
	}
	done := knowledgedb.FinishedDocument{MIMEType: "application/pdf", Title: "T", Language: "de", Pages: &pages, Notes: []string{"one page was empty."}, Model: "m"}
	if kept, err := b.s.Knowledge.FinishDocument(t.Context(), held, done); err != nil || !kept {
		t.Fatal(kept, err)
	}
	got := b.wantDocument(doc, domain.DocumentReady, "at the end")
	if got.MIMEType != done.MIMEType || got.Language != "de" || got.Done != 7 || got.Chunks != 0 || !slices.Equal(got.Notes, done.Notes) || got.Error != nil {
		t.Errorf("%+v", got)
	}
	if _, kept, err := b.s.Knowledge.DocumentContent(t.Context(), held); err != nil || kept {
		t.Errorf("content of an unclaimed one: %v, %v", kept, err)
	}
}

func TestContentsThatAddressesGive(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	doc := b.add(knowledgedb.NewDocument{Name: "page", URL: "https://example.com/"})[0].Document.ID
	held := b.claimDocument()
	if _, kept, err := b.s.Knowledge.DocumentContent(t.Context(), held); err != nil || kept {
		t.Errorf("nothing was fetched: %v, %v", kept, err)
	}
	limits := knowledgedb.DocumentLimits{Documents: 1, Bytes: 10}
	set := func(content string) (bool, error) {
		return b.s.Knowledge.SetDocumentContent(t.Context(), held, b.upload([]byte(content)), "page.html", "text/html", limits)
	}
	for _, content := range []string{"first", "first", "second"} {
		if kept, err := set(content); err != nil || !kept {
			t.Fatalf("%s: %v, %v", content, kept, err)
		}
		b.wantOriginal(doc, []byte(content))
		b.wantStored(content, "1 contents 1 chunks 0 files")
	}
	if kept, err := set("more than there is room for"); !errors.Is(err, knowledgedb.ErrDocumentsFull) || kept {
		t.Errorf("too much: %v, %v", kept, err)
	}
	held.Fence++
	if kept, err := set("another's"); err != nil || kept {
		t.Errorf("of another's: %v, %v", kept, err)
	}
	b.wantStored("in the end", "1 contents 1 chunks 0 files")
	if got := b.wantDocument(doc, domain.DocumentProcessing, "fetched"); got.Name != "page.html" || got.MIMEType != "text/html" || got.Bytes != 6 {
		t.Errorf("%+v", got)
	}
}

// The counts of shared terms stay exact while documents are finished, deleted and retried
// concurrently.
func TestTermsAreCountedExactly(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	var wg sync.WaitGroup
	for w := range 4 {
		for i := range 6 {
			b.document(fmt.Appendf(nil, "%d %d", w, i))
		}
	}
	for range 4 {
		wg.Go(func() {
			for {
				claimed, err := b.s.Knowledge.ClaimDocuments(t.Context(), knowledgedb.DocumentClaim{Max: 1})
				if err != nil || len(claimed) == 0 {
					return
				}
				a := &attempt{testEnv: b, held: claimed[0].LeasedDocument, words: []string{"x" + claimed[0].ID[4:8], "same"}}
				for _, step := range []string{"0", "1", "finish"} {
					if kept, err := a.step(step); err != nil || !kept {
						t.Errorf("%s: %v, %v", step, kept, err)
					}
				}
				if claimed[0].Attempts == 1 && claimed[0].Document.SHA256 != nil && (*claimed[0].Document.SHA256)[0] < '8' {
					if _, err := b.s.Knowledge.DeleteDocument(t.Context(), b.org, a.held.ID); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	b.wantCounted("in the end")
	for _, doc := range texts(t, b.raw, `SELECT id FROM documents WHERE status = 'ready'`) {
		b.deleteDocument(doc)
	}
	if left := texts(t, b.raw, `SELECT term FROM knowledge_terms UNION ALL SELECT document_id FROM indexed_documents`); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func readAll(t *testing.T, r io.ReadCloser) string {
	t.Helper()
	defer func() { _ = r.Close() }()
	out, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
