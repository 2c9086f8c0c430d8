package ingest

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/outbound"
	"parley/shared/store/knowledgedb"
	"parley/workers/internal/document"
)

// library starts an HTTP server. The keys of books are the paths that the server serves. The result
// base is the server's URL. The result allow lets an ingester accept the server's address.
func library(t *testing.T, books map[string]http.HandlerFunc) (base string, allow func(*Config, *Deps)) {
	t.Helper()
	mux := http.NewServeMux()
	for path, book := range books {
		mux.HandleFunc(path, book)
	}
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	client, err := outbound.New(outbound.Config{Allow: []string{strings.TrimPrefix(server.URL, "http://")}})
	if err != nil {
		t.Fatal(err)
	}
	return server.URL, func(_ *Config, d *Deps) { d.Client = client.HTTP(FetchOptions) }
}

func (r *testEnv) link(address, name string) string {
	r.Helper()
	return r.add(r.org, knowledgedb.NewDocument{ID: id.New(id.Document), Name: name, MIMEType: "", URL: address, CreatedBy: "usr_a"}).Document.ID
}

func TestDocumentsAreFetched(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t)
	var busy atomic.Int32
	base, allow := library(t, map[string]http.HandlerFunc{
		"/terms": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/markdown; charset=utf-8")
			w.Header().Set("Content-Disposition", "attachment; filename=\"../Terms \u202eof use.md\"")
			_, _ = w.Write([]byte("Terms of use."))
		},
		"/shelf/book%20one.txt": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("Book one.")) },
		"/moved": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/shelf/book%20one.txt", http.StatusFound)
		},
		"/busy": func(w http.ResponseWriter, _ *http.Request) {
			if busy.Add(1) == 1 {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			_, _ = w.Write([]byte("At last."))
		},
	})
	r.start(plain, allow)
	for address, want := range map[string]struct{ called, name, kind string }{
		"/terms":                {"", "Terms of use.md", "text/markdown"},
		"/shelf/book%20one.txt": {"My book", "My book", "text/plain"},
		"/moved":                {base + "/moved", "book one.txt", "text/plain"},
		"/busy":                 {"", "busy", "text/plain"},
	} {
		t.Run(address, func(t *testing.T) {
			t.Parallel()
			documentID := r.link(base+address, want.called)
			d := r.awaitStatus(documentID, domain.DocumentReady)
			if d.Name != want.name || d.SHA256 == nil || d.Bytes == 0 || d.Chunks != 1 || *d.URL != base+address {
				t.Errorf("%+v", d)
			}
		})
	}
}

func TestWhatCannotBeFetched(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t)
	base, allow := library(t, map[string]http.HandlerFunc{
		"/private": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) },
		"/strange": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) },
		"/empty":   func(http.ResponseWriter, *http.Request) {},
		"/inside": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://169.254.169.254/latest", http.StatusFound)
		},
		"/large": func(w http.ResponseWriter, _ *http.Request) {
			piece := make([]byte, 1<<20)
			for range 21 {
				_, _ = w.Write(piece)
			}
		},
		"/quota": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("more than a byte")) },
	})
	r.start(plain, allow, func(c *Config, _ *Deps) { c.Limits.Bytes = 15 })
	for address, want := range map[string]document.Failure{
		base + "/private":                {Code: document.NotFetched, Message: "The URL requires authentication."},
		base + "/missing":                {Code: document.NotFetched, Message: "There is no document at the URL (404 or 410)."},
		base + "/strange":                {Code: document.NotFetched, Message: "The URL returned status 418 I'm a teapot."},
		base + "/empty":                  {Code: document.NotFetched, Message: "The URL returned an empty response."},
		base + "/inside":                 {Code: document.NotFetched, Message: "The URL leads to a host that is not allowed."},
		base + "/large":                  {Code: document.TooLarge, Message: "The document at the URL is larger than 20 MiB."},
		base + "/quota":                  {Code: document.QuotaExceeded, Message: "The document quota of the organization is exceeded. Delete documents, or raise DOCUMENT_BYTES_PER_ORGANIZATION."},
		"http://127.0.0.1:1/secret-path": {Code: document.NotFetched, Message: "The URL has a port that is not allowed. Use port 80 or 443, or allow the host and port in OUTBOUND_ALLOW."},
		"http://nobody.invalid/":         {Code: document.NotFetched, Message: "The host could not be reached."},
	} {
		t.Run(address[strings.LastIndexByte(address, '/')+1:], func(t *testing.T) {
			t.Parallel()
			if host, err := url.Parse(address); err != nil || host.Host == "" {
				t.Fatal(err)
			}
			d := r.awaitStatus(r.link(address, "x"), domain.DocumentFailed)
			if d.Error == nil || d.Error.Code != string(want.Code) || d.Error.Message != want.Message {
				t.Errorf("%+v", d.Error)
			}
		})
	}
}
