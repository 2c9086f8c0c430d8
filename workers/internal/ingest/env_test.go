package ingest

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"parley/shared/bus"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/outbound"
	"parley/shared/store"
	"parley/shared/store/accountdb"
	"parley/shared/store/knowledgedb"
	"parley/shared/testkit"
	"parley/shared/testkit/running"
	"parley/workers/internal/document"
)

// readFunc is a function type that implements Extractor.
type readFunc func(ctx context.Context, from Source, each func(document.Event) error) (document.Info, error)

func (r readFunc) Read(ctx context.Context, from Source, each func(document.Event) error) (document.Info, error) {
	return r(ctx, from, each)
}

// plain is a reader for tests. In its documents, form feeds separate the pages. A line that begins
// with "# " is a heading, and each other line is a paragraph.
func plain(_ context.Context, from Source, each func(document.Event) error) (document.Info, error) {
	pages := strings.Split(string(from.Content), "\f")
	info := document.Info{MIMEType: "text/x-pages", Title: "T", Pages: len(pages), Notes: []string{"Nothing was left out."}}
	if err := each(document.Event{Pages: &info.Pages}); err != nil {
		return info, err
	}
	for n, page := range pages {
		number := n + 1
		for line := range strings.Lines(page) {
			kind, text := document.Paragraph, strings.TrimSpace(line)
			if after, is := strings.CutPrefix(text, "# "); is {
				kind, text = document.Heading, after
			}
			if text == "" {
				continue
			}
			block := document.Block{Kind: kind, Page: number, Text: text}
			if kind == document.Heading {
				block.Level = 1
			}
			if err := each(document.Event{Block: &block}); err != nil {
				return info, err
			}
		}
		if err := each(document.Event{Done: &number}); err != nil {
			return info, err
		}
	}
	return info, nil
}

// testEnv is a database, a bus, and an organization that has documents.
type testEnv struct {
	*testing.T
	dsn   string
	db    *sql.DB
	store *store.Store
	bus   *bus.Bus
	org   string
	log   zerolog.Logger
}

func newTestEnv(t *testing.T) *testEnv {
	t.Helper()
	dsn := testkit.Postgres(t)
	st, err := store.Open(dsn, 16)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	log := zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.ErrorLevel)
	b, err := bus.Dial(testkit.NATS(t), "test", log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	r := &testEnv{T: t, dsn: dsn, db: testkit.SQL(t, dsn), store: st, bus: b, log: log}
	r.org = r.organization()
	return r
}

func (r *testEnv) organization() string {
	r.Helper()
	account, err := r.store.Accounts.SignUp(r.Context(), accountdb.NewUser{Email: rand.Text() + "@example.com", Name: "a"},
		accountdb.NewLogin{TokenHash: []byte(rand.Text()), ExpiresAt: time.Now().Add(time.Hour)})
	if err != nil {
		r.Fatal(err)
	}
	return account.Organization.ID
}

// send adds a document without publishing a job message.
func (r *testEnv) send(org, name, text string) knowledgedb.QueuedDocument {
	r.Helper()
	content, err := r.store.Blobs.Upload(r.Context(), org, strings.NewReader(text), MaxDocumentBytes)
	if err != nil {
		r.Fatal(err)
	}
	return r.add(org, knowledgedb.NewDocument{ID: id.New(id.Document), Name: name, MIMEType: "text/plain", Content: &content, CreatedBy: "usr_a"})
}

func (r *testEnv) add(org string, d knowledgedb.NewDocument) knowledgedb.QueuedDocument {
	r.Helper()
	queued, err := r.store.Knowledge.AddDocuments(r.Context(), org, []knowledgedb.NewDocument{d}, knowledgedb.DocumentLimits{})
	if err != nil || len(queued) != 1 || queued[0].Job == nil {
		r.Fatalf("%+v, %v", queued, err)
	}
	return queued[0]
}

// start starts an ingester. The returned function stops the ingester and waits until it has ended.
// If the test does not call the function, the ingester is stopped at the end of the test.
func (r *testEnv) start(read readFunc, change ...func(*Config, *Deps)) (stop func()) {
	r.Helper()
	client, err := outbound.New(outbound.Config{})
	if err != nil {
		r.Fatal(err)
	}
	cfg := Config{Concurrency: 2, Drain: 10 * time.Millisecond}
	deps := Deps{
		Claims: r.store.Knowledge, Contents: r.store.Knowledge, Uploads: r.store.Blobs, Index: r.store.Knowledge, Extractor: read, Client: client.HTTP(FetchOptions), Bus: r.bus,
		Metrics: prometheus.NewRegistry(), Log: r.log,
	}
	for _, f := range change {
		f(&cfg, &deps)
	}
	i, err := New(cfg, deps)
	if err != nil {
		r.Fatal(err)
	}
	return running.Start(r, i.Run)
}

// await waits until the document satisfies a condition.
func (r *testEnv) await(org, documentID, what string, is func(domain.Document) bool) domain.Document {
	r.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	over := time.After(testkit.Within(time.Minute))
	for {
		d, err := r.store.Knowledge.DocumentByID(r.Context(), org, documentID)
		if err != nil {
			r.Fatal(err)
		}
		if is(d) {
			return d
		}
		select {
		case <-tick.C:
		case <-over:
			r.Fatalf("the document is not %s: %+v, error %+v", what, d, d.Error)
		}
	}
}

func (r *testEnv) awaitStatus(documentID string, status domain.DocumentStatus) domain.Document {
	r.Helper()
	return r.await(r.org, documentID, string(status), func(d domain.Document) bool { return d.Status == status })
}

// exec runs a statement as the database's owner, who is not restricted by row security.
func (r *testEnv) exec(query string, args ...any) {
	r.Helper()
	if _, err := r.db.ExecContext(r.Context(), query, args...); err != nil {
		r.Fatal(err)
	}
}

// ofAnOldServer makes the database server appear to have started long ago, so that leases can
// expire. Leases do not expire before the server has been running for the duration of a lease.
func (r *testEnv) ofAnOldServer() {
	r.Helper()
	for _, f := range []string{"claim_documents", "hopeless_documents"} {
		var text string
		if err := r.db.QueryRowContext(r.Context(), `SELECT pg_get_functiondef($1::regproc)`, f).Scan(&text); err != nil {
			r.Fatal(err)
		}
		if !strings.Contains(text, "pg_postmaster_start_time()") {
			r.Fatalf("%s does not ask how long the server runs", f)
		}
		r.exec(strings.ReplaceAll(text, "pg_postmaster_start_time()", "'-infinity'::timestamptz"))
	}
}

// loseLease makes the lease of a document expire.
func (r *testEnv) loseLease(documentID string) {
	r.Helper()
	r.exec(`UPDATE documents SET lease_until = clock_timestamp() - interval '1 second' WHERE id = $1`, documentID)
}

// awaitPostponed waits until a document has been requeued because of an error.
func (r *testEnv) awaitPostponed(documentID string, code document.Code) {
	r.Helper()
	r.await(r.org, documentID, "postponed", func(domain.Document) bool {
		return r.count(`SELECT count(*) FROM documents WHERE id = $1 AND status = 'queued' AND error_code = $2`, documentID, string(code)) == 1
	})
}

func (r *testEnv) count(query string, args ...any) (n int) {
	r.Helper()
	if err := r.db.QueryRowContext(r.Context(), query, args...).Scan(&n); err != nil {
		r.Fatal(err)
	}
	return n
}

// pages returns a document with n pages, each with different words.
func pages(n int) string {
	var b bytes.Buffer
	for p := range n {
		if p > 0 {
			b.WriteByte('\f')
		}
		fmt.Fprintf(&b, "# Chapter %d\n", p+1)
		for s := range 4 {
			fmt.Fprintf(&b, "The lighthouse keeper number %d has written down what the weather was like in winter, and counted the ships of day %d.\n", p+1, s)
		}
	}
	return b.String()
}
