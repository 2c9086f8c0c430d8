package ingest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"parley/shared/domain"
	"parley/shared/secrets"
	"parley/shared/store"
	"parley/shared/store/knowledgedb"
	"parley/shared/store/lease"
	"parley/workers/internal/analysis"
	"parley/workers/internal/document"
	"parley/workers/internal/llm"
)

func TestADocumentBecomesReady(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t)
	sent := r.send(r.org, "keepers-log.txt", pages(300))
	r.bus.PublishJobs(*sent.Job)
	r.start(plain)
	d := r.awaitStatus(sent.Document.ID, domain.DocumentReady)
	chunks := r.count(`SELECT count(*) FROM document_chunks WHERE document_id = $1`, d.ID)
	if d.Error != nil || d.Pages == nil || *d.Pages != 300 || d.Done != 300 || d.Language != "en" || d.MIMEType != "text/x-pages" || d.Chunks != chunks || chunks < 300 || len(d.Notes) != 1 {
		t.Errorf("%+v with %d chunks", d, chunks)
	}
	if n := r.count(`SELECT count(DISTINCT page) FROM document_chunks WHERE document_id = $1`, d.ID); n != 300 {
		t.Errorf("chunks are of %d pages", n)
	}
	if n := r.count(`SELECT count(DISTINCT n) FROM document_chunks WHERE document_id = $1 AND n < $2`, d.ID, chunks); n != chunks {
		t.Errorf("chunks are not numbered one after another: %d of %d", n, chunks)
	}
	var words []knowledgedb.QueryWord
	for _, w := range analysis.Query("keeper 299") {
		words = append(words, knowledgedb.QueryWord(w))
	}
	hits, err := r.store.Knowledge.SearchText(t.Context(), knowledgedb.SearchScope{OrganizationID: r.org}, words, 5)
	if err != nil || len(hits) == 0 {
		t.Fatalf("%v, %v", hits, err)
	}
	found, err := r.store.Knowledge.Passages(t.Context(), r.org, []int64{hits[0].ChunkID})
	if err != nil || len(found) != 1 || *found[0].Page != 299 || !strings.Contains(found[0].Text, "number 299 has") || found[0].Headings[0] != "Chapter 299" {
		t.Errorf("%+v, %v", found, err)
	}
	r.exec(`UPDATE documents SET name = name`) // blocks if another transaction still has a lock on a document's row
	if n := r.count(`SELECT count(*) FROM documents WHERE lease_until IS NOT NULL`); n != 0 {
		t.Errorf("%d documents are still claimed", n)
	}
}

func TestALostJobMessageIsNoMatter(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t)
	r.start(plain)
	first := r.send(r.org, "first.txt", "The first one.")
	r.awaitStatus(first.Document.ID, domain.DocumentReady)
	second := r.send(r.org, "second.txt", "The second one, while the worker rests.")
	r.awaitStatus(second.Document.ID, domain.DocumentReady)
}

// TestAnotherAttemptAfterALostLease pauses a worker in the middle of a document until the worker's
// lease has expired and another worker has indexed the document. Later writes of the first worker
// have no effect.
func TestAnotherAttemptAfterALostLease(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t)
	r.ofAnOldServer()
	sent := r.send(r.org, "log.txt", pages(20))
	frozen, thaw, thawed := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	stopFirst := r.start(func(ctx context.Context, from Source, each func(document.Event) error) (document.Info, error) {
		reported := 0
		info, err := plain(ctx, from, func(e document.Event) error {
			if reported++; reported == 60 {
				close(frozen)
				<-thaw
			}
			return each(e)
		})
		thawed <- err
		return info, err
	}, func(c *Config, _ *Deps) { c.Concurrency, c.Drain = 1, time.Minute })
	<-frozen
	r.await(r.org, sent.Document.ID, "begun", func(d domain.Document) bool { return d.Done > 0 })
	r.loseLease(sent.Document.ID)
	r.start(plain)
	d := r.awaitStatus(sent.Document.ID, domain.DocumentReady)
	close(thaw)
	if err := <-thawed; err != nil && !errors.Is(err, errTaken) {
		t.Error(err)
	}
	stopFirst()
	after := r.awaitStatus(d.ID, domain.DocumentReady)
	chunks := r.count(`SELECT count(*) FROM document_chunks WHERE document_id = $1`, d.ID)
	if chunks != d.Chunks || after.UpdatedAt != d.UpdatedAt || chunks < 20 {
		t.Errorf("%d chunks of %d, %+v and then %+v", chunks, d.Chunks, d, after)
	}
	if n := r.count(`SELECT coalesce(max(chunks), 0) FROM knowledge_terms WHERE org_id = $1 AND term = 'log'`, r.org); n != chunks {
		t.Errorf("the document's name is counted in %d of %d chunks", n, chunks)
	}
}

// TestPoison checks a document on which every worker loses its lease, as if the document crashed
// each worker.
func TestPoison(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t)
	r.ofAnOldServer()
	sent := r.send(r.org, "poison.txt", "Whoever reads this dies.")
	began := make(chan struct{}, 16)
	r.start(func(ctx context.Context, _ Source, _ func(document.Event) error) (document.Info, error) {
		began <- struct{}{}
		<-ctx.Done()
		return document.Info{}, context.Cause(ctx)
	}, func(c *Config, _ *Deps) { c.Concurrency = 8 })
	for range lease.MaxDeaths {
		<-began
		r.loseLease(sent.Document.ID)
		if _, err := r.store.Knowledge.EndDocuments(t.Context(), 10); err != nil {
			t.Fatal(err)
		}
	}
	d := r.awaitStatus(sent.Document.ID, domain.DocumentFailed)
	if d.Error == nil || d.Error.Code != string(document.WorkerLost) {
		t.Errorf("%+v", d.Error)
	}
	select {
	case <-began:
		t.Error("the failed document is read once more")
	default:
	}
}

func TestACauseThatMayPassPostpones(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t)
	sent := r.send(r.org, "later.txt", "Better late than never.")
	late := r.send(r.org, "never.txt", "Never.")
	r.exec(`UPDATE documents SET deadline = clock_timestamp() + interval '10 milliseconds' WHERE id = $1`, late.Document.ID)
	var calls atomic.Int32
	away := &document.Failure{Code: document.Internal, Message: "Not now.", Retry: true}
	r.start(func(ctx context.Context, from Source, each func(document.Event) error) (document.Info, error) {
		if from.Name == "never.txt" || calls.Add(1) == 1 {
			return document.Info{}, away
		}
		return plain(ctx, from, each)
	})
	r.awaitPostponed(sent.Document.ID, away.Code)
	d := r.awaitStatus(sent.Document.ID, domain.DocumentReady)
	if d.Error != nil || calls.Load() != 2 {
		t.Errorf("%+v after %d calls", d.Error, calls.Load())
	}
	if _, err := r.store.Knowledge.EndDocuments(t.Context(), 10); err != nil { // end the document whose attempts are used up
		t.Fatal(err)
	}
	if d = r.awaitStatus(late.Document.ID, domain.DocumentFailed); d.Error == nil || d.Error.Code != string(away.Code) && d.Error.Code != string(document.NotProcessed) {
		t.Errorf("%+v", d)
	}
}

func TestAWorkerThatStopsGivesItsDocumentsBack(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t)
	sent := r.send(r.org, "half.txt", pages(3))
	began := make(chan struct{})
	stop := r.start(func(ctx context.Context, from Source, each func(document.Event) error) (document.Info, error) {
		if _, err := plain(ctx, from, each); err != nil {
			return document.Info{}, err
		}
		close(began)
		<-ctx.Done()
		return document.Info{}, context.Cause(ctx)
	})
	<-began
	stop()
	d := r.awaitStatus(sent.Document.ID, domain.DocumentQueued)
	if attempts := r.count(`SELECT attempts + deaths FROM documents WHERE id = $1`, d.ID); attempts != 0 || d.Error != nil {
		t.Errorf("%d attempts, %+v", attempts, d.Error)
	}
	r.start(plain)
	if d = r.awaitStatus(d.ID, domain.DocumentReady); d.Chunks != 3 {
		t.Errorf("%+v", d)
	}
}

// TestOneOrganizationsFloodDelaysNoOther checks that a few documents of an organization become
// ready quickly after another organization has sent many.
func TestOneOrganizationsFloodDelaysNoOther(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t)
	other := r.organization()
	for n := range 80 {
		r.send(r.org, fmt.Sprintf("flood-%d.txt", n), fmt.Sprint("flood ", n))
	}
	var drops []string
	for n := range 3 {
		drops = append(drops, r.send(other, fmt.Sprintf("drop-%d.txt", n), fmt.Sprint("drop ", n)).Document.ID)
	}
	var mu sync.Mutex
	var order []string
	r.start(func(ctx context.Context, from Source, each func(document.Event) error) (document.Info, error) {
		mu.Lock()
		order = append(order, from.Name[:4])
		mu.Unlock()
		return plain(ctx, from, each)
	})
	for _, drop := range drops { // two documents are read at the same time, so their order may be reversed
		r.await(other, drop, "ready", func(d domain.Document) bool { return d.Status == domain.DocumentReady })
	}
	mu.Lock()
	defer mu.Unlock()
	read, floods := 0, 0
	for _, name := range order {
		switch {
		case name == "drop":
			read++
		case read < 3:
			floods++
		}
	}
	// Half of the claims choose documents at random. With a probability of one in four million,
	// more than 70 documents of the flood are read before the third drop.
	if read != 3 || floods > 70 {
		t.Errorf("the other organization waits for its turn: %v", order)
	}
}

// TestOneOrganizationsSlowDocumentsLeaveRoom checks that an organization gets a slot after another
// organization has sent more endless documents than there are slots.
func TestOneOrganizationsSlowDocumentsLeaveRoom(t *testing.T) {
	t.Parallel()
	for _, concurrency := range []int{2, 3} {
		r := newTestEnv(t)
		other := r.organization()
		for n := range 6 {
			r.send(r.org, fmt.Sprintf("slow-%d.txt", n), fmt.Sprint("slow ", n))
		}
		var slow atomic.Int32
		began := make(chan struct{}, 6)
		stop := r.start(func(ctx context.Context, from Source, each func(document.Event) error) (document.Info, error) {
			if !strings.HasPrefix(from.Name, "slow") {
				return plain(ctx, from, each)
			}
			slow.Add(1)
			began <- struct{}{}
			<-ctx.Done()
			return document.Info{}, context.Cause(ctx)
		}, func(c *Config, _ *Deps) { c.Concurrency = concurrency })
		for range concurrency - 1 {
			<-began
		}
		for n := range 3 {
			quick := r.send(other, fmt.Sprintf("quick-%d.txt", n), fmt.Sprint("quick ", n))
			r.bus.PublishJobs(*quick.Job)
			r.await(other, quick.Document.ID, "ready", func(d domain.Document) bool { return d.Status == domain.DocumentReady })
		}
		if n := int(slow.Load()); n != concurrency-1 {
			t.Errorf("%d slow documents at a time, of %d", n, concurrency)
		}
		stop()
	}
}

// TestSlowDocumentsOfManyOrganizationsLeaveRoom checks that short documents of an organization
// become ready while five other organizations send endless documents.
func TestSlowDocumentsOfManyOrganizationsLeaveRoom(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t)
	for org := range 5 {
		slow := r.organization()
		for n := range 3 {
			r.send(slow, fmt.Sprintf("slow-%d-%d.txt", org, n), fmt.Sprint("slow ", org, n))
		}
	}
	began := make(chan struct{}, 100)
	r.start(func(ctx context.Context, from Source, each func(document.Event) error) (document.Info, error) {
		if !strings.HasPrefix(from.Name, "slow") {
			return plain(ctx, from, each)
		}
		began <- struct{}{}
		<-ctx.Done()
		return document.Info{}, context.Cause(ctx)
	}, func(c *Config, _ *Deps) { c.Concurrency = 3 })
	for range 3 {
		<-began
	}
	for n := range 10 {
		quick := r.send(r.org, fmt.Sprintf("quick-%d.txt", n), fmt.Sprint("quick ", n))
		r.bus.PublishJobs(*quick.Job)
		r.awaitStatus(quick.Document.ID, domain.DocumentReady)
	}
	if n := r.count(`SELECT count(*) FROM documents WHERE status = 'queued' AND attempts <> 0`); n != 0 {
		t.Errorf("leaving the last slot counts as an attempt of %d documents", n)
	}
}

// TestAnOrganizationAtItsShareDoesNotRest checks that each document of a single organization begins
// as soon as the previous one has finished.
func TestAnOrganizationAtItsShareDoesNotRest(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t)
	var last string
	for n := range 40 {
		last = r.send(r.org, fmt.Sprintf("%d.txt", n), fmt.Sprint("number ", n)).Document.ID
	}
	r.start(plain)
	r.awaitStatus(last, domain.DocumentReady) // if there were a pause after each document, this would take 40 s, and the test would fail
}

func TestFailuresAreKept(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t)
	failures := map[string]*document.Failure{}
	for _, f := range []*document.Failure{
		{Code: document.Encrypted, Message: "It needs a password."},
		{Code: document.NoOCR, Message: "There are only pictures."},
		{Code: document.LimitReached, Message: "Reading it takes more than 2 minutes."},
	} {
		failures[r.send(r.org, string(f.Code), string(f.Code)).Document.ID] = f
	}
	failures[r.send(r.org, "empty", "\n").Document.ID] = &document.Failure{Code: document.NoText, Message: "The document has no text."}
	failures[r.send(r.org, "panic", "panic").Document.ID] = &document.Failure{Code: document.Internal, Message: "Processing the document failed with an internal error."}
	byName := map[string]*document.Failure{}
	for _, f := range failures {
		byName[string(f.Code)] = f
	}
	r.start(func(ctx context.Context, from Source, each func(document.Event) error) (document.Info, error) {
		switch from.Name {
		case "empty":
			return plain(ctx, from, each)
		case "panic":
			panic("at what it says: secret-of-the-document")
		}
		block := document.Block{Kind: document.Paragraph, Text: "Something was read already."}
		if err := each(document.Event{Block: &block}); err != nil {
			return document.Info{}, err
		}
		return document.Info{}, byName[from.Name]
	}, func(_ *Config, d *Deps) { d.Log = d.Log.Output(noSecrets{t}) })
	for documentID, want := range failures {
		d := r.awaitStatus(documentID, domain.DocumentFailed)
		if d.Error == nil || d.Error.Code != string(want.Code) || d.Error.Message != want.Message || d.Chunks != 0 {
			t.Errorf("%s: %+v", want.Code, d.Error)
		}
	}
	if n := r.count(`SELECT count(*) FROM document_chunks`); n != 0 {
		t.Errorf("%d chunks of documents that failed", n)
	}
}

// The document is encrypted with a key that the workers no longer have.
func TestAKeyThatIsGone(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t)
	opened := func(key string) *store.Store {
		box, err := secrets.NewBox(strings.Repeat(key, 32))
		if err != nil {
			t.Fatal(err)
		}
		st, err := store.Open(r.dsn, 4)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = st.Close() })
		st.Seals.SealContents(box)
		return st
	}
	now := opened("cd")
	r.store = opened("ab")
	sent := r.send(r.org, "sealed.txt", "Nobody reads this.")
	r.start(plain, func(_ *Config, d *Deps) { d.Contents, d.Uploads, d.Log = now.Knowledge, now.Blobs, zerolog.Nop() })
	d := r.awaitStatus(sent.Document.ID, domain.DocumentFailed)
	if attempts := r.count(`SELECT attempts FROM documents WHERE id = $1`, d.ID); attempts != 1 || d.Error == nil ||
		d.Error.Code != string(document.Internal) || !strings.Contains(d.Error.Message, "The stored document cannot be decrypted") {
		t.Errorf("%+v after %d attempts", d.Error, attempts)
	}
}

// noSecrets is a log writer that fails the test if a log entry contains text from documents.
type noSecrets struct{ t *testing.T }

func (l noSecrets) Write(p []byte) (int, error) {
	if strings.Contains(string(p), "secret-of-the-document") {
		l.t.Errorf("logged: %s", p)
	}
	return len(p), nil
}

// embedding is an embeddings service whose first requests fail.
type embedding struct {
	failures atomic.Int32
	err      error
	texts    sync.Map
}

func (*embedding) Model() string { return "openai/test" }

func (e *embedding) Embed(_ context.Context, texts []string) ([][]float32, error) {
	if e.failures.Add(-1) >= 0 {
		return nil, e.err
	}
	vectors := make([][]float32, len(texts))
	for n, text := range texts {
		e.texts.Store(text, true)
		vectors[n] = []float32{0.6, 0.8}
	}
	return vectors, nil
}

func TestEmbeddings(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t)
	service := &embedding{err: llm.NewError(llm.KindUnavailable, nil)}
	service.failures.Store(1)
	sent := r.send(r.org, "log.txt", pages(450))
	r.start(plain, func(_ *Config, d *Deps) { d.Embedder = service })
	r.awaitPostponed(sent.Document.ID, document.NoEmbeddings)
	d := r.awaitStatus(sent.Document.ID, domain.DocumentReady)
	if n := r.count(`SELECT count(*) FROM document_vectors WHERE document_id = $1 AND model = 'openai/test'`, d.ID); n != d.Chunks || n < 450 || d.Done != 450 {
		t.Errorf("%d vectors of %+v", n, d)
	}
	under := false
	service.texts.Range(func(text, _ any) bool {
		under = strings.HasPrefix(text.(string), "log\nChapter 7\n\nThe lighthouse keeper number 7 ")
		return !under
	})
	if !under {
		t.Error("no vector includes a passage's headings")
	}
	service.err = llm.NewError(llm.KindAuth, nil)
	service.failures.Store(1000)
	refused := r.send(r.org, "refused.txt", "Refused.")
	if d = r.awaitStatus(refused.Document.ID, domain.DocumentFailed); d.Error == nil || d.Error.Code != string(document.NoEmbeddings) {
		t.Errorf("%+v", d.Error)
	}
}
