package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/store"
	"parley/shared/store/blobdb"
	"parley/shared/store/executiondb"
)

// make executes an accepted run up to a tool call, which creates the given files.
func (a *runEnv) make(runID string, made ...blobdb.NewFile) []domain.File {
	a.t.Helper()
	files, kept, err := a.store.Blobs.KeepFiles(a.t.Context(), a.claimAccepted(runID), "call_1", made, nil, 0)
	must(a.t, err)
	if !kept || len(files) != len(made) {
		a.t.Fatalf("run %s kept %v of %d files", runID, files, len(made))
	}
	return files
}

// file creates a file in a run and returns the file's id. The name and the content of the file
// contain the argument word.
func (a *runEnv) file(runID, word string) string {
	return a.make(runID, blobdb.NewFile{Name: word + "/" + word + ".csv", MIMEType: "text/csv", Content: []byte(word + "\n" + a.fresh())})[0].ID
}

// fileEnv returns an environment with an organization and a run of its member.
func fileEnv(t *testing.T) (a *runEnv, h *testOrg, runID string) {
	t.Helper()
	a = newRunEnv(t)
	h = a.newTestOrg("home")
	return a, h, a.newChat(h, a.newAgent(h), "s", h.member.auth, h.header)
}

// numbers returns n bytes of text that consists of consecutive numbers, so that each part of it can
// be recognized.
func numbers(n int) []byte {
	out := make([]byte, 0, n+8)
	for i := 0; len(out) < n; i++ {
		out = strconv.AppendInt(append(out, ' '), int64(i), 10)
	}
	return out[:n]
}

func TestFilesAreSentAsTheyAre(t *testing.T) {
	t.Parallel()
	a, h, runID := fileEnv(t)
	const octets = "application/octet-stream"
	type sent struct{ contentType, disposition string }
	made := []blobdb.NewFile{
		{Name: "plot.png", MIMEType: "image/png", Content: numbers(100)},
		{Name: "a/b/c.jpg", MIMEType: "image/jpeg", Content: []byte("<script>alert(1)</script>")},
		{Name: "a.gif", MIMEType: "image/gif", Content: []byte("GIF89a")},
		{Name: "a.webp", MIMEType: "image/webp", Content: []byte("RIFF")},
		{Name: "evil.svg", MIMEType: "image/svg+xml", Content: []byte(`<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>`)},
		{Name: "evil.html", MIMEType: "text/html", Content: []byte("<script>alert(1)</script>")},
		{Name: "evil.xml", MIMEType: "application/xhtml+xml", Content: []byte("<html/>")},
		{Name: "evil.js", MIMEType: "text/javascript; charset=utf-8", Content: []byte("alert(1)")},
		{Name: "a.txt", MIMEType: "text/plain; charset=iso-8859-1", Content: []byte("ä")},
		{Name: "out/tab,le.csv", MIMEType: "TEXT/CSV", Content: []byte("a,b\n1,2\n")},
		{Name: "a.json", MIMEType: "application/json", Content: []byte(`{"a": 1e400}`)},
		{Name: "a.pdf", MIMEType: "application/pdf", Content: []byte("%PDF-1.7")},
		{Name: "empty", MIMEType: "", Content: nil},
		{Name: "odd", MIMEType: "image/png\r\nSet-Cookie: a=b", Content: []byte("x")},
		{Name: "large.bin", MIMEType: octets, Content: numbers(2<<20 + 12345)},
	}
	want := []sent{
		{"image/png", `inline; filename="plot.png"`},
		{"image/jpeg", `inline; filename="c.jpg"`},
		{"image/gif", `inline; filename="a.gif"`},
		{"image/webp", `inline; filename="a.webp"`},
		{octets, `attachment; filename="evil.svg"`},
		{octets, `attachment; filename="evil.html"`},
		{octets, `attachment; filename="evil.xml"`},
		{octets, `attachment; filename="evil.js"`},
		{"text/plain; charset=utf-8", `attachment; filename="a.txt"`},
		{"text/csv; charset=utf-8", `attachment; filename="tab,le.csv"`},
		{"application/json", `attachment; filename="a.json"`},
		{"application/pdf", `attachment; filename="a.pdf"`},
		{octets, `attachment; filename="empty"`},
		{octets, `attachment; filename="odd"`},
		{octets, `attachment; filename="large.bin"`},
	}
	for i, f := range a.make(runID, made...) {
		got := a.ok("GET", "/api/files?id="+f.ID, "", h.member.auth, h.header)
		if !bytes.Equal(got.body, made[i].Content) {
			t.Errorf("%s: %d bytes, not the %d that were kept", f.Name, len(got.body), len(made[i].Content))
		}
		for name, value := range map[string]string{
			"Content-Type": want[i].contentType, "Content-Disposition": want[i].disposition, "Content-Length": strconv.Itoa(len(made[i].Content)),
			"ETag": `"` + f.SHA256 + `"`, "Accept-Ranges": "bytes", "X-Content-Type-Options": "nosniff",
			"Cache-Control": "private, max-age=3600, immutable, no-transform", "Content-Security-Policy": "sandbox; default-src 'none'",
			"Cross-Origin-Resource-Policy": "same-origin", "Vary": "Cookie, Authorization, X-Api-Key, X-Organization-Id",
			"Set-Cookie": "", "Last-Modified": "", "Content-Encoding": "",
		} {
			if seen := got.header.Values(name); strings.Join(seen, "|") != value {
				t.Errorf("%s: %s: %q, want %q", f.Name, name, seen, value)
			}
		}
	}
}

func TestPartsOfFiles(t *testing.T) {
	t.Parallel()
	a, h, runID := fileEnv(t)
	content := numbers(2<<20 + 100)
	size := len(content)
	files := a.make(runID, blobdb.NewFile{Name: "x.txt", MIMEType: "text/plain", Content: content}, blobdb.NewFile{Name: "empty", MIMEType: "text/plain"})
	etag := `"` + files[0].SHA256 + `"`
	ask := func(headers ...string) answer {
		return a.from("GET", "/api/files?id="+files[0].ID, "", append(headers, h.member.auth, h.header)...)
	}
	whole := func(what string, headers ...string) {
		t.Helper()
		if got := ask(headers...); got.status != 200 || !bytes.Equal(got.body, content) || got.header.Get("Content-Range") != "" {
			t.Errorf("%s: %d, %d bytes %v", what, got.status, len(got.body), got.header)
		}
	}
	for asked, want := range map[string][2]int{
		"bytes=0-0": {0, 1}, "bytes=0-": {0, size}, "bytes=1048575-1048576": {1048575, 1048577}, "bytes=1048576-2097151": {1 << 20, 2 << 20},
		"bytes=1000-2097200": {1000, 2097201}, "bytes=-7": {size - 7, size}, "bytes=2097250-9999999": {2097250, size}, "bytes=-9999999": {0, size},
	} {
		got := ask("Range: "+asked, `If-Range: `+etag, `If-None-Match: "other"`)
		of := "bytes " + strconv.Itoa(want[0]) + "-" + strconv.Itoa(want[1]-1) + "/" + strconv.Itoa(size)
		if got.status != 206 || got.header.Get("Content-Range") != of || !bytes.Equal(got.body, content[want[0]:want[1]]) ||
			got.header.Get("Content-Length") != strconv.Itoa(want[1]-want[0]) || got.header.Get("ETag") != etag {
			t.Errorf("%s: %d, %d bytes %v", asked, got.status, len(got.body), got.header)
		}
	}
	whole("two ranges", "Range: bytes=0-1,5-6")
	whole("two headers", "Range: bytes=0-1", "Range: bytes=5-6")
	whole("another unit", "Range: lines=0-1")
	whole("another content", "Range: bytes=5-", `If-Range: "other"`)
	whole("perhaps another content", "Range: bytes=5-", "If-Range: W/"+etag)
	whole("a date", "Range: bytes=5-", "If-Range: Sat, 21 Nov 2026 09:31:00 GMT")
	whole("since when", "If-Modified-Since: Sat, 21 Nov 2099 09:31:00 GMT")
	whole("other content", `If-None-Match: "other", W/"more"`)
	for _, known := range [][]string{{etag}, {"W/" + etag}, {`"other", ` + etag}, {`"other"`, etag}, {"*"}} {
		headers := []string{"Range: bytes=0-1"}
		for _, tags := range known {
			headers = append(headers, "If-None-Match: "+tags)
		}
		got := ask(headers...)
		if got.status != 304 || len(got.body) > 0 || got.header.Get("ETag") != etag || got.header.Get("Content-Type") != "" {
			t.Errorf("%q: %d %v", known, got.status, got.header)
		}
	}
	for _, asked := range []string{"bytes=a-b", "bytes=", "bytes=--1", "bytes=-0", "bytes=-", "bytes", "", "bytes= 1-2", "bytes=1-2x", "bytes=1-" + strings.Repeat("9", 40)} {
		whole(asked, "Range: "+asked)
	}
	for _, asked := range []string{"bytes=2097252-", "bytes=9999999-99999999", "bytes=5-4"} {
		got := ask("Range: " + asked)
		if got.status != 416 || got.problems(t) != "range_not_satisfiable" || got.header.Get("Content-Range") != "bytes */"+strconv.Itoa(size) {
			t.Errorf("%s: %d %v", asked, got.status, got.header)
		}
		wantNoFileHeaders(t, asked, got)
	}
	for status, header := range map[int]string{206: "Range: bytes=0-6", 304: "If-None-Match: " + etag, 416: "Range: bytes=" + strconv.Itoa(size) + "-"} {
		if got := a.from("HEAD", "/api/files?id="+files[0].ID, "", header, h.member.auth, h.header); got.status != status || status < 400 && len(got.body) > 0 { // net/http sends nothing after the announced length
			t.Errorf("HEAD with %s: %d, %d bytes", header, got.status, len(got.body))
		}
	}
	got := a.ok("GET", "/api/files?id="+files[1].ID, "", h.member.auth, h.header, "Range: bytes=0-")
	if got.status != 200 || len(got.body) != 0 {
		t.Errorf("all documents of an empty list: %d %v", got.status, got.header)
	}
}

// wantNoFileHeaders checks that an error response has none of the headers of a file.
func wantNoFileHeaders(t *testing.T, what string, got answer) {
	t.Helper()
	for _, name := range []string{"Etag", "Content-Disposition", "Accept-Ranges", "Vary", "Content-Security-Policy", "Cross-Origin-Resource-Policy"} {
		if value, said := got.header[name]; said {
			t.Errorf("%s: %s %q in an error", what, name, value)
		}
	}
	if got.header.Get("Cache-Control") != "no-store" {
		t.Errorf("%s: Cache-Control %q", what, got.header.Get("Cache-Control"))
	}
}

func TestWhoMayReadFiles(t *testing.T) {
	t.Parallel()
	a, h, runID := fileEnv(t)
	away, other := a.newTestOrg("away"), a.person("other")
	a.enter(other, h.org, domain.RoleMember)
	word := a.fresh()
	files := a.make(runID,
		blobdb.NewFile{Name: "kept", MIMEType: "text/plain", Content: []byte("secret " + word)}, blobdb.NewFile{Name: "doomed", MIMEType: "text/plain", Content: []byte(word)})
	target := "/api/files?id=" + files[0].ID
	for name, caller := range map[string][]string{
		"whose run it is": {h.member.auth, h.header}, "by cookie": {h.member.cookie, h.header}, "admin": {h.admin.auth, h.header}, "owner": {h.owner.auth}, "key": {h.key},
	} {
		if got := a.from("GET", target, "", caller...).want(t, name, 200, ""); string(got.body) != "secret "+word {
			t.Errorf("%s: %s", name, got.body)
		}
	}
	a.from("GET", target, "").want(t, "nobody", 401, "unauthenticated")
	a.from("GET", target, "", sayDemo).want(t, "demo", 403, "demo_restricted")
	a.from("GET", "/api/files", "", h.key).want(t, "no id", 400, "invalid_request id:required")
	a.from("GET", target+"&id="+files[0].ID, "", h.key).want(t, "two ids", 400, "invalid_request id:duplicate")
	if got := a.from("HEAD", target, "", h.key).want(t, "without the content", 200, ""); len(got.body) != 0 || got.header.Get("Content-Length") != strconv.Itoa(len("secret "+word)) ||
		got.header.Get("ETag") != `"`+files[0].SHA256+`"` {
		t.Errorf("%v %s", got.header, got.body)
	}
	if got := a.from("PUT", target, "", h.key).want(t, "another method", 405, "method_not_allowed"); got.header.Get("Allow") != "GET, POST, HEAD" {
		t.Errorf("%v", got.header)
	}

	missing := a.from("GET", "/api/files?id="+id.New(id.File), "", h.key).want(t, "missing", 404, "not_found").shown()
	same := func(what, target string, caller ...string) {
		t.Helper()
		got := a.from("GET", target, "", caller...)
		if got.shown() != missing {
			t.Errorf("%s: %s\nwant\n%s", what, got.shown(), missing)
		}
	}
	same("malformed", "/api/files?id=x", h.key)
	same("a run's id", "/api/files?id="+runID, h.key)
	same("foreign", target, away.key)
	same("foreign, known", target, away.key, `If-None-Match: "`+files[0].SHA256+`"`)
	same("foreign, in part", target, away.key, "Range: bytes=999-")
	same("another member's", target, other.auth, h.header)
	same("a member's, by another's key", target, a.userKey(h, other), h.header)

	a.exec(`UPDATE files SET hash = NULL WHERE id = $1`, files[1].ID)
	same("removed", "/api/files?id="+files[1].ID, h.key)
	a.exec(`UPDATE runs SET expires_at = now() - interval '1 second' WHERE id = $1`, runID)
	same("of a run whose retention period has ended", target, h.key)
	a.exec(`UPDATE runs SET expires_at = NULL WHERE id = $1`, runID)
	a.ok("GET", target, "", h.key)
	agent := a.ok("GET", "/api/runs?id="+runID, "", h.key).text(t, "agentId")
	a.ok("DELETE", "/api/sessions?id=s&agentId="+agent, "", h.member.auth, h.header)
	same("of an erased run", target, h.member.auth, h.header)
	a.logsClean(word)
}

func (a *runEnv) userKey(h *testOrg, p person) string {
	key, _ := a.newKey(h, p, domain.KeyScopeUser)
	return key
}

// Files with equal content have the same entity tag in all organizations. Therefore the tag does
// not reveal whether another organization has such a file.
func TestSameFilesOfTwoOrganizations(t *testing.T) {
	t.Parallel()
	a, h, runID := fileEnv(t)
	away := a.newTestOrg("away")
	content := blobdb.NewFile{Name: "same.txt", MIMEType: "text/plain", Content: []byte("the same")}
	one := a.make(runID, content)[0]
	other := a.make(a.newChat(away, a.newAgent(away), "s", away.key), content)[0]
	if one.ID == other.ID || one.SHA256 != other.SHA256 {
		t.Fatalf("%+v and %+v", one, other)
	}
	a.exec(`DELETE FROM files WHERE id = $1`, other.ID)
	if got := a.ok("GET", "/api/files?id="+one.ID, "", h.key); string(got.body) != "the same" {
		t.Errorf("%s", got.body)
	}
	a.from("GET", "/api/files?id="+other.ID, "", away.key).want(t, "gone", 404, "not_found")
	a.from("GET", "/api/files?id="+one.ID, "", away.key).want(t, "the other's", 404, "not_found")
}

// If a file's content is deleted during a download, the client gets an error if nothing was sent
// yet. Otherwise the client's connection is closed.
func TestFilesDeletedDuringDownload(t *testing.T) {
	t.Parallel()
	a, h, runID := fileEnv(t)
	f := a.make(runID, blobdb.NewFile{Name: "x.png", MIMEType: "image/png", Content: numbers(3 << 20)})[0]
	server := httptest.NewServer(a.serving())
	t.Cleanup(server.Close)
	read := func() (promised int64, got []byte, err error) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/api/files?id="+f.ID, nil)
		must(t, err)
		name, value, _ := strings.Cut(h.key, ": ")
		req.Header.Set(name, value)
		res, err := server.Client().Do(req)
		must(t, err)
		defer func() { _ = res.Body.Close() }()
		got, err = io.ReadAll(res.Body)
		return res.ContentLength, got, err
	}
	if _, got, err := read(); err != nil || !bytes.Equal(got, numbers(3<<20)) {
		t.Fatalf("complete download: %d bytes, %v", len(got), err)
	}
	a.exec(`DELETE FROM blob_chunks WHERE org_id = $1 AND n = 2`, h.org)
	promised, got, err := read()
	if err == nil || !bytes.Equal(got, numbers(2<<20)) || promised != 3<<20 {
		t.Errorf("download of a deleted content: %d bytes of %d, %v", len(got), promised, err)
	}
	a.exec(`DELETE FROM blob_chunks WHERE org_id = $1`, h.org)
	gone := a.from("GET", "/api/files?id="+f.ID, "", h.key).want(t, "without all", 404, "not_found")
	wantNoFileHeaders(t, "without all", gone)
	if open := len(a.api.downloads.Open); open != 0 {
		t.Errorf("%d places were kept", open)
	}
}

// callbackRecorder is a response recorder that calls a function when it receives the first piece of
// the body.
type callbackRecorder struct {
	*httptest.ResponseRecorder
	during func()
}

func (n *callbackRecorder) Write(p []byte) (int, error) {
	if f := n.during; f != nil {
		n.during = nil
		f()
	}
	return n.ResponseRecorder.Write(p)
}

// A download uses no database connection while it waits for its client.
func TestDownloadsOccupyNoDatabaseConnection(t *testing.T) {
	t.Parallel()
	a, h, runID := fileEnv(t)
	content := numbers(2<<20 + 1)
	f := a.make(runID, blobdb.NewFile{Name: "x", MIMEType: "text/plain", Content: content})[0]
	narrow, err := store.Open(a.dsn, 1)
	must(t, err)
	t.Cleanup(func() { _ = narrow.Close() })
	a.rebuild(func(d *Deps) { d.Store = narrow })
	ctx, cancel := context.WithTimeout(t.Context(), maxWait)
	defer cancel()
	ask := func(target string) *http.Request {
		req := httptest.NewRequestWithContext(ctx, http.MethodGet, target, nil)
		name, value, _ := strings.Cut(h.key, ": ")
		req.Header.Set(name, value)
		return req
	}
	asked := 0
	var client callbackRecorder
	download := func(during func()) {
		client = callbackRecorder{httptest.NewRecorder(), during}
		a.handler.ServeHTTP(&client, ask("/api/files?id="+f.ID))
		if !bytes.Equal(client.Body.Bytes(), content) {
			t.Errorf("%d with %d bytes", client.Code, client.Body.Len())
		}
	}
	download(func() {
		for _, target := range []string{"/api/agents", "/api/runs", "/api/files?id=" + f.ID} {
			asked++
			if got := a.send(ask(target)); got.status != 200 {
				t.Errorf("%s during a download: %d %s", target, got.status, got.body)
			}
		}
	})
	if asked != 3 {
		t.Errorf("%d requests during the download", asked)
	}
}

// The output of tool calls is shown unchanged in the run and in its events.
func TestToolOutputIsShownUnchanged(t *testing.T) {
	t.Parallel()
	a, h, runID := fileEnv(t)
	claims, err := a.store.Executions.Claim(t.Context(), []string{runID})
	must(t, err)
	held := claims[0].Run.Held()
	made, _, err := a.store.Blobs.KeepFiles(t.Context(), held, "call_1", []blobdb.NewFile{{Name: "a.csv", MIMEType: "text/csv", Content: []byte("1,2")}}, nil, 0)
	must(t, err)
	f := made[0].ID
	output := `{"stdout":"1 < 2 & \u2028 ü\n","value":"12345678901234567890.12345678901234567890","files":[{"id":"` + f +
		`","name":"a.csv","mimeType":"text/csv","bytes":3}],"leftOut":["core"],"limit":"output","note":"","error":"  File \"main.py\", line 1"}`
	input := `{"files":["a.csv"],"code":"print(1 < 2)\n"}`
	run := claims[0].Run.Run()
	answered := "done"
	run.Message, run.Output = &answered, &domain.Output{Message: answered}
	run.ToolCalls = []domain.ToolCall{{ID: "call_1", Name: "codeExecution", Status: "completed", Input: json.RawMessage(input), Output: json.RawMessage(output), DurationMS: 5}}
	run.End(domain.RunCompleted, nil, domain.At(claims[0].Run.Now), claims[0].Run.RetentionSecs)
	outcome, err := executiondb.NewOutcome(held, run)
	must(t, err)
	_, err = a.store.Executions.Finish(t.Context(), []executiondb.Outcome{outcome})
	must(t, err)
	var want any
	must(t, json.Unmarshal([]byte(output), &want))
	got := a.ok("GET", "/api/runs?id="+runID, "", h.member.auth, h.header)
	if seen := got.json(t, "toolCalls.0.output"); !reflect.DeepEqual(seen, want) || got.text(t, "toolCalls.0.input.code") != "print(1 < 2)\n" {
		t.Errorf("the run shows %s", got.body)
	}
	if list := a.ok("GET", "/api/runs", "", h.member.auth, h.header); list.text(t, "data.0.toolCalls.0.name") != "codeExecution" ||
		list.json(t, "data.0.toolCalls.0.output") != nil {
		t.Errorf("the list shows %s", list.body)
	}
	if events := a.ok("GET", "/api/runs?stream=1&id="+runID, "", h.member.auth, h.header); !strings.Contains(string(events.body), f) {
		t.Errorf("events %s", events.body)
	}
	a.ok("GET", "/api/files?id="+f, "", h.member.auth, h.header)
}

func TestKeepFiles(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	ada := w.signUp("ada@example.com")
	for tools, problems := range map[string]string{
		`{"codeExecution":{"enabled":true,"keepFiles":"yes"}}`: "tools.codeExecution.keepFiles:invalid_type",
		`{"codeExecution":{"enabled":true,"keepFiles":null}}`:  "tools.codeExecution.keepFiles:invalid_type",
		`{"codeExecution":{"enabled":true,"keepFiles":1}}`:     "tools.codeExecution.keepFiles:invalid_type",
		`{"codeExecution":{"enabled":true,"keepfiles":true}}`:  "tools.codeExecution.keepfiles:unknown_field",
		`{"codeExecution":{"keepFiles":true}}`:                 "tools.codeExecution.enabled:required",
		`{"webSearch":{"enabled":true,"keepFiles":true}}`:      "tools.webSearch.keepFiles:unknown_field",
		`{"codeExecution":{"enabled":0,"keepFiles":[],"approval":"x","state":true}}`: "tools.codeExecution.enabled:invalid_type tools.codeExecution.keepFiles:invalid_type " +
			"tools.codeExecution.state:unknown_field tools.codeExecution.approval:invalid_value",
	} {
		w.do("POST", "/api/agents", `{"name":"x","systemPrompt":"p","tools":`+tools+`}`, ada.auth).want(t, tools, 400, "invalid_request "+problems)
	}
	agentID := w.agent(ada, `{"name":"x","systemPrompt":"p","tools":{"codeExecution":{"enabled":true}}}`)
	for _, c := range [][2]string{
		{`{}`, `{"enabled":true}`},
		{`{"tools":{"codeExecution":{"keepFiles":true}}}`, `{"enabled":true,"keepFiles":true}`},
		{`{"name":"y","tools":{"webSearch":{"enabled":true}}}`, `{"enabled":true,"keepFiles":true}`},
		{`{"tools":{"codeExecution":{"approval":"always"}}}`, `{"enabled":true,"approval":"always","keepFiles":true}`},
		{`{"tools":{"codeExecution":{"enabled":false}}}`, `{"enabled":false,"approval":"always","keepFiles":true}`},
		{`{"tools":{"codeExecution":{"enabled":true,"keepFiles":false}}}`, `{"enabled":true,"approval":"always"}`},
		{`{"tools":{"codeExecution":{}}}`, `{"enabled":true,"approval":"always"}`},
	} {
		w.do("PUT", "/api/agents?id="+agentID, c[0], ada.auth).want(t, c[0], 200, "")
		got, err := json.Marshal(w.do("GET", "/api/agents?id="+agentID, "", ada.auth).json(t, "tools.codeExecution"))
		must(t, err)
		var seen, want any
		must(t, json.Unmarshal(got, &seen))
		must(t, json.Unmarshal([]byte(c[1]), &want))
		if !reflect.DeepEqual(seen, want) {
			t.Errorf("%s: %s, want %s", c[0], got, c[1])
		}
		agent, err := w.store.Agents.Agent(t.Context(), ada.org, agentID)
		must(t, err)
		if kept := strings.Contains(c[1], `"keepFiles":true`); agent.Tools.CodeExecution.KeepFiles != kept {
			t.Errorf("%s: stored %+v", c[0], agent.Tools.CodeExecution)
		}
	}
}
