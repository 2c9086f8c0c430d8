package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"mime/multipart"
	"net/http/httptest"
	"net/textproto"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/ingress/internal/httpapi/knowledge"
	"parley/shared/bus"
	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/secrets"
)

// notifyRecorder records the jobs and changes that the service publishes. If the field next is set,
// notifyRecorder also passes them on to next.
type notifyRecorder struct {
	mu        sync.Mutex
	seen      []domain.Job
	published map[string]int // number of changes by kind and organization
	next      knowledge.JobNotifier
}

func (b *notifyRecorder) PublishJobs(jobs ...domain.Job) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seen = append(b.seen, jobs...)
	if b.next != nil {
		b.next.PublishJobs(jobs...)
	}
}

func (b *notifyRecorder) Changed(kind domain.ChangeKind, org string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.published == nil {
		b.published = map[string]int{}
	}
	b.published[string(kind)+" "+org]++
	if b.next != nil {
		b.next.Changed(kind, org)
	}
}

// jobsFor returns how many jobs of a document were published.
func (b *notifyRecorder) jobsFor(documentID string) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, job := range b.seen {
		if job.RunID == documentID && job.Lane == domain.LaneIngest {
			n++
		}
	}
	return n
}

// noSearchWorkers is a SearchCaller without workers.
type noSearchWorkers struct{}

func (noSearchWorkers) Call(context.Context, string, string, []byte, time.Time) ([]byte, error) {
	return nil, bus.ErrNoToolWorker
}

// answerSearches responds to searches like a worker. It finds the documents that the claims allow
// and whose passages contain the words of the query.
func (a *runEnv) answerSearches() {
	a.t.Helper()
	signer, err := secrets.NewSigner(strings.Repeat("ab", 32))
	must(a.t, err)
	stop, err := a.bus.ServeTool(contract.KindSearch, bus.ToolOptions{Slots: 8, Queue: 64}, func(ctx context.Context, call bus.ToolMessage) ([]byte, bool) {
		var claims contract.SearchClaims
		var asked contract.SearchRequest
		text, err := signer.Verify(call.Capability, call.Body)
		if err != nil || json.Unmarshal(text, &claims) != nil || json.Unmarshal(call.Body, &asked) != nil ||
			claims.Kind != contract.KindSearch || claims.Expires.Before(time.Now()) {
			a.t.Errorf("a search that a worker refuses: %v, %+v", err, claims)
			return nil, false
		}
		var ids []int64
		rows, err := a.sql.QueryContext(ctx, `SELECT id FROM document_chunks WHERE org_id = $1 AND strpos(text, $2) > 0 ORDER BY id LIMIT $3`,
			claims.OrganizationID, asked.Query, asked.Limit)
		if err != nil {
			return nil, false // the test has ended
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			var chunk int64
			if rows.Scan(&chunk) != nil {
				return nil, false
			}
			ids = append(ids, chunk)
		}
		if rows.Err() != nil {
			return nil, false
		}
		var reply contract.SearchReply
		passages, err := a.store.Knowledge.Passages(ctx, claims.OrganizationID, ids)
		for i, p := range passages {
			reply.Found = append(reply.Found, domain.Found{Passage: p, Score: 1 / float64(i+1), MatchedBy: []string{"text"}})
		}
		answer, marshalled := json.Marshal(reply)
		return answer, err == nil && marshalled == nil
	})
	must(a.t, err)
	a.stopSearches = sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		stop(ctx)
	})
	a.t.Cleanup(a.stopSearches)
}

// document creates a processed document of an organization, with two passages on its only page. Its
// name, content and passages contain the organization's word.
func (a *runEnv) document(h *testOrg) string {
	a.t.Helper()
	documentID := a.ok("POST", "/api/knowledge", `{"name":"`+h.word+`.txt","content":"`+h.word+" "+a.fresh()+`","metadata":{"team":"`+h.word+`"}}`,
		h.owner.auth, h.header).text(a.t, "id")
	a.saveProcessed(documentID, 1, h.word+" first", h.word+" second")
	return documentID
}

// saveProcessed stores the result of processing a document, like a worker. The document has the
// given number of pages, and all passages are on the first page.
func (a *runEnv) saveProcessed(documentID string, pages int, passages ...string) {
	a.t.Helper()
	at := 0
	for n, text := range passages {
		a.exec(`INSERT INTO document_chunks (org_id, document_id, n, page, headings, start_at, end_at, text, terms)
			SELECT org_id, id, $2, 1, '{}', $3, $4, $5, '' FROM documents WHERE id = $1`, documentID, n, at, at+len([]rune(text)), text)
		at += len([]rune(text)) + 2
	}
	a.exec(`UPDATE documents SET status = 'ready', pages = $2, pages_done = $2, chunks = $3 WHERE id = $1`, documentID, pages, len(passages))
}

// filePart is a part of a form. If header is not empty, it replaces the usual header lines of a
// file.
type filePart struct {
	name, file, content string
	header              map[string]string
}

// formFor renders a form in the way that browsers do.
func formFor(tb testing.TB, parts ...filePart) (body []byte, contentType string) {
	tb.Helper()
	var buf bytes.Buffer
	w := multipart.NewWriter(&buf)
	for _, p := range parts {
		header := textproto.MIMEHeader{}
		disposition := `form-data; name="` + p.name + `"`
		if p.file != "" {
			disposition += `; filename="` + p.file + `"`
			header.Set("Content-Type", "application/octet-stream")
		}
		header.Set("Content-Disposition", disposition)
		for name, value := range p.header {
			header.Set(name, value)
		}
		part, err := w.CreatePart(header)
		must(tb, err)
		_, err = part.Write([]byte(p.content))
		must(tb, err)
	}
	must(tb, w.Close())
	return buf.Bytes(), w.FormDataContentType()
}

// says fails the test unless the response contains the words.
func (a answer) says(t *testing.T, words string) {
	t.Helper()
	if !strings.Contains(string(a.body), words) {
		t.Errorf("%s does not say %q", a.body, words)
	}
}

// form sends a form.
func (a *runEnv) form(method, target string, parts []filePart, headers ...string) answer {
	a.t.Helper()
	body, contentType := formFor(a.t, parts...)
	return a.raw(method, target, contentType, body, headers...)
}

func (a *runEnv) raw(method, target, contentType string, body []byte, headers ...string) answer {
	a.t.Helper()
	req := httptest.NewRequestWithContext(a.t.Context(), method, target, bytes.NewReader(body))
	req.Header.Set("Content-Type", contentType)
	return a.send(with(req, headers...))
}

// contents returns the number of stored contents of an organization, including those without a
// document.
func (a *runEnv) contents(org string) (n int) {
	a.t.Helper()
	must(a.t, a.sql.QueryRowContext(a.t.Context(), `SELECT count(*) FROM (SELECT hash FROM blobs WHERE org_id = $1
		UNION SELECT hash FROM blob_chunks WHERE org_id = $1) t`, org).Scan(&n))
	return n
}

func (a *runEnv) documents(org string) (n int) {
	a.t.Helper()
	must(a.t, a.sql.QueryRowContext(a.t.Context(), `SELECT count(*) FROM documents WHERE org_id = $1`, org).Scan(&n))
	return n
}
