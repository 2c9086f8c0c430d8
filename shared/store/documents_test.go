package store_test

import (
	"encoding/hex"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"

	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/store/blobdb"
	"parley/shared/store/knowledgedb"
)

// process makes a document ready, with two chunks and a new fence.
func (b *testEnv) process(documentID string) {
	b.Helper()
	b.exec(`UPDATE documents SET status = 'processing', fence = fence + 1, lease_until = clock_timestamp() + interval '1 minute' WHERE id = $1`, documentID)
	b.index(b.held(documentID))
}

// held returns a document with its current fence.
func (b *testEnv) held(documentID string) knowledgedb.LeasedDocument {
	b.Helper()
	held := knowledgedb.LeasedDocument{OrganizationID: b.org, ID: documentID}
	if err := b.raw.QueryRowContext(b.Context(), `SELECT fence FROM documents WHERE id = $1`, documentID).Scan(&held.Fence); err != nil {
		b.Fatal(err)
	}
	return held
}

// index writes the rows that a worker writes when it processes a document.
func (b *testEnv) index(held knowledgedb.LeasedDocument) {
	b.Helper()
	var chunks []knowledgedb.NewChunk
	for n, text := range []string{"first " + canary, "second " + canary} {
		chunks = append(chunks, knowledgedb.NewChunk{
			Passage: domain.Passage{Chunk: n, Headings: []string{canary}, Text: text, EndIndex: len(text)},
			Terms:   []knowledgedb.Term{{Lexeme: "second", Positions: []int{1}}, {Lexeme: canary, Positions: []int{2}}},
			Vector:  []float32{1, 0},
		})
	}
	if kept, err := b.s.Knowledge.AddChunks(b.Context(), held, chunks, canary, nil, 0); err != nil || !kept {
		b.Fatalf("indexing: %v, %v", kept, err)
	}
	done := knowledgedb.FinishedDocument{MIMEType: "text/plain", Title: canary, Language: "en", Notes: []string{canary}, Model: canary, Terms: termsIn(chunks)}
	if kept, err := b.s.Knowledge.FinishDocument(b.Context(), held, done); err != nil || !kept {
		b.Fatalf("finishing: %v, %v", kept, err)
	}
}

// indexed counts chunks, vectors, and terms of ready documents.
func (b *testEnv) indexed() string {
	b.Helper()
	return b.text(`SELECT format('%s chunks %s vectors %s terms', (SELECT count(*) FROM document_chunks), (SELECT count(*) FROM document_vectors),
		(SELECT count(*) FROM knowledge_terms WHERE term <> ''))`)
}

func (b *testEnv) wantIndexed(what, want string) {
	b.Helper()
	if got := b.indexed(); got != want {
		b.Errorf("%s: %s, want %s", what, got, want)
	}
}

func (b *testEnv) wantDocument(documentID string, status domain.DocumentStatus, what string) domain.Document {
	b.Helper()
	doc, err := b.s.Knowledge.DocumentByID(b.Context(), b.org, documentID)
	if err != nil || doc.Status != status {
		b.Errorf("%s: %+v, %v; want %s", what, doc, err, status)
	}
	return doc
}

func (b *testEnv) fail(documentID string) {
	b.Helper()
	b.exec(`UPDATE documents SET status = 'failed', error_code = 'no_text', error_message = 'none' WHERE id = $1`, documentID)
}

func TestADocumentIsWhatWasSent(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	content := b.upload([]byte("content"))
	out := b.add(
		knowledgedb.NewDocument{Name: "Ärger \"1\".md", MIMEType: "text/markdown", Content: &content, Metadata: map[string]string{"team": "ops", "": "x"}},
		knowledgedb.NewDocument{Name: "page", URL: "https://example.com/a?b=c"},
	)
	for i, q := range out {
		doc := q.Document
		again := b.wantDocument(doc.ID, domain.DocumentQueued, "new")
		if doc.CreatedAt != again.CreatedAt || doc.Error != nil || doc.Notes == nil || doc.Metadata == nil || doc.Pages != nil {
			t.Errorf("%d: %+v, %+v", i, doc, again)
		}
		want := domain.Job{RunID: doc.ID, OrganizationID: b.org, Lane: domain.LaneIngest, Dedupe: doc.ID, DispatchNo: 1}
		if q.Job == nil || *q.Job != want {
			t.Errorf("%d: job %+v", i, q.Job)
		}
	}
	one, two := out[0].Document, out[1].Document
	if one.Name != "Ärger \"1\".md" || one.MIMEType != "text/markdown" || one.Bytes != 7 || *one.SHA256 != hex.EncodeToString(content.Hash) ||
		one.URL != nil || !maps.Equal(one.Metadata, map[string]string{"team": "ops", "": "x"}) {
		t.Errorf("%+v", one)
	}
	if two.SHA256 != nil || two.Bytes != 0 || *two.URL != "https://example.com/a?b=c" || len(two.Metadata) != 0 {
		t.Errorf("%+v", two)
	}
	if _, _, err := b.s.Knowledge.OpenDocument(t.Context(), b.org, two.ID); !isNotFound(err) {
		t.Errorf("opened what is to be fetched: %v", err)
	}
	_, err := b.s.Knowledge.DocumentByID(t.Context(), b.org, id.New(id.Document))
	wantCode(t, err, apierr.NotFound)
}

func isNotFound(err error) bool {
	coded, ok := errors.AsType[*apierr.Error](err)
	return ok && coded.Code == apierr.NotFound
}

func TestTheSameSentAgain(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	content := b.upload([]byte("same"))
	send := func() knowledgedb.QueuedDocument {
		return b.add(knowledgedb.NewDocument{Name: "later", Content: &content, URL: ""})[0]
	}
	first := b.add(knowledgedb.NewDocument{Name: "first", Content: &content})[0].Document
	if again := send(); again.Document.ID != first.ID || again.Document.Name != "first" || again.Job != nil {
		t.Errorf("queued: %+v", again)
	}
	b.process(first.ID)
	if again := send(); again.Document.ID != first.ID || again.Document.Status != domain.DocumentReady || again.Job != nil {
		t.Errorf("ready: %+v", again)
	}
	b.wantIndexed("ready", "2 chunks 2 vectors 2 terms")
	b.fail(first.ID)
	again := send()
	if again.Document.ID != first.ID || again.Document.Status != domain.DocumentQueued || again.Job == nil || again.Job.DispatchNo != 2 || again.Document.Error != nil {
		t.Errorf("failed: %+v", again)
	}
	b.wantIndexed("failed", "0 chunks 0 vectors 0 terms")

	// A single call adds the same document twice, together with other documents.
	other := b.upload([]byte("other"))
	b.fail(first.ID)
	out := b.add(knowledgedb.NewDocument{Name: "a", Content: &other}, knowledgedb.NewDocument{Name: "b", Content: &content},
		knowledgedb.NewDocument{Name: "c", Content: &other}, knowledgedb.NewDocument{Name: "d", Content: &content})
	if out[0].Document.ID != out[2].Document.ID || out[0].Job == nil || out[2].Job != nil || out[2].Document.Name != "a" ||
		out[1].Document.ID != first.ID || out[1].Job == nil || out[3].Document.ID != first.ID || out[3].Job != nil {
		t.Errorf("%+v", out)
	}
	b.wantStored("in the end", "2 contents 2 chunks 0 files")
}

// If a document's URL is sent again, its content is fetched again, unless the document is already
// queued.
func TestTheSameURLAgain(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	send := func() knowledgedb.QueuedDocument {
		return b.add(knowledgedb.NewDocument{Name: "page", URL: "https://example.com/"})[0]
	}
	first := send()
	if again := send(); again.Document.ID != first.Document.ID || again.Job != nil {
		t.Errorf("queued: %+v", again)
	}
	fetched := b.upload([]byte("fetched"))
	b.exec(`UPDATE documents SET hash = $1, bytes = 7`, fetched.Hash)
	before := b.held(first.Document.ID)
	b.process(first.Document.ID)
	again := send()
	if again.Document.ID != first.Document.ID || again.Job == nil || again.Document.SHA256 != nil || again.Document.Bytes != 0 {
		t.Errorf("ready: %+v", again)
	}
	b.wantStored("to be fetched", "0 contents 0 chunks 0 files")
	b.wantIndexed("to be fetched", "0 chunks 0 vectors 0 terms")
	if now := b.held(first.Document.ID); now.Fence <= before.Fence+1 {
		t.Errorf("fence %d after %d", now.Fence, before.Fence)
	}
	b.exec(`UPDATE documents SET status = 'processing'`)
	if again := send(); again.Job == nil || again.Job.DispatchNo != 3 {
		t.Errorf("while claimed: %+v", again)
	}
}

func TestTheSameContentSentConcurrentlyIsOneDocument(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	content := b.upload([]byte("same"))
	var all sync.WaitGroup
	var mu sync.Mutex
	ids, jobs := map[string]bool{}, 0
	for range 8 {
		all.Go(func() {
			out := b.add(knowledgedb.NewDocument{Name: "x", Content: &content}, knowledgedb.NewDocument{Name: "y", URL: "https://example.com/"})
			mu.Lock()
			defer mu.Unlock()
			for _, q := range out {
				ids[q.Document.ID] = true
				if q.Job != nil {
					jobs++
				}
			}
		})
	}
	all.Wait()
	if len(ids) != 2 || jobs != 2 {
		t.Errorf("documents %v, %d jobs", ids, jobs)
	}
}

func TestDocumentsHaveLimits(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	seed := byte(0)
	add := func(limits knowledgedb.DocumentLimits, sizes ...int) error {
		var docs []knowledgedb.NewDocument
		for _, size := range sizes {
			seed++
			content := b.upload(randomBytes(size, seed))
			docs = append(docs, knowledgedb.NewDocument{ID: id.New(id.Document), Name: "x", Content: &content})
		}
		_, err := b.s.Knowledge.AddDocuments(t.Context(), b.org, docs, limits)
		return err
	}
	three, much := knowledgedb.DocumentLimits{Documents: 3}, knowledgedb.DocumentLimits{Bytes: 1000}
	if err := errors.Join(add(three, 100, 100), add(much, 800)); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"a fourth": add(three, 1), "a byte more": add(much, 1), "one of two": add(knowledgedb.DocumentLimits{Documents: 4}, 1, 1),
		"both": add(knowledgedb.DocumentLimits{Documents: 9, Bytes: 1010}, 5, 6),
	} {
		if !errors.Is(err, knowledgedb.ErrDocumentsFull) {
			t.Errorf("%s: %v", what, err)
		}
	}
	b.wantStored("when it is full", "3 contents 3 chunks 0 files") // contents of rejected documents are also removed
	same, seedFor := b.upload(randomBytes(800, 3)), knowledgedb.NewDocument{ID: id.New(id.Document)}
	seedFor.Content = &same
	if out, err := b.s.Knowledge.AddDocuments(t.Context(), b.org, []knowledgedb.NewDocument{seedFor}, knowledgedb.DocumentLimits{Documents: 1, Bytes: 1}); err != nil || out[0].Job != nil {
		t.Errorf("what is there needs no room: %+v, %v", out, err)
	}
	one := b.document([]byte("x")).ID
	large := b.upload(randomBytes(500, 99))
	if _, err := b.s.Knowledge.ReplaceDocument(t.Context(), b.org, one, knowledgedb.NewDocument{Content: &large}, much); !errors.Is(err, knowledgedb.ErrDocumentsFull) {
		t.Errorf("replaced by too much: %v", err)
	}
	b.wantStored("nothing more", "4 contents 4 chunks 0 files")
	small := b.upload(nil)
	if _, err := b.s.Knowledge.ReplaceDocument(t.Context(), b.org, one, knowledgedb.NewDocument{Content: &small}, much); err != nil {
		t.Errorf("replaced by less: %v", err)
	}
	for what, wrong := range map[string]knowledgedb.NewDocument{"neither": {}, "both": {Content: &small, URL: "https://example.com/"}} {
		_, err := b.s.Knowledge.AddDocuments(t.Context(), b.org, []knowledgedb.NewDocument{wrong}, much)
		_, other := b.s.Knowledge.ReplaceDocument(t.Context(), b.org, one, wrong, much)
		if err == nil || other == nil {
			t.Errorf("%s: %v, %v", what, err, other)
		}
	}
	b.exec(`DELETE FROM documents`)
	b.must(add(knowledgedb.DocumentLimits{Documents: 1, Bytes: 1}, 1))
}

// Quotas are exact under concurrent additions, and documents do not count as files of runs.
func TestLimitsAreCountedApart(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	var all sync.WaitGroup
	for n := range 6 {
		content := b.upload(randomBytes(100, byte(n)))
		all.Go(func() {
			doc := knowledgedb.NewDocument{ID: id.New(id.Document), Content: &content}
			if _, err := b.s.Knowledge.AddDocuments(t.Context(), b.org, []knowledgedb.NewDocument{doc}, knowledgedb.DocumentLimits{Bytes: 350}); err != nil && !errors.Is(err, knowledgedb.ErrDocumentsFull) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	b.wantStored("of 350 bytes", "3 contents 3 chunks 0 files")
	b.document(randomBytes(2*mib, 9))
	held, small := b.claimedRun(), []blobdb.NewFile{made("x", "y")}
	if _, kept, err := b.s.Blobs.KeepFiles(t.Context(), held, "c", small, nil, 5000); err != nil || !kept {
		t.Errorf("a small file beside documents: %v, %v", kept, err)
	}
	if _, _, err := b.s.Blobs.KeepFiles(t.Context(), held, "d", []blobdb.NewFile{{Name: "z", Content: randomBytes(5000, 1)}}, nil, 9000); !errors.Is(err, blobdb.ErrFilesFull) {
		t.Errorf("files beyond their limit: %v", err)
	}
}

func TestReplacingADocument(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	ctx := t.Context()
	none := knowledgedb.DocumentLimits{}
	first := b.add(knowledgedb.NewDocument{Name: "first", Content: new(b.upload([]byte("one"))), Metadata: map[string]string{"a": "b"}})[0].Document
	other := b.document([]byte("other"))
	b.process(first.ID)
	stale := b.held(first.ID)
	out, err := b.s.Knowledge.ReplaceDocument(ctx, b.org, first.ID, knowledgedb.NewDocument{Content: new(b.upload([]byte("two"))), MIMEType: "text/x"}, none)
	if err != nil || out.Job == nil || out.Job.DispatchNo != 2 || out.Document.ID != first.ID || out.Document.Name != "first" ||
		out.Document.Metadata["a"] != "b" || out.Document.MIMEType != "text/x" || out.Document.Status != domain.DocumentQueued || out.Document.Chunks != 0 {
		t.Fatalf("%+v, %v", out, err)
	}
	b.wantOriginal(first.ID, []byte("two"))
	b.wantIndexed("replaced", "0 chunks 0 vectors 0 terms")
	b.wantStored("replaced", "2 contents 2 chunks 0 files")
	if kept, err := b.s.Knowledge.AddChunks(ctx, stale, nil, "", nil, 1); err != nil || kept {
		t.Errorf("the holder of the old claim wrote: %v, %v", kept, err)
	}
	_, err = b.s.Knowledge.ReplaceDocument(ctx, b.org, first.ID, knowledgedb.NewDocument{Content: new(b.upload([]byte("other")))}, none)
	if dup, ok := errors.AsType[knowledgedb.ErrDuplicateDocument](err); !ok || dup.ID != other.ID {
		t.Errorf("by what another one is: %v", err)
	}
	out, err = b.s.Knowledge.ReplaceDocument(ctx, b.org, first.ID, knowledgedb.NewDocument{Name: "n", URL: "https://example.com/", Metadata: map[string]string{}}, none)
	if err != nil || out.Document.Name != "n" || len(out.Document.Metadata) != 0 || out.Document.SHA256 != nil || out.Document.Bytes != 0 {
		t.Errorf("by a URL: %+v, %v", out, err)
	}
	_, err = b.s.Knowledge.ReplaceDocument(ctx, b.org, other.ID, knowledgedb.NewDocument{URL: "https://example.com/"}, none)
	if dup, ok := errors.AsType[knowledgedb.ErrDuplicateDocument](err); !ok || dup.ID != first.ID {
		t.Errorf("by the URL of another one: %v", err)
	}
	out, err = b.s.Knowledge.ReplaceDocument(ctx, b.org, first.ID, knowledgedb.NewDocument{Content: new(b.upload([]byte("back")))}, none)
	if err != nil || out.Document.URL != nil || out.Document.Bytes != 4 {
		t.Errorf("back: %+v, %v", out, err)
	}
	out, err = b.s.Knowledge.ReplaceDocument(ctx, b.org, first.ID, knowledgedb.NewDocument{Content: new(b.upload([]byte("back")))}, none)
	if err != nil || out.Job == nil {
		t.Errorf("by itself: %+v, %v", out, err)
	}
	b.wantOriginal(first.ID, []byte("back"))
	b.wantStored("in the end", "2 contents 2 chunks 0 files")
	_, err = b.s.Knowledge.ReplaceDocument(ctx, b.org, id.New(id.Document), knowledgedb.NewDocument{URL: "https://example.com/b"}, none)
	wantCode(t, err, apierr.NotFound)
	gone := blobdb.Upload{Hash: randomBytes(32, 1), Bytes: 3}
	_, err = b.s.Knowledge.ReplaceDocument(ctx, b.org, first.ID, knowledgedb.NewDocument{Content: &gone}, none)
	wantCode(t, err, apierr.Unavailable)
	_, err = b.s.Knowledge.AddDocuments(ctx, b.org, []knowledgedb.NewDocument{{ID: id.New(id.Document), Content: &gone}}, none)
	wantCode(t, err, apierr.Unavailable)
}

func TestEditingAndRetryingADocument(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	ctx := t.Context()
	doc := b.document([]byte("content"))
	got, err := b.s.Knowledge.EditDocument(ctx, b.org, doc.ID, new("renamed"), nil)
	if err != nil || got.Document.Name != "renamed" || got.Document.UpdatedAt.Before(doc.UpdatedAt.Time) || got.Document.Status != doc.Status || got.Job != nil {
		t.Errorf("%+v, %v", got, err)
	}
	got, err = b.s.Knowledge.EditDocument(ctx, b.org, doc.ID, nil, &map[string]string{"k": "v"})
	if err != nil || got.Document.Name != "renamed" || got.Document.Metadata["k"] != "v" || got.Job != nil {
		t.Errorf("%+v, %v", got, err)
	}
	retry := func(what string, queued bool) knowledgedb.QueuedDocument {
		t.Helper()
		out, err := b.s.Knowledge.RetryDocument(ctx, b.org, doc.ID)
		if err != nil || (out.Job != nil) != queued || out.Document.Name != "renamed" || out.Document.Metadata["k"] != "v" {
			t.Errorf("%s: %+v, %v", what, out, err)
		}
		return out
	}
	retry("queued", false)
	b.exec(`UPDATE documents SET status = 'processing'`)
	if out := retry("being processed", false); out.Document.Status != domain.DocumentProcessing {
		t.Errorf("%+v", out)
	}
	b.process(doc.ID)
	b.wantIndexed("read", "2 chunks 2 vectors 2 terms")
	if out := retry("ready", true); out.Document.Status != domain.DocumentQueued || len(out.Document.Notes) != 0 || out.Document.Language != "" {
		t.Errorf("%+v", out)
	}
	b.wantIndexed("read anew", "0 chunks 0 vectors 0 terms")
	b.fail(doc.ID)
	if failed := b.wantDocument(doc.ID, domain.DocumentFailed, "failed"); *failed.Error != (domain.DocumentError{Code: "no_text", Message: "none"}) {
		t.Errorf("%+v", failed.Error)
	}
	retry("failed", true)
	b.wantOriginal(doc.ID, []byte("content"))
	for _, err := range []error{
		func() error { _, err := b.s.Knowledge.EditDocument(ctx, b.org, "doc_x", nil, nil); return err }(),
		func() error { _, err := b.s.Knowledge.RetryDocument(ctx, b.org, "doc_x"); return err }(),
		func() error { _, err := b.s.Knowledge.DeleteDocument(ctx, b.org, "doc_x"); return err }(),
	} {
		if !isNotFound(err) {
			t.Errorf("of none: %v", err)
		}
	}
}

// A document's name is indexed. A renamed document is therefore processed again, even if a worker
// is processing it at that time.
func TestRenamedDocumentIsReadAgain(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	doc := b.document([]byte("content")).ID
	name := func(name string, queued bool) {
		t.Helper()
		out, err := b.s.Knowledge.EditDocument(t.Context(), b.org, doc, &name, nil)
		if err != nil || (out.Job != nil) != queued || queued && out.Document.Status != domain.DocumentQueued || out.Document.Name != name {
			t.Errorf("%s: %+v, %v", name, out, err)
		}
	}
	name("while it waits", false)
	held := b.claimDocument()
	name("being processed", true)
	if kept, err := b.s.Knowledge.AddChunks(t.Context(), held, nil, "", nil, 1); err != nil || kept {
		t.Errorf("the worker that has read the document under its old name wrote: %v, %v", kept, err)
	}
	b.index(b.claimDocument())
	b.wantIndexed("read", "2 chunks 2 vectors 2 terms")
	name("being processed", false)
	b.wantDocument(doc, domain.DocumentReady, "by the name that it has")
	name("ready", true)
	b.wantIndexed("by its old name", "0 chunks 0 vectors 0 terms")
	b.fail(doc)
	name("failed", true)
	b.claimDocument()
}

func TestListingDocuments(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	var ids []string
	for n, name := range []string{"Annual REPORT.pdf", "100%.txt", "report_2.md", "other"} {
		ids = append(ids, b.add(knowledgedb.NewDocument{Name: name, Content: new(b.upload([]byte{byte(n)}))})[0].Document.ID)
	}
	b.fail(ids[0])
	newEnvOn(t, b.s, b.raw, "bob@example.com").document([]byte("theirs"))
	for _, c := range []struct {
		filter knowledgedb.DocumentFilter
		after  string
		limit  int
		want   []int
	}{
		{knowledgedb.DocumentFilter{}, "", 9, []int{3, 2, 1, 0}},
		{knowledgedb.DocumentFilter{}, "", 2, []int{3, 2}},
		{knowledgedb.DocumentFilter{}, ids[2], 2, []int{1, 0}},
		{knowledgedb.DocumentFilter{}, ids[0], 2, nil},
		{knowledgedb.DocumentFilter{Query: "report"}, "", 9, []int{2, 0}},
		{knowledgedb.DocumentFilter{Query: "pdf  annual"}, "", 9, []int{0}},
		{knowledgedb.DocumentFilter{Query: "report other"}, "", 9, nil},
		{knowledgedb.DocumentFilter{Query: "0%"}, "", 9, []int{1}},
		{knowledgedb.DocumentFilter{Query: "t_"}, "", 9, []int{2}},
		{knowledgedb.DocumentFilter{Query: `\`}, "", 9, nil},
		{knowledgedb.DocumentFilter{Status: domain.DocumentFailed}, "", 9, []int{0}},
		{knowledgedb.DocumentFilter{Status: domain.DocumentReady}, "", 9, nil},
		{knowledgedb.DocumentFilter{Status: domain.DocumentQueued, Query: "REPORT"}, "", 9, []int{2}},
	} {
		docs, err := b.s.Knowledge.Documents(t.Context(), b.org, c.filter, c.after, c.limit)
		var got []int
		for _, d := range docs {
			got = append(got, slices.Index(ids, d.ID))
		}
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%+v after %q: %v, %v; want %v", c.filter, c.after, got, err, c.want)
		}
	}
	if err := b.s.CheckSchema(t.Context()); err != nil {
		t.Error(err)
	}
}
