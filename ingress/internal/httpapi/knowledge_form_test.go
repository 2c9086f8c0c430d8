package httpapi

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/httpapi/knowledge"
	"parley/shared/store/knowledgedb"
)

func knowledgeEnv(t *testing.T) (*runEnv, *testOrg) {
	t.Helper()
	a := newRunEnv(t)
	return a, a.newTestOrg("home")
}

func TestAFileBecomesADocument(t *testing.T) {
	t.Parallel()
	a, h := knowledgeEnv(t)
	content := string(numbers(3<<20 + 7))
	sum := sha256.Sum256([]byte(content))
	got := a.form("POST", "/api/knowledge", []filePart{
		{name: "metadata", content: `{"team":"release","lang":""}`}, {name: "file", file: "hand book.pdf", content: content},
	}, h.key, "Traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01").want(t, "a file", 202, "")
	documentID := got.text(t, "id")
	for path, want := range map[string]any{
		"name": "hand book.pdf", "mimeType": "application/pdf", "bytes": float64(len(content)), "sha256": hex.EncodeToString(sum[:]), "status": "queued",
		"url": nil, "error": nil, "pages": nil, "pagesDone": 0.0, "chunks": 0.0, "language": "", "metadata.team": "release", "metadata.lang": "",
	} {
		if seen := got.json(t, path); seen != want {
			t.Errorf("%s: %v, want %v", path, seen, want)
		}
	}
	if n := a.notifyRecorder.jobsFor(documentID); n != 1 || a.notifyRecorder.seen[0].OrganizationID != h.org || !strings.HasPrefix(a.notifyRecorder.seen[0].Traceparent, "00-0af7651916cd43dd") {
		t.Errorf("job notifications = %d, want 1: %+v", n, a.notifyRecorder.seen)
	}
	one := a.ok("GET", "/api/knowledge?id="+documentID, "", h.memberKey, h.header)
	if !bytes.Equal(one.body, got.body) {
		t.Errorf("the document in a later response = %s, want %s", one.body, got.body)
	}
	if back := a.ok("GET", "/api/knowledge?content=1&id="+documentID, "", h.memberKey, h.header); string(back.body) != content {
		t.Errorf("%d bytes come back", len(back.body))
	}

	again := a.form("POST", "/api/knowledge", []filePart{{name: "file", file: "other.pdf", content: content}}, h.owner.auth).want(t, "the same bytes", 202, "")
	if again.text(t, "id") != documentID || again.text(t, "name") != "hand book.pdf" || a.notifyRecorder.jobsFor(documentID) != 1 || a.documents(h.org) != 1 || a.contents(h.org) != 1 {
		t.Errorf("the same bytes give %s; %d documents, %d contents", again.body, a.documents(h.org), a.contents(h.org))
	}
	a.exec(`UPDATE documents SET status = 'failed', error_code = 'unreadable', error_message = 'm' WHERE id = $1`, documentID)
	again = a.form("POST", "/api/knowledge", []filePart{{name: "file", file: "other.pdf", content: content}}, h.owner.auth)
	if again.text(t, "status") != "queued" || a.notifyRecorder.jobsFor(documentID) != 2 {
		t.Errorf("a failed document that is sent again is %s, with %d job notifications", again.body, a.notifyRecorder.jobsFor(documentID))
	}
}

func TestAFormHoldsSeveralFiles(t *testing.T) {
	t.Parallel()
	a, h := knowledgeEnv(t)
	parts := []filePart{{name: "metadata", content: `{"a":"b"}`}}
	for n := range 20 {
		parts = append(parts, filePart{name: "file", file: fmt.Sprint(n, ".txt"), content: fmt.Sprint("content ", n%19)})
	}
	got := a.form("POST", "/api/knowledge", parts, h.key).want(t, "twenty files", 202, "")
	list, _ := got.json(t, "data").([]any)
	if len(list) != 20 || a.documents(h.org) != 19 {
		t.Fatalf("%d entries, %d documents", len(list), a.documents(h.org))
	}
	ids := make([]string, len(list))
	for n, entry := range list {
		doc, _ := entry.(map[string]any)
		ids[n], _ = doc["id"].(string)
		if n < 19 && doc["name"] != fmt.Sprint(n, ".txt") || fmt.Sprint(doc["metadata"]) != "map[a:b]" || a.notifyRecorder.jobsFor(ids[n]) != 1 {
			t.Errorf("entry %d: %v, with %d job notifications", n, doc, a.notifyRecorder.jobsFor(ids[n]))
		}
	}
	if ids[19] != ids[0] {
		t.Errorf("the same bytes in a form are two documents: %v", ids)
	}
}

func TestBoundaries(t *testing.T) {
	t.Parallel()
	a, h := knowledgeEnv(t)
	for contentType, want := range map[string]int{
		`multipart/form-data; boundary=b`:                            202,
		`Multipart/Form-Data; boundary="b"; charset=utf-8`:           202,
		`multipart/form-data`:                                        400,
		`multipart/form-data; boundary=`:                             400,
		`multipart/form-data; boundary=""`:                           400,
		`multipart/form-data; boundary="b "`:                         400,
		`multipart/form-data; boundary="b` + strings.Repeat("b", 70): 400,
		`multipart/form-data; boundary=` + strings.Repeat("b", 71):   400,
		"multipart/form-data; boundary=\"b\x00\"":                    400,
		`multipart/form-data; boundary="ä"`:                          400,
		`multipart/form-data; boundary=b; boundary=c`:                415,
		`multipart/mixed; boundary=b`:                                415,
		`multipart/form-data, application/json`:                      415,
		`application/x-www-form-urlencoded`:                          415,
	} {
		body := "--b\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\n" + a.fresh() + "\r\n--b--\r\n"
		if got := a.raw("POST", "/api/knowledge", contentType, []byte(body), h.key); got.status != want {
			t.Errorf("%s: %d %s, want %d", contentType, got.status, got.body, want)
		}
	}
	req := httptest.NewRequestWithContext(t.Context(), "POST", "/api/knowledge", strings.NewReader("x"))
	req.Header["Content-Type"] = []string{httpx.ContentForm + "; boundary=b", httpx.ContentForm + "; boundary=b"}
	a.send(with(req, h.key)).want(t, "two types", 415, "unsupported_media_type")
	a.raw("POST", "/api/knowledge", httpx.ContentForm+"; boundary=b", nil, h.key).want(t, "no body", 400, "invalid_request body:required")
	a.raw("POST", "/api/knowledge?action=retry&id="+a.document(h), httpx.ContentForm+"; boundary=b", []byte("x"), h.key).want(t, "a form to an action", 415, "unsupported_media_type")
	a.raw("POST", "/api/agents", httpx.ContentForm+"; boundary=b", []byte("x"), h.key).want(t, "a form elsewhere", 415, "unsupported_media_type")
}

// endlessBody is an infinite body that counts the bytes read.
type endlessBody struct {
	head, again string
	n           int
}

func (e *endlessBody) Read(p []byte) (n int, err error) {
	for n < len(p) {
		var copied int
		if e.n < len(e.head) {
			copied = copy(p[n:], e.head[e.n:])
		} else {
			copied = copy(p[n:], e.again[(e.n-len(e.head))%len(e.again):])
		}
		n, e.n = n+copied, e.n+copied
	}
	return n, nil
}

// A rejected form is not read to its end.
func TestFormsEndEarly(t *testing.T) {
	t.Parallel()
	a, h := knowledgeEnv(t)
	small := "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\nx\r\n"
	for name, tc := range map[string]struct {
		body           endlessBody
		status         int
		problems, says string
		maximum        int
	}{
		"parts without end":        {endlessBody{"", small, 0}, 400, "invalid_request file:too_long body:too_long", "", 64 << 10},
		"unknown parts":            {endlessBody{"", strings.Replace(small, "file", "f", 1), 0}, 400, "invalid_request f:unknown_field body:too_long", "", 64 << 10},
		"a header without end":     {endlessBody{"--b\r\n", "X-A: b\r\n", 0}, 400, "invalid_request body:invalid_value", "header", 64 << 10},
		"a beginning without end":  {endlessBody{"", "hello\r\n", 0}, 400, "invalid_request body:invalid_value", "", 64 << 10},
		"a line without end":       {endlessBody{"", "x", 0}, 400, "invalid_request body:invalid_value", "", 64 << 10},
		"a file without end":       {endlessBody{"--b\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\n", "x", 0}, 413, "payload_too_large file[0]:too_long", "", knowledge.MaxDocument + 2<<20},
		"an unknown part, endless": {endlessBody{"--b\r\nContent-Disposition: form-data; name=\"f\"\r\n\r\n", "x", 0}, 400, "invalid_request f:unknown_field", "", 2 << 20},
		"metadata without end":     {endlessBody{"--b\r\nContent-Disposition: form-data; name=\"metadata\"\r\n\r\n", " ", 0}, 400, "invalid_request metadata:too_long", "", 2 << 20},
	} {
		req := httptest.NewRequestWithContext(t.Context(), "POST", "/api/knowledge", &tc.body)
		req.ContentLength = -1
		req.Header.Set("Content-Type", httpx.ContentForm+"; boundary=b")
		rec := httptest.NewRecorder() // discards the response
		a.handler.ServeHTTP(rec, with(req, h.key))
		got := answer{rec.Code, rec.Header(), rec.Body.Bytes()}.want(t, name, tc.status, tc.problems)
		if tc.body.n > tc.maximum || !strings.Contains(string(got.body), tc.says) {
			t.Errorf("%s: %d bytes were read, %s", name, tc.body.n, got.body)
		}
	}
	if a.documents(h.org) != 0 || a.contents(h.org) != 0 || len(a.api.knowledge.Uploads.Open) != 0 {
		t.Errorf("%d documents, %d contents and %d places stay", a.documents(h.org), a.contents(h.org), len(a.api.knowledge.Uploads.Open))
	}
}

func TestMaximumSizeOfDocuments(t *testing.T) {
	t.Parallel()
	a, h := knowledgeEnv(t)
	content := string(numbers(knowledge.MaxDocument + 1))
	a.form("POST", "/api/knowledge", []filePart{{name: "file", content: "small"}, {name: "file", content: content}}, h.key).
		want(t, "one byte more", 413, "payload_too_large file[1]:too_long")
	if a.documents(h.org) != 0 || a.contents(h.org) != 0 {
		t.Errorf("%d documents and %d contents stay", a.documents(h.org), a.contents(h.org))
	}
	got := a.form("POST", "/api/knowledge", []filePart{{name: "file", content: content[:knowledge.MaxDocument]}}, h.key).want(t, "a form with the maximum content", 202, "")
	if n := got.json(t, "bytes"); n != float64(knowledge.MaxDocument) {
		t.Errorf("%v bytes", n)
	}
	req := httptest.NewRequestWithContext(t.Context(), "POST", "/api/knowledge", strings.NewReader("--b"))
	req.ContentLength = knowledge.MaxForm + 1
	req.Header.Set("Content-Type", httpx.ContentForm+"; boundary=b")
	a.send(with(req, h.key)).want(t, "that says to be larger", 413, "payload_too_large")
}

func TestQuotasOfDocuments(t *testing.T) {
	t.Parallel()
	a, h := knowledgeEnv(t)
	full := func(what string, got answer) {
		t.Helper()
		got.want(t, what, 429, "budget_exceeded")
		if got.header.Get("Retry-After") == "" {
			t.Errorf("%s: no Retry-After", what)
		}
	}
	a.rebuild(func(d *Deps) { d.Documents = knowledgedb.DocumentLimits{Documents: 1} })
	full("two at once", a.form("POST", "/api/knowledge", []filePart{{name: "file", content: "a"}, {name: "file", content: "b"}}, h.key))
	if a.documents(h.org) != 0 || a.contents(h.org) != 0 {
		t.Errorf("%d documents and %d contents stay", a.documents(h.org), a.contents(h.org))
	}
	one := a.ok("POST", "/api/knowledge", `{"name":"a","content":"a"}`, h.key).text(t, "id")
	full("another", a.from("POST", "/api/knowledge", `{"url":"https://example.com/a.pdf"}`, h.key))
	a.ok("POST", "/api/knowledge", `{"name":"a","content":"a"}`, h.key) // has the same content as the first document
	a.rebuild(func(d *Deps) { d.Documents = knowledgedb.DocumentLimits{Bytes: 10} })
	full("larger", a.from("PUT", "/api/knowledge?id="+one, `{"content":"12345678901"}`, h.key))
	a.ok("PUT", "/api/knowledge?id="+one, `{"content":"1234567890"}`, h.key)
	full("one more", a.from("POST", "/api/knowledge", `{"name":"a","content":"b"}`, h.key))
	a.ok("DELETE", "/api/knowledge?id="+one, "", h.key)
	a.ok("POST", "/api/knowledge", `{"name":"a","content":"b"}`, h.key)
}

// A page of another origin cannot send files with a user's cookie. The service must check the
// origin itself, because browsers send forms without a preflight.
func TestFormsOfOtherPages(t *testing.T) {
	t.Parallel()
	a, h := knowledgeEnv(t)
	for _, target := range []string{"/api/knowledge", "/api/knowledge?id=" + a.document(h)} {
		file := []filePart{{name: "file", content: target}}
		method := map[bool]string{true: "PUT", false: "POST"}[strings.Contains(target, "id=")]
		a.form(method, target, file, h.owner.cookie, "Origin: https://evil.test").want(t, target, 403, "permission_denied")
		a.form(method, target, file, h.owner.cookie, "Sec-Fetch-Site: cross-site").want(t, target, 403, "permission_denied")
		a.form(method, target, file, h.owner.cookie, "Origin: http://parley.test").want(t, target, 202, "")
		a.form(method, target, file, h.member.auth, h.header).want(t, target, 403, "permission_denied")
		a.form(method, target, file).want(t, target, 401, "unauthenticated")
		a.form(method, target, file, sayDemo).want(t, target, 403, "demo_restricted")
	}
}
