package e2e

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// attachedRun contains the fields of a run with an attachment.
type attachedRun struct {
	citedPage

	Attachments []struct {
		FileID    string `json:"fileId"`
		Name      string `json:"name"`
		MediaType string `json:"mediaType"`
		Bytes     int    `json:"bytes"`
	} `json:"attachments"`
}

// TestURLIsAttachedToAChat sends a chat with the URL of a document. The service fetches the document
// once, and the offline model cites it. Private addresses are rejected, even if the URL of a
// permitted server redirects to them, and no request reaches them.
func TestURLIsAttachedToAChat(t *testing.T) {
	t.Parallel()
	var private, fetched atomic.Int32
	inside := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		private.Add(1)
		_, _ = io.WriteString(w, "The secret of the intranet.")
	}))
	t.Cleanup(inside.Close)
	const text = "# Lamps\n\nThe Heron lamp has a warranty of thirty-one months. The Wren lamp has none.\n"
	pages := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/manual.md":
			fetched.Add(1)
			w.Header().Set("Content-Type", "text/markdown")
			_, _ = io.WriteString(w, text)
		case "/inside":
			http.Redirect(w, r, inside.URL+"/", http.StatusFound)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(pages.Close)

	c := newCluster(t, "OUTBOUND_ALLOW="+strings.TrimPrefix(pages.URL, "http://"))
	in := c.ingress(t)
	c.worker(t)
	owner := signUp(t, in.url).reader(t, "offline")
	chat := func(url, key string) answer {
		return send(t.Context(), http.MethodPost, in.url+"/api/agents?action=chat&id="+owner.agent,
			map[string]string{"x-api-key": owner.key, "Idempotency-Key": key}, map[string]any{
				"sessionId": "s", "message": "How long is the warranty of the Heron lamp?",
				"attachments": []any{map[string]any{"url": url}},
			})
	}

	var r attachedRun
	got := chat(pages.URL+"/manual.md", "attach")
	got.want(t, http.StatusOK).into(t, &r)
	if r.Status != "completed" || len(r.Attachments) != 1 || r.Attachments[0].Name != "manual.md" ||
		r.Attachments[0].MediaType != "text/markdown" || r.Attachments[0].Bytes != len(text) {
		t.Fatalf("%s", got.body)
	}
	if !strings.Contains(r.Message, "thirty-one months") || len(r.Citations) == 0 {
		t.Fatalf("the answer does not use the document: %s", got.body)
	}
	for _, cited := range r.Citations {
		if cited.Title != "manual.md" || cited.CitedText == "" || !strings.Contains(text, cited.CitedText) {
			t.Errorf("a citation does not refer to the document: %+v", cited)
		}
	}
	if file := owner.get(t.Context(), "/api/files?id="+r.Attachments[0].FileID).want(t, http.StatusOK); string(file.body) != text {
		t.Errorf("the attached file contains %q", file.body)
	}
	chat(pages.URL+"/manual.md", "attach").replayed(t)
	if n := fetched.Load(); n != 1 {
		t.Errorf("the document was fetched %d times", n)
	}

	for name, url := range map[string]string{
		"another port":          inside.URL + "/",
		"redirect to it":        pages.URL + "/inside",
		"metadata of the cloud": "http://169.254.169.254/latest/meta-data",
		"private network":       "http://10.0.0.1/",
		"loopback as a number":  "http://2130706433/",
	} {
		refused := chat(url, name)
		refused.refused(t, http.StatusBadRequest, "invalid_request")
		if !strings.Contains(string(refused.body), `"field":"attachments[0].url"`) {
			t.Errorf("%s: %s", name, refused.body)
		}
	}
	if n := private.Load(); n != 0 {
		t.Errorf("%d requests reached a private address", n)
	}
	if n := c.number(t, `SELECT count(*) FROM runs`); n != 1 {
		t.Errorf("%d runs were accepted, want 1", n)
	}
}
