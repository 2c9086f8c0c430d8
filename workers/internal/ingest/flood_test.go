//go:build linux

package ingest

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"parley/shared/domain"
	"parley/shared/store/knowledgedb"
	"parley/shared/testkit"
	"parley/workers/internal/document"
	"parley/workers/internal/extract"
	"parley/workers/internal/sandbox/bubblewrap"
)

func TestMain(m *testing.M) {
	extract.Main()
	os.Exit(m.Run())
}

// bomb returns a page of 160 KB that is slow to parse: at each paragraph, the parser reopens 450
// elements that were not closed. The argument n makes the content unique.
func bomb(n int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "<html><!-- %d -->", n)
	for i := range 450 {
		fmt.Fprintf(&b, "<b a=%d><p>", i)
	}
	b.WriteString(strings.Repeat("</p><p>x", 20_000))
	return b.String()
}

// bounded returns a reader that runs in sandboxes with the given limits.
func (r *testEnv) bounded(limits extract.Limits) readFunc {
	r.Helper()
	backend, err := bubblewrap.Open(bubblewrap.Config{})
	if err != nil {
		r.Fatal(err)
	}
	e := extract.Open(backend, extract.Config{})
	r.Cleanup(func() {
		if err := e.Close(); err != nil {
			r.Error(err)
		}
		if err := backend.Close(); err != nil {
			r.Error(err)
		}
	})
	return func(ctx context.Context, from Source, each func(document.Event) error) (document.Info, error) {
		d := extract.Document{Name: from.Name, MIMEType: from.MIMEType, Content: from.Content, Short: from.Short, OnCPUTime: from.OnCPUTime}
		return e.Read(ctx, d, limits, each)
	}
}

// ready sends short documents one after the other, and waits until each is ready.
func (r *testEnv) ready(documents int) {
	r.Helper()
	for n := range documents {
		sent := r.send(r.org, fmt.Sprintf("short-%d.txt", n), fmt.Sprintf("Short words %d.", n))
		r.bus.PublishJobs(*sent.Job)
		r.awaitStatus(sent.Document.ID, domain.DocumentReady)
	}
}

// TestBombsOfManyOrganizations checks that short documents do not wait for the bombs of five other
// organizations. A bomb uses all the processor time that the limits allow. The test counts the
// bombs that end until all short documents are ready. If each short document waited for a bomb, at
// least as many bombs as short documents would end.
func TestBombsOfManyOrganizations(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t)
	limits := extract.Limits{CPU: 4 * time.Second}
	if testkit.Race {
		limits.Memory = 8 << 30 // for the race detector in the reader
	}
	r.start(r.bounded(limits), func(c *Config, _ *Deps) { c.Concurrency, c.Short = 3, ShortLane })

	var first knowledgedb.QueuedDocument
	for org := range 5 {
		flooding := r.organization()
		for n := range 6 {
			sent := r.send(flooding, "bomb.html", bomb(10*org+n))
			r.bus.PublishJobs(*sent.Job)
			if org == 0 && n == 0 {
				first = sent
				r.await(flooding, first.Document.ID, "being processed", func(d domain.Document) bool { return d.Status != domain.DocumentQueued })
			}
		}
	}
	const documents = 40
	ended := func() int {
		return r.count(`SELECT count(*) FROM documents WHERE name = 'bomb.html' AND status NOT IN ('queued', 'processing')`)
	}
	before := ended()
	r.ready(documents)
	meanwhile := ended() - before
	t.Logf("%d bombs ended while %d short documents became ready", meanwhile, documents)
	if n := r.count(`SELECT count(*) FROM documents WHERE name = 'bomb.html' AND status = 'processing'`); n == 0 {
		t.Error("no bomb is being processed any more: nothing was tested")
	}
	if meanwhile > documents/4 {
		t.Errorf("%d short documents waited for %d bombs", documents, meanwhile)
	}

	org := r.organizationFor(first.Document.ID)
	d := r.await(org, first.Document.ID, "failed", func(d domain.Document) bool { return d.Status == domain.DocumentFailed })
	if attempts := r.count(`SELECT attempts FROM documents WHERE id = $1`, d.ID); attempts != 1 || d.Error.Code != string(document.LimitReached) {
		t.Errorf("%+v after %d attempts", d.Error, attempts)
	}
}

func (r *testEnv) organizationFor(documentID string) (org string) {
	r.Helper()
	if err := r.db.QueryRowContext(r.Context(), `SELECT org_id FROM documents WHERE id = $1`, documentID).Scan(&org); err != nil {
		r.Fatal(err)
	}
	return org
}
