package httpapi

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"parley/shared/bus"
	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/secrets"
)

// renderer responds to requests for pictures like a worker.
type renderer struct {
	t     *testing.T
	calls atomic.Int32
	reply string // if not empty, the reply to every request
	err   error
	asked contract.PageClaims // claims of the last request
}

// Call verifies the claims of a request.
func (r *renderer) Call(_ context.Context, kind, capability string, body []byte, _ time.Time) ([]byte, error) {
	r.calls.Add(1)
	signer, err := secrets.NewSigner(strings.Repeat("ab", 32))
	must(r.t, err)
	raw, err := signer.Verify(capability, body)
	must(r.t, err)
	must(r.t, json.Unmarshal(raw, &r.asked))
	if kind != contract.KindPages || r.asked.Kind != kind || time.Until(r.asked.Expires) > time.Minute {
		r.t.Errorf("%s: %+v", kind, r.asked)
	}
	if r.reply != "" || r.err != nil {
		return []byte(r.reply), r.err
	}
	return json.Marshal(contract.PageReply{Picture: &domain.PagePicture{
		MIMEType: "image/png", Width: 595, Height: 842, Data: []byte("picture " + strconv.Itoa(r.asked.Page)),
		Words: []domain.PageWord{{Text: "secretword", Box: domain.Box{1, 2, 3.5, 4}}},
	}})
}

// pdf creates a processed PDF with the given number of pages.
func (a *runEnv) pdf(h *testOrg, pages int) string {
	a.t.Helper()
	documentID := a.ok("POST", "/api/knowledge", `{"name":"a.pdf","content":"`+a.fresh()+`"}`, h.key).text(a.t, "id")
	a.saveProcessed(documentID, pages, "first")
	a.exec(`UPDATE documents SET mime_type = 'application/pdf' WHERE id = $1`, documentID)
	return documentID
}

func TestPicturesOfPages(t *testing.T) {
	t.Parallel()
	a, h := knowledgeEnv(t)
	r := &renderer{t: t}
	a.rebuild(func(d *Deps) { d.Searches = r })
	documentID := a.pdf(h, 3)
	target := "/api/knowledge?id=" + documentID

	got := a.ok("GET", target+"&page=2&picture=1", "", h.memberKey, h.header)
	for path, want := range map[string]any{
		"documentId": documentID, "name": "a.pdf", "page": 2.0, "pages": 3.0, "picture.mimeType": "image/png", "picture.width": 595.0,
		"picture.data": "cGljdHVyZSAy", "picture.words.0.text": "secretword", "picture.words.0.box.2": 3.5,
	} {
		if seen := got.json(t, path); seen != want {
			t.Errorf("%s: %v, want %v", path, seen, want)
		}
	}
	if r.asked.OrganizationID != h.org || r.asked.DocumentID != documentID || r.asked.Page != 2 || len(r.asked.SHA256) != 64 {
		t.Errorf("%+v", r.asked)
	}

	// A second request for a page is served from memory unless the document's content has changed.
	a.ok("GET", target+"&page=2&picture=true", "", h.key)
	if n := r.calls.Load(); n != 1 {
		t.Errorf("rendered %d times", n)
	}
	a.exec(`UPDATE documents SET hash = decode(repeat('00', 32), 'hex') WHERE id = $1`, documentID)
	a.ok("GET", target+"&page=2&picture=1", "", h.key)
	if n := r.calls.Load(); n != 2 {
		t.Errorf("rendered %d times after the content changed", n)
	}

	for query, problems := range map[string]string{
		"&picture=1": "page:required", "&page=1&picture=2": "picture:invalid_value", "&page=1&picture=": "picture:invalid_value",
		"&chunk=1&picture=1": "page:required", "&page=1&content=1&picture=1": "page:conflict",
	} {
		if seen := a.from("GET", target+query, "", h.key).problems(t); seen != "invalid_request "+problems {
			t.Errorf("%s: %s", query, seen)
		}
	}
	a.from("GET", target+"&page=4&picture=1", "", h.key).want(t, "a missing page", 404, "not_found").says(t, "the last page is 3")
	a.from("GET", "/api/knowledge?id="+a.document(h)+"&page=1&picture=1", "", h.key).want(t, "a text", 404, "not_found").says(t, "not a PDF")

	// The pictures of a deleted document are removed from memory. Another organization never gets
	// them.
	other := a.newTestOrg("away")
	a.from("GET", target+"&page=2&picture=1", "", other.key).want(t, "another organization", 404, "not_found")
	a.ok("DELETE", target, "", h.key)
	a.from("GET", target+"&page=2&picture=1", "", h.key).want(t, "deleted", 404, "not_found")
	a.logsClean("secretword")
}

func TestFailedPicturesOfPages(t *testing.T) {
	t.Parallel()
	a, h := knowledgeEnv(t)
	target := "/api/knowledge?id=" + a.pdf(h, 2000) + "&picture=1&page="
	for name, r := range map[string]*renderer{
		"no worker": {err: bus.ErrNoToolWorker}, "lost": {err: bus.ErrToolLost}, "not available": {reply: `{"unavailable":true}`}, "no answer": {reply: `<`},
	} {
		r.t = t
		a.rebuild(func(d *Deps) { d.Searches = r })
		if got := a.from("GET", target+"1", "", h.key).want(t, name, 503, "unavailable"); got.header.Get("Retry-After") != "2" {
			t.Errorf("%s: Retry-After %q", name, got.header.Get("Retry-After"))
		}
	}
	a.rebuild(func(d *Deps) { d.Searches = &renderer{t: t, reply: `{"failure":"The PDF is damaged."}`} })
	a.from("GET", target+"1", "", h.key).want(t, "a damaged page", 404, "not_found").says(t, "page 1 has no picture: The PDF is damaged.")

	// Only requests for pictures that are not in memory count against the limit.
	r := &renderer{t: t}
	a.rebuild(func(d *Deps) { d.Searches = r })
	for page := range 60 {
		a.ok("GET", target+strconv.Itoa(page+1), "", h.key)
	}
	a.from("GET", target+"61", "", h.key).want(t, "too many", 429, "rate_limited")
	a.ok("GET", target+"60", "", h.key)
	other := a.newTestOrg("away")
	a.ok("GET", "/api/knowledge?picture=1&page=1&id="+a.pdf(other, 1), "", other.key)
}
