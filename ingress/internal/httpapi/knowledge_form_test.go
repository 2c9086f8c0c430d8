package httpapi

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/httpapi/transfer"
	"parley/shared/apierr"
	"parley/shared/store"
)

func knowledgeWorld(t *testing.T) (*arena, *house) {
	t.Helper()
	a := newArena(t)
	return a, a.newHouse("home")
}

func TestAFileBecomesADocument(t *testing.T) {
	t.Parallel()
	a, h := knowledgeWorld(t)
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
	if n := a.bells.rung(documentID); n != 1 || a.bells.seen[0].OrganizationID != h.org || !strings.HasPrefix(a.bells.seen[0].Traceparent, "00-0af7651916cd43dd") {
		t.Errorf("rung %d times: %+v", n, a.bells.seen)
	}
	one := a.ok("GET", "/api/knowledge?id="+documentID, "", h.memberKey, h.header)
	if !bytes.Equal(one.body, got.body) {
		t.Errorf("then it is %s, it was %s", one.body, got.body)
	}
	if back := a.ok("GET", "/api/knowledge?content=1&id="+documentID, "", h.memberKey, h.header); string(back.body) != content {
		t.Errorf("%d bytes come back", len(back.body))
	}

	again := a.form("POST", "/api/knowledge", []filePart{{name: "file", file: "other.pdf", content: content}}, h.owner.auth).want(t, "the same bytes", 202, "")
	if again.text(t, "id") != documentID || again.text(t, "name") != "hand book.pdf" || a.bells.rung(documentID) != 1 || a.documents(h.org) != 1 || a.contents(h.org) != 1 {
		t.Errorf("the same bytes give %s; %d documents, %d contents", again.body, a.documents(h.org), a.contents(h.org))
	}
	a.exec(`UPDATE documents SET status = 'failed', error_code = 'unreadable', error_message = 'm' WHERE id = $1`, documentID)
	again = a.form("POST", "/api/knowledge", []filePart{{name: "file", file: "other.pdf", content: content}}, h.owner.auth)
	if again.text(t, "status") != "queued" || a.bells.rung(documentID) != 2 {
		t.Errorf("a failed one that is sent again is %s, rung %d times", again.body, a.bells.rung(documentID))
	}
}

func TestAFormHoldsSeveralFiles(t *testing.T) {
	t.Parallel()
	a, h := knowledgeWorld(t)
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
		if n < 19 && doc["name"] != fmt.Sprint(n, ".txt") || fmt.Sprint(doc["metadata"]) != "map[a:b]" || a.bells.rung(ids[n]) != 1 {
			t.Errorf("entry %d: %v, rung %d times", n, doc, a.bells.rung(ids[n]))
		}
	}
	if ids[19] != ids[0] {
		t.Errorf("the same bytes in a form are two documents: %v", ids)
	}
}

func TestNamesOfFiles(t *testing.T) {
	t.Parallel()
	for disposition, want := range map[string]string{
		`filename="plain.txt"`:                           "plain.txt",
		`filename="größe 日本.txt"`:                        "größe 日本.txt",
		`filename="a%22b%0D%0Ac%41.txt"`:                 `a"b  c%41.txt`,
		`filename="a\"b.txt"`:                            `a"b.txt`,
		`filename*=UTF-8''gr%C3%B6%C3%9Fe.csv`:           "größe.csv",
		`filename="x.txt"; filename*=UTF-8''%e2%82%ac`:   "€",
		`filename*=iso-8859-1''gr%F6`:                    "document",
		`filename="../../etc/passwd"`:                    "passwd",
		`filename="C:\temp\a.txt"`:                       "a.txt",
		"filename=\"photo\u202egnp.exe\"":                "photognp.exe",
		"filename=\"\u2066a\u2069\ufeff.b\u200b\"":       "a.b",
		"filename=\"\u0645\u06cc\u200c\u062e.txt\"":      "\u0645\u06cc\u200c\u062e.txt",
		"filename=\"\u200e \u2028.\"":                    "document",
		`filename=""`:                                    "document",
		`filename=".."`:                                  "document",
		`filename="dir/"`:                                "document",
		`filename="   "`:                                 "document",
		`nothing=""`:                                     "document",
		`filename="` + strings.Repeat("ä", 255) + `"`:    strings.Repeat("ä", 255),
		`filename="/` + strings.Repeat("a/", 500) + `b"`: "b",
		`filename="` + strings.Repeat("a", 256) + `"`:    "! file[0]:too_long",
		"filename=\"a\xff.txt\"":                         "! file[0]:invalid_value",
		`filename*=UTF-8''a%00b`:                         "! file[0]:invalid_value",
		`filename="a%00b"`:                               "a%00b",
		"filename=\"a\x00b\"":                            "! file[0]:invalid_value",
		"filename=\"a\x1bb\"":                            "! file[0]:invalid_value",
		"filename=\"a\"\r\nX-Part: a\x00":                "! body:invalid_value",
	} {
		form := formIn("--b\r\nContent-Disposition: form-data; name=\"file\"; "+disposition+"\r\n\r\nx\r\n--b--", "b", formFilesMost)
		var got string
		if err := form.read(); err != nil {
			got = "! " + wrongIn(t, err)
		} else {
			got = form.files[0].Name
		}
		if got != want {
			t.Errorf("%q: %q, want %q", disposition, got, want)
		}
	}
}

// formIn is a form whose contents are kept nowhere.
func formIn(body, boundary string, most int) *documentForm {
	form, err := formOfType(body, httpx.ContentForm+"; boundary="+boundary, most)
	if err != nil {
		panic(err) // the tests name good boundaries
	}
	return form
}

func formOfType(body, contentType string, most int) (*documentForm, error) {
	from := &transfer.Limiter{Policy: transfer.Documents}
	place, err := from.Enter(transfer.Owner{Credential: "c"}, http.NewResponseController(httptest.NewRecorder()))
	if err != nil {
		panic(err) // the first one always gets one
	}
	in := &transfer.Upload{Body: strings.NewReader(body), From: place, Allowed: transfer.AnyBytes}
	return newDocumentForm(in, contentType, most, func(content io.Reader) (store.Upload, error) {
		n, err := io.Copy(io.Discard, content)
		if n > documentMost {
			err = store.ErrTooLarge
		}
		return store.Upload{Bytes: n}, err
	})
}

func wrongIn(t *testing.T, err error) string {
	t.Helper()
	coded, ok := err.(*apierr.Error) //nolint:errorlint // as it comes
	if !ok {
		t.Fatalf("%v is no coded error", err)
	}
	var out []string
	for _, f := range coded.Fields {
		out = append(out, f.Field+":"+f.Code)
	}
	if len(out) == 0 {
		return string(coded.Code)
	}
	return strings.Join(out, " ")
}

func TestTypesOfFiles(t *testing.T) {
	t.Parallel()
	for said, want := range map[[2]string]string{
		{"application/pdf", "a"}:                     "application/pdf",
		{"Application/PDF", "a.txt"}:                 "application/pdf",
		{"text/plain; charset=ISO-8859-1; x=y", "a"}: "text/plain; charset=ISO-8859-1",
		{"text/plain; charset=utf-8", "a"}:           "text/plain",
		{"", "a.DOCX"}:                               documentTypes[".docx"],
		{"application/octet-stream", "notes.md"}:     "text/markdown",
		{"application/octet-stream", "a.unknown"}:    octetStream,

		{"", "a"}:                octetStream,
		{"nonsense", "a.pdf"}:    "! file:invalid_value",
		{"text/", "a.pdf"}:       "! file:invalid_value",
		{"text/html\u202e", "a"}: "! file:invalid_value",

		{"text/" + strings.Repeat("a", 300), "a"}:      "! file:invalid_value",
		{"text/plain; charset=\"a\u202eb\"", "a.html"}: "text/plain; charset*=utf-8''a%E2%80%AEb",
	} {
		p := &httpx.Problems{}
		got := documentType(p, "file", said[0], said[1], octetStream)
		if err := p.Err(); err != nil {
			got = "! " + wrongIn(t, err)
		}
		if got != want {
			t.Errorf("%q: %q, want %q", said, got, want)
		}
	}
}

func TestFormsThatAreRefused(t *testing.T) {
	t.Parallel()
	part := func(disposition, content string) string {
		return "--b\r\nContent-Disposition: form-data; " + disposition + "\r\n\r\n" + content + "\r\n"
	}
	file := part(`name="file"; filename="a.txt"`, "x")
	empty := part(`name="file"; filename="a.txt"`, "")
	tell := func(metadata string) string { return part(`name="metadata"`, metadata) }
	const end = "--b--\r\n"
	var pairs []string
	for n := range 21 {
		pairs = append(pairs, fmt.Sprintf(`"k%d":""`, n))
	}
	for name, tc := range map[string]struct{ body, want string }{
		"nothing":               {"", "body:invalid_value"},
		"an empty form":         {end, "file:required"},
		"metadata alone":        {tell(`{}`) + end, "file:required"},
		"another part":          {part(`name="note"`, "x") + file + end, "note:unknown_field"},
		"parts without names":   {"--b\r\n\r\nx\r\n" + file + end, "body:invalid_value"},
		"an attachment":         {"--b\r\nContent-Disposition: attachment; name=\"file\"\r\n\r\nx\r\n" + end, "body:invalid_value file:required"},
		"an empty file":         {file + empty + end, "file[1]:too_short"},
		"all that is wrong":     {part(`name="note"`, "x") + empty + tell(`{"a b":1,"c":"`+strings.Repeat("x", 257)+`"}`) + end, "note:unknown_field file[0]:too_short metadata.a b:invalid_type metadata:invalid_value"},
		"21 files":              {strings.Repeat(file, 21) + end, "file:too_long"},
		"65 parts":              {strings.Repeat(part(`name="a"`, ""), 65) + end, "a:unknown_field body:too_long"},
		"metadata twice":        {tell(`{}`) + file + tell(`{}`) + end, "metadata:duplicate"},
		"metadata, no JSON":     {tell(`x`) + file + end, "metadata:invalid_json"},
		"metadata, empty":       {tell(``) + file + end, "metadata:invalid_json"},
		"metadata, a list":      {tell(`[]`) + file + end, "metadata:invalid_type"},
		"metadata, null":        {tell(`null`) + file + end, "metadata:invalid_type"},
		"a name twice":          {tell(`{"a":"b","a":"c"}`) + file + end, "metadata.a:duplicate"},
		"a value with NUL":      {tell(`{"a":"\u0000"}`) + file + end, "metadata.a:invalid_value"},
		"a name that is none":   {tell(`{"a b":"c"}`) + file + end, "metadata:invalid_value"},
		"too many":              {tell(`{`+strings.Join(pairs, ",")+`}`) + file + end, "metadata:too_long"},
		"a long value":          {tell(`{"a":"`+strings.Repeat("ä", 257)+`"}`) + file + end, "metadata.a:too_long"},
		"long metadata":         {tell(`{"a":"`+strings.Repeat(" ", 70<<10)+`"}`) + file + end, "metadata:too_long"},
		"not UTF-8":             {tell("{\"a\":\"\xff\"}") + file + end, "metadata:invalid_json"},
		"quoted printable":      {"--b\r\nContent-Disposition: form-data; name=\"file\"\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n=41\r\n" + end, "file:invalid_value"},
		"base64":                {"--b\r\nContent-Disposition: form-data; name=\"file\"\r\nContent-Transfer-Encoding: BASE64\r\n\r\nQQ==\r\n" + end, "file:invalid_value"},
		"a bad type":            {"--b\r\nContent-Disposition: form-data; name=\"file\"\r\nContent-Type: pdf\r\n\r\nx\r\n" + end, "file[0]:invalid_value"},
		"another boundary":      {strings.ReplaceAll(file+end, "--b", "--c"), "body:invalid_value"},
		"no end":                {file, "body:invalid_value"},
		"cut in a file":         {file[:len(file)-3], "body:invalid_value"},
		"cut in a header":       {file[:20], "body:invalid_value"},
		"cut in the boundary":   {file + "--", "body:invalid_value"},
		"cut in metadata":       {"--b\r\nContent-Disposition: form-data; name=\"metadata\"\r\n\r\n{}", "body:invalid_value"},
		"no colon in a header":  {"--b\r\nContent-Disposition form-data\r\n\r\nx\r\n" + end, "body:invalid_value"},
		"a long header":         {"--b\r\nX: " + strings.Repeat("a", 20<<10) + "\r\n\r\nx\r\n" + end, "body:invalid_value"},
		"many headers":          {"--b\r\n" + strings.Repeat("X: a\r\n", 4<<10) + "\r\nx\r\n" + end, "body:invalid_value"},
		"a long beginning":      {strings.Repeat("x\r\n", 10<<10) + file + end, "body:invalid_value"},
		"behind its own end":    {file + end + file, ""},
		"a short beginning":     {"hello\r\n" + file + end, ""},
		"spaces at a boundary":  {"--b  \r\n" + strings.TrimPrefix(file, "--b\r\n") + end, ""},
		"line feeds alone":      {strings.ReplaceAll(file+end, "\r", ""), ""},
		"metadata behind":       {file + tell(`{"a":"b"}`) + end, ""},
		"sent as it is":         {"--b\r\nContent-Disposition: form-data; name=\"file\"\r\nContent-Transfer-Encoding: Binary\r\n\r\nx\r\n" + end, ""},
		"a boundary in a file":  {part(`name="file"`, "--b-\n--bb\r\nb--\r\n-- b") + end, ""},
		"20 files and metadata": {strings.Repeat(file, 20) + tell(`{}`) + end, ""},
	} {
		got, form := "", formIn(tc.body, "b", formFilesMost)
		if err := form.read(); err != nil {
			got = wrongIn(t, err)
		}
		if got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
		if tc.want == "" && len(form.files) == 0 {
			t.Errorf("%s: no file", name)
		}
	}
}

func TestBoundaries(t *testing.T) {
	t.Parallel()
	a, h := knowledgeWorld(t)
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

// endless is a body that goes on for ever, and counts what was read of it.
type endless struct {
	head, again string
	n           int
}

func (e *endless) Read(p []byte) (int, error) {
	if e.n < len(e.head) {
		n := copy(p, e.head[e.n:])
		e.n += n
		return n, nil
	}
	n := copy(p, e.again[(e.n-len(e.head))%len(e.again):])
	e.n += n
	return n, nil
}

// A form that is refused is not read to its end.
func TestFormsEndEarly(t *testing.T) {
	t.Parallel()
	a, h := knowledgeWorld(t)
	small := "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\nx\r\n"
	for name, tc := range map[string]struct {
		body           endless
		status         int
		problems, says string
		most           int
	}{
		"parts without end":        {endless{"", small, 0}, 400, "invalid_request file:too_long body:too_long", "", 64 << 10},
		"unknown parts":            {endless{"", strings.Replace(small, "file", "f", 1), 0}, 400, "invalid_request f:unknown_field body:too_long", "", 64 << 10},
		"a header without end":     {endless{"--b\r\n", "X-A: b\r\n", 0}, 400, "invalid_request body:invalid_value", "header", 64 << 10},
		"a beginning without end":  {endless{"", "hello\r\n", 0}, 400, "invalid_request body:invalid_value", "", 64 << 10},
		"a line without end":       {endless{"", "x", 0}, 400, "invalid_request body:invalid_value", "", 64 << 10},
		"a file without end":       {endless{"--b\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\n", "x", 0}, 413, "payload_too_large file[0]:too_long", "", documentMost + 2<<20},
		"an unknown part, endless": {endless{"--b\r\nContent-Disposition: form-data; name=\"f\"\r\n\r\n", "x", 0}, 400, "invalid_request f:unknown_field", "", 2 << 20},
		"metadata without end":     {endless{"--b\r\nContent-Disposition: form-data; name=\"metadata\"\r\n\r\n", " ", 0}, 400, "invalid_request metadata:too_long", "", 2 << 20},
	} {
		req := httptest.NewRequestWithContext(t.Context(), "POST", "/api/knowledge", &tc.body)
		req.ContentLength = -1
		req.Header.Set("Content-Type", httpx.ContentForm+"; boundary=b")
		rec := httptest.NewRecorder() // what is sent is not to be kept
		a.handler.ServeHTTP(rec, with(req, h.key))
		got := answer{rec.Code, rec.Header(), rec.Body.Bytes()}.want(t, name, tc.status, tc.problems)
		if tc.body.n > tc.most || !strings.Contains(string(got.body), tc.says) {
			t.Errorf("%s: %d bytes were read, %s", name, tc.body.n, got.body)
		}
	}
	if a.documents(h.org) != 0 || a.contents(h.org) != 0 || len(a.api.knowledge.uploads.Open) != 0 {
		t.Errorf("%d documents, %d contents and %d places stay", a.documents(h.org), a.contents(h.org), len(a.api.knowledge.uploads.Open))
	}
}

func TestDocumentsHaveAMostSize(t *testing.T) {
	t.Parallel()
	a, h := knowledgeWorld(t)
	content := string(numbers(documentMost + 1))
	a.form("POST", "/api/knowledge", []filePart{{name: "file", content: "small"}, {name: "file", content: content}}, h.key).
		want(t, "one byte more", 413, "payload_too_large file[1]:too_long")
	if a.documents(h.org) != 0 || a.contents(h.org) != 0 {
		t.Errorf("%d documents and %d contents stay", a.documents(h.org), a.contents(h.org))
	}
	got := a.form("POST", "/api/knowledge", []filePart{{name: "file", content: content[:documentMost]}}, h.key).want(t, "as large as may be", 202, "")
	if n := got.json(t, "bytes"); n != float64(documentMost) {
		t.Errorf("%v bytes", n)
	}
	req := httptest.NewRequestWithContext(t.Context(), "POST", "/api/knowledge", strings.NewReader("--b"))
	req.ContentLength = formMost + 1
	req.Header.Set("Content-Type", httpx.ContentForm+"; boundary=b")
	a.send(with(req, h.key)).want(t, "that says to be larger", 413, "payload_too_large")
}

func TestQuotasOfDocuments(t *testing.T) {
	t.Parallel()
	a, h := knowledgeWorld(t)
	full := func(what string, got answer) {
		t.Helper()
		got.want(t, what, 429, "budget_exceeded")
		if got.header.Get("Retry-After") == "" {
			t.Errorf("%s: no Retry-After", what)
		}
	}
	a.rebuild(func(d *Deps) { d.Documents = store.DocumentLimits{Documents: 1} })
	full("two at once", a.form("POST", "/api/knowledge", []filePart{{name: "file", content: "a"}, {name: "file", content: "b"}}, h.key))
	if a.documents(h.org) != 0 || a.contents(h.org) != 0 {
		t.Errorf("%d documents and %d contents stay", a.documents(h.org), a.contents(h.org))
	}
	one := a.ok("POST", "/api/knowledge", `{"name":"a","content":"a"}`, h.key).text(t, "id")
	full("another", a.from("POST", "/api/knowledge", `{"url":"https://example.com/a.pdf"}`, h.key))
	a.ok("POST", "/api/knowledge", `{"name":"a","content":"a"}`, h.key) // the same
	a.rebuild(func(d *Deps) { d.Documents = store.DocumentLimits{Bytes: 10} })
	full("larger", a.from("PUT", "/api/knowledge?id="+one, `{"content":"12345678901"}`, h.key))
	a.ok("PUT", "/api/knowledge?id="+one, `{"content":"1234567890"}`, h.key)
	full("one more", a.from("POST", "/api/knowledge", `{"name":"a","content":"b"}`, h.key))
	a.ok("DELETE", "/api/knowledge?id="+one, "", h.key)
	a.ok("POST", "/api/knowledge", `{"name":"a","content":"b"}`, h.key)
}

// A page of another origin cannot send files with somebody's cookie: browsers ask nobody before they send a form.
func TestFormsOfOtherPages(t *testing.T) {
	t.Parallel()
	a, h := knowledgeWorld(t)
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
