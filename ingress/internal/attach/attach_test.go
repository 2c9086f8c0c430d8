package attach

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/outbound"
	"parley/shared/store/blobdb"
)

func TestMediaTypes(t *testing.T) {
	t.Parallel()
	for want, cases := range map[string][][3]string{
		"image/png":        {{"a.txt", "text/plain", "\x89PNG\r\n\x1a\n"}},
		"application/pdf":  {{"a.txt", "", "\n%PDF-1.4"}},
		"text/html":        {{"a.html", "", "<p>"}, {"", "text/html; charset=utf-8", "<p>"}, {"a.md", "text/html", "<p>"}},
		"text/markdown":    {{"a.MD", "application/octet-stream", "# a"}, {"", "text/x-markdown", "# a"}},
		"text/plain":       {{"", "", "words"}, {"a.py", "text/x-python", "x = 1"}, {"a.txt", "", "\xe4 in Latin-1"}, {"a.txt", "", "\xff\xfea\x00"}},
		"text/csv":         {{"a.csv", "", "a,b"}},
		"application/json": {{"a.json", "", "{}"}},
		"":                 {{"a.png", "image/png", "no image"}, {"a.svg", "image/svg+xml", "<svg/>"}, {"a.zip", "application/zip", "PK\x03\x04"}, {"a.txt", "text/plain", "a\x00b"}, {"a.mp3", "", "ID3"}},
	} {
		for _, c := range cases {
			if got := mediaType(c[0], c[1], []byte(c[2])); got != want {
				t.Errorf("%q: %q, want %q", c, got, want)
			}
		}
	}
}

func TestFetch(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		switch req.URL.Path {
		case "/large":
			_, _ = io.Copy(w, io.LimitReader(zeros{}, domain.MaxAttachmentBytes+1))
		case "/missing":
			w.WriteHeader(http.StatusNotFound)
		case "/inwards":
			http.Redirect(w, req, "http://127.0.0.1:1/", http.StatusFound)
		default:
			w.Header().Set("Content-Disposition", `attachment; filename="../report.pdf"`)
			w.Header().Set("Content-Type", "application/pdf")
			_, _ = w.Write([]byte("%PDF"))
		}
	}))
	t.Cleanup(server.Close)
	client, err := outbound.New(outbound.Config{Allow: []string{strings.TrimPrefix(server.URL, "http://")}})
	if err != nil {
		t.Fatal(err)
	}
	f := newFetcher(client)
	read := func(ctx context.Context, path string) (name string, err error) {
		err = f.fetch(ctx, "org", server.URL+path, func(called, kind string, body io.Reader) error {
			content, err := io.ReadAll(body)
			name = called + " " + kind + " " + string(content)
			if errors.Is(err, outbound.ErrTooLarge) {
				return blobdb.ErrTooLarge
			}
			return err
		})
		return name, err
	}
	if got, err := read(t.Context(), "/a"); err != nil || got != "report.pdf application/pdf %PDF" {
		t.Errorf("%q, %v", got, err)
	}
	for _, path := range []string{"/missing", "/inwards"} {
		if _, err := read(t.Context(), path); !isFault(err) || strings.Contains(err.Error(), "127.0.0.1") {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, err := read(t.Context(), "/large"); !errors.Is(err, blobdb.ErrTooLarge) {
		t.Error(err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := read(gone, "/a"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if f.all != 0 || len(f.byOrg) != 0 {
		t.Errorf("%d fetches left", f.all)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// The number of fetches per organization is limited. The last slots are reserved for organizations
// without a fetch in progress.
func TestFetchesAreBounded(t *testing.T) {
	t.Parallel()
	f := newFetcher(nil)
	taken := map[string]int{}
	for org := range strings.FieldsSeq(strings.Repeat("a b c d e f g h i ", 10)) {
		if _, err := f.enter(org); err == nil {
			taken[org]++
		} else if apierr.CodeFor(err) != apierr.RateLimited {
			t.Fatal(err)
		}
	}
	if taken["a"] > fetchesPerOrganization || f.all > fetchesAtOnce-fetchesAtOnce/8 {
		t.Errorf("%v", taken)
	}
	if _, err := f.enter("newcomer"); err != nil {
		t.Error(err)
	}
}
