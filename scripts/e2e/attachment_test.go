package e2e

import (
	"bytes"
	"image"
	"image/png"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"parley/scripts/internal/api"
)

// attachedRun contains the fields of a run with an attachment.
type attachedRun struct {
	api.Run

	Attachments []struct {
		FileID    string `json:"fileId"`
		Name      string `json:"name"`
		MediaType string `json:"mediaType"`
		Bytes     int    `json:"bytes"`
	} `json:"attachments"`
}

// urlIsAttachedToAChat sends a chat with the URL of a document. The service fetches the document
// once, and the offline model cites it. Private addresses are rejected, even if the URL of a
// permitted server redirects to them, and no request reaches them.
func urlIsAttachedToAChat(t *testing.T, s *service) { //nolint:thelper // a subtest, not a helper
	var private, fetched atomic.Int32
	inside := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		private.Add(1)
		_, _ = io.WriteString(w, "The secret of the intranet.")
	}))
	t.Cleanup(inside.Close)
	pages := site(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/manual.md":
			fetched.Add(1)
			w.Header().Set("Content-Type", "text/markdown")
			_, _ = io.WriteString(w, lampText)
		case "/inside":
			http.Redirect(w, r, inside.URL+"/", http.StatusFound)
		default:
			http.NotFound(w, r)
		}
	}))

	in := s.first
	owner := signUp(t, in.url).reader(t, "offline")
	chat := func(url, key string) api.Answer {
		return api.Send(t.Context(), http.MethodPost, in.url+"/api/agents?action=chat&id="+owner.agent,
			map[string]string{"x-api-key": owner.key, "Idempotency-Key": key}, map[string]any{
				"sessionId": "s", "message": "How long is the warranty of the Heron lamp?",
				"attachments": []any{map[string]any{"url": url}},
			})
	}

	var r attachedRun
	got := chat(pages.URL+"/manual.md", "attach")
	got.Want(t, http.StatusOK).Into(t, &r)
	if r.Status != "completed" || len(r.Attachments) != 1 || r.Attachments[0].Name != "manual.md" ||
		r.Attachments[0].MediaType != "text/markdown" || r.Attachments[0].Bytes != len(lampText) {
		t.Fatalf("%s", got.Body)
	}
	if !strings.Contains(r.Message, "thirty-one months") || len(r.Citations) == 0 {
		t.Fatalf("the answer does not use the document: %s", got.Body)
	}
	for _, cited := range r.Citations {
		if cited.Title != "manual.md" || cited.CitedText == "" || !strings.Contains(lampText, cited.CitedText) {
			t.Errorf("a citation does not refer to the document: %+v", cited)
		}
	}
	if file := owner.get(t.Context(), "/api/files?id="+r.Attachments[0].FileID).Want(t, http.StatusOK); string(file.Body) != lampText {
		t.Errorf("the attached file contains %q", file.Body)
	}
	chat(pages.URL+"/manual.md", "attach").Replayed(t)
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
		refused.Refused(t, http.StatusBadRequest, "invalid_request")
		if !strings.Contains(string(refused.Body), `"field":"attachments[0].url"`) {
			t.Errorf("%s: %s", name, refused.Body)
		}
	}
	if n := private.Load(); n != 0 {
		t.Errorf("%d requests reached a private address", n)
	}
	if n := s.number(t, `SELECT count(*) FROM runs WHERE agent_id = $1`, owner.agent); n != 1 {
		t.Errorf("%d runs were accepted, want 1", n)
	}
}

// lampText is the document of lampPages.
const lampText = "# Lamps\n\nThe Heron lamp has a warranty of thirty-one months. The Wren lamp has none.\n"

// lampPages starts a server with the document /manual.md and the image /lamp.png, and returns its
// URL.
func lampPages(t *testing.T) string {
	t.Helper()
	var drawn bytes.Buffer
	if err := png.Encode(&drawn, image.NewGray(image.Rect(0, 0, 31, 17))); err != nil {
		t.Fatal(err)
	}
	pages := site(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/manual.md":
			w.Header().Set("Content-Type", "text/markdown")
			_, _ = io.WriteString(w, lampText)
		case "/lamp.png":
			w.Header().Set("Content-Type", "image/png")
			_, _ = w.Write(drawn.Bytes())
		default:
			http.NotFound(w, r)
		}
	}))
	return pages.URL
}

// urlsAreAttachedInEveryFormat sends the URLs of a document and of an image in each format of
// requests that accepts URLs. Each run has the file of its URL as its only attachment, and the
// offline model uses the file.
func urlsAreAttachedInEveryFormat(t *testing.T, s *service) { //nolint:thelper // a subtest, not a helper
	pages := lampPages(t)
	in := s.first
	owner := signUp(t, in.url).reader(t, "offline")

	type object = map[string]any
	user := func(key string, parts ...any) []any { return []any{object{"role": "user", key: parts}} }
	manual, lamp := pages+"/manual.md", pages+"/lamp.png"
	const question = "How long is the warranty of the Heron lamp?"
	for name, tt := range map[string]struct {
		path  string
		body  object
		image bool // the URL is that of the image
	}{
		"image_url": {"/v1/chat/completions", object{"model": owner.agent, "messages": user("content",
			object{"type": "text", "text": "look"}, object{"type": "image_url", "image_url": object{"url": lamp}})}, true},
		"input_image": {"/v1/responses", object{"model": owner.agent, "input": user("content",
			object{"type": "input_text", "text": "look"}, object{"type": "input_image", "image_url": lamp})}, true},
		"file_url": {"/v1/responses", object{"model": owner.agent, "input": user("content",
			object{"type": "input_text", "text": question}, object{"type": "input_file", "file_url": manual})}, false},
		"trigger": {"/api/internal/run-automation", object{
			"target": owner.agent, "input": object{"message": question}, "attachments": []any{object{"url": manual}},
		}, false},
		"AI SDK": {"/api/agents?action=chat&format=ai-sdk&id=" + owner.agent, object{"id": "sdk", "messages": user("parts",
			object{"type": "file", "mediaType": "text/markdown", "url": manual}, object{"type": "text", "text": question})}, false},
	} {
		owner.send(t, http.MethodPost, in.url+tt.path, tt.body).Want(t, http.StatusOK)
		owner.usedURL(t, name, tt.image)
	}
	if n := s.number(t, `SELECT count(*) FROM runs WHERE agent_id = $1`, owner.agent); n != 5 {
		t.Errorf("%d runs were accepted, want 5", n)
	}
}

// usedURL fails the test unless the newest run has the image or the document of lampPages as its
// only attachment, and its answer uses the attachment. The argument format is the name of the
// request, for errors.
func (a account) usedURL(t *testing.T, format string, isImage bool) {
	t.Helper()
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	a.get(t.Context(), "/api/runs?limit=1").Want(t, http.StatusOK).Into(t, &list)
	var r attachedRun
	got := a.get(t.Context(), "/api/runs?id="+list.Data[0].ID)
	got.Want(t, http.StatusOK).Into(t, &r)
	name, says := "manual.md", "thirty-one months"
	if isImage {
		name, says = "lamp.png", "lamp.png: image/png, 31 × 17 pixels"
	}
	if r.Status != "completed" || !strings.Contains(r.Message, says) || len(r.Attachments) != 1 || r.Attachments[0].Name != name {
		t.Errorf("%s: %s", format, got.Body)
		return
	}
	file := a.get(t.Context(), "/api/files?id="+r.Attachments[0].FileID).Want(t, http.StatusOK).Body
	if !isImage {
		if string(file) != lampText {
			t.Errorf("%s: the attached file contains %q", format, file)
		}
		return
	}
	// The service encodes images again, so the bytes may differ.
	if size, kind, err := image.DecodeConfig(bytes.NewReader(file)); err != nil || kind != "png" || size.Width != 31 || size.Height != 17 {
		t.Errorf("%s: the attached file is a %s of %d × %d pixels: %v", format, kind, size.Width, size.Height, err)
	}
}
