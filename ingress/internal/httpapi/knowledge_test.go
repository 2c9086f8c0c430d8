package httpapi

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/httpapi/knowledge"
	"parley/ingress/internal/httpapi/transfer"
	"parley/shared/domain"
	"parley/shared/id"
)

func TestDocumentsAsJSON(t *testing.T) {
	t.Parallel()
	a, h := knowledgeEnv(t)
	for body, want := range map[string][2]string{ // the name and type of the document, or its problems
		`{"name":"a.md","content":"# ä\u2028\n\ttext"}`:                             {"a.md", "text/markdown"},
		`{"name":"dir/b","content":"b","mimeType":"text/HTML; charset=UTF-8; x=y"}`: {"b", "text/html"},
		`{"name":"c","content":"c","metadata":{}}`:                                  {"c", "text/plain"},
		`{"name":"d.pdf","contentBase64":"JVBERi0xLjc=","mimeType":""}`:             {"d.pdf", "application/pdf"},
		`{"name":"e","contentBase64":"` + "AAEC\\nAwQF" + `"}`:                      {"e", "application/octet-stream"},
		`{"name":"..","content":"f"}`:                                               {"document", "text/plain"},
		`{"url":"https://example.com/files/report%202.pdf?x=1"}`:                    {"report 2.pdf", "application/pdf"},
		`{"url":"http://example.com"}`:                                              {"example.com", "application/octet-stream"},
		`{"url":"https://example.com/a/","name":"n.html"}`:                          {"n.html", "text/html"},
		`{}`:                                  {"content:required"},
		`{"name":"a"}`:                        {"content:required"},
		`{"content":"a"}`:                     {"name:required"},
		`{"name":"","content":""}`:            {"name:too_short content:too_short"},
		`{"name":"a","contentBase64":""}`:     {"contentBase64:too_short"},
		`{"name":"a","contentBase64":"a"}`:    {"contentBase64:invalid_value"},
		`{"name":"a","contentBase64":"_-8="}`: {"contentBase64:invalid_value"},
		`{"name":"a","contentBase64":"QR=="}`: {"contentBase64:invalid_value"},
		`{"name":"a","content":"a","contentBase64":"QQ==","url":"https://example.com/"}`: {"contentBase64:conflict url:conflict"},
		`{"name":"a","content":"a\u0000b"}`:                                              {"content:invalid_value"},
		`{"name":"a\u0000","content":1}`:                                                 {"name:invalid_value content:invalid_type"},
		`{"name":"` + strings.Repeat("a", 256) + `","content":"a","mimeType":"x"}`:       {"name:too_long mimeType:invalid_value"},
		`{"url":"ftp://example.com/"}`:                                                   {"url:invalid_value"},
		`{"url":"https://a:b@example.com/"}`:                                             {"url:invalid_value"},
		`{"url":null}`:                                                                   {"url:invalid_type"},
		`{"url":"https://example.com/` + strings.Repeat("a", 2048) + `"}`:                {"url:too_long"},
		`{"name":"a","content":"a","size":1,"Name":"b","metadata":{"a":1}}`:              {"size:unknown_field Name:unknown_field metadata.a:invalid_type"},
		`{"name":"a","content":"a","status":"ready","id":"doc_x"}`:                       {"status:unknown_field id:unknown_field"},
	} {
		got := a.from("POST", "/api/knowledge", body, h.key)
		if want[1] == "" {
			got.want(t, body, 400, "invalid_request "+want[0])
			continue
		}
		got.want(t, body, 202, "")
		if got.text(t, "name") != want[0] || got.text(t, "mimeType") != want[1] || a.notifyRecorder.jobsFor(got.text(t, "id")) != 1 {
			t.Errorf("%s gives %s", body, got.body)
		}
	}
	text := a.ok("POST", "/api/knowledge", `{"name":"t","content":"\"\\ \u00e4\ud83d\ude00\r\n"}`, h.key).text(t, "id")
	if back := a.ok("GET", "/api/knowledge?content=1&id="+text, "", h.key); string(back.body) != "\"\\ ä😀\r\n" {
		t.Errorf("%q", back.body)
	}
	again := a.ok("POST", "/api/knowledge", `{"url":"http://example.com"}`, h.key).text(t, "id")
	if n := a.notifyRecorder.jobsFor(again); n > 2 || a.from("GET", "/api/knowledge?content=1&id="+again, "", h.key).status != 404 {
		t.Errorf("an address that is not fetched yet: %d job notifications", n)
	}
	a.from("POST", "/api/knowledge?id="+text, `{"name":"a","content":"a"}`, h.key).want(t, "without the action", 400, "invalid_request action:required")
	a.from("POST", "/api/knowledge?action=read&id="+text, `{}`, h.key).want(t, "another action", 400, "invalid_request action:invalid_value")
}

func TestLargeDocumentsAsJSON(t *testing.T) {
	t.Parallel()
	a, h := knowledgeEnv(t)
	content := numbers(knowledge.MaxDocument + 1)
	body := func(n int) string {
		return `{"name":"a.bin","contentBase64":"` + base64.StdEncoding.EncodeToString(content[:n]) + `"}`
	}
	a.from("POST", "/api/knowledge", body(knowledge.MaxDocument+1), h.key).want(t, "one byte more", 413, "payload_too_large contentBase64:too_long")
	a.from("POST", "/api/knowledge", `{"name":"a","content":"`+string(content)+`"}`, h.key).want(t, "as text", 413, "payload_too_large content:too_long")
	a.from("POST", "/api/knowledge", body(10)+strings.Repeat(" ", knowledge.MaxDocumentBody), h.key).want(t, "more than is read", 413, "payload_too_large")
	if a.contents(h.org) != 0 || len(a.api.knowledge.Texts.Open) != 0 {
		t.Errorf("%d contents and %d places stay", a.contents(h.org), len(a.api.knowledge.Texts.Open))
	}
	got := a.from("POST", "/api/knowledge", body(knowledge.MaxDocument), h.key).want(t, "of the maximum size", 202, "")
	if back := a.ok("GET", "/api/knowledge?content=1&id="+got.text(t, "id"), "", h.key); !bytes.Equal(back.body, content[:knowledge.MaxDocument]) {
		t.Errorf("%d bytes come back", len(back.body))
	}
	escaped := `{"name":"a","content":"` + strings.Repeat(`\u00e4`, 100_000) + `"}`
	id := a.ok("PUT", "/api/knowledge?id="+got.text(t, "id"), escaped, h.key).text(t, "id")
	if back := a.ok("GET", "/api/knowledge?content=1&id="+id, "", h.key); string(back.body) != strings.Repeat("ä", 100_000) {
		t.Errorf("%d bytes come back", len(back.body))
	}
	slot := takeSlot(t, &a.api.knowledge.Texts, nil, callerOwner(callerFor(t, a, h)))
	larger := `{"name":"a","content":"` + strings.Repeat(`\u00e4`, 200_000) + `"}`
	a.from("POST", "/api/knowledge", larger, h.key).want(t, "beside another", 429, "rate_limited")
	a.from("PUT", "/api/knowledge?id="+id, larger, h.key).want(t, "beside another", 429, "rate_limited")
	a.from("PUT", "/api/knowledge?id="+id, escaped, h.key).want(t, "a medium one beside another", 202, "")
	a.ok("POST", "/api/knowledge", `{"name":"a","content":"small"}`, h.key)
	a.api.knowledge.Texts.Leave(slot)
}

// callerFor returns the caller with the organization's key.
func callerFor(t *testing.T, a *runEnv, h *testOrg) domain.Caller {
	t.Helper()
	name, value, _ := strings.Cut(h.key, ": ")
	req := request("GET", "/api/knowledge", "", "").WithContext(t.Context())
	req.Header = http.Header{name: {value}}
	ident, err := a.api.Auth.Resolve(req, 0)
	must(t, err)
	return ident.Caller
}

func TestDocumentsChange(t *testing.T) {
	t.Parallel()
	a, h := knowledgeEnv(t)
	documentID := a.document(h)
	target := "/api/knowledge?id=" + documentID
	put := func(body string) answer { t.Helper(); return a.from("PUT", target, body, h.key) }
	before := a.ok("GET", target, "", h.key)
	same := put(string(before.body)).want(t, "as it was read", 200, "")
	if same.text(t, "status") != "ready" || same.text(t, "name") != before.text(t, "name") || same.text(t, "metadata.team") != "home" {
		t.Errorf("the document after the PUT = %s", same.body)
	}
	named := put(`{"name":"x/new.md"}`).want(t, "a name", 202, "") // a new name must be processed, because searches also find words of the name
	tagged := put(`{"metadata":{"a":"b"}}`).want(t, "metadata", 200, "")
	if named.text(t, "name") != "new.md" || tagged.text(t, "metadata.a") != "b" || tagged.json(t, "metadata.team") != nil || tagged.text(t, "status") != "queued" || a.notifyRecorder.jobsFor(documentID) != 2 {
		t.Errorf("%s, then %s", named.body, tagged.body)
	}
	put(`{}`).want(t, "nothing", 200, "")

	fresh := put(`{"content":"another content"}`).want(t, "a content", 202, "")
	if fresh.text(t, "status") != "queued" || fresh.text(t, "name") != "new.md" || fresh.text(t, "metadata.a") != "b" || fresh.json(t, "chunks") != 0.0 || fresh.text(t, "id") != documentID ||
		fresh.text(t, "mimeType") != "text/markdown" || a.notifyRecorder.jobsFor(documentID) != 3 || a.contents(h.org) != 1 {
		t.Errorf("%s, %d contents, %d job notifications", fresh.body, a.contents(h.org), a.notifyRecorder.jobsFor(documentID))
	}
	if back := a.ok("GET", target+"&content=1", "", h.key); string(back.body) != "another content" {
		t.Errorf("%s", back.body)
	}
	a.from("GET", target+"&page=1", "", h.key).want(t, "a page of what is not read", 404, "not_found")
	formed := a.form("PUT", target, []filePart{{name: "file", file: "formed.csv", content: "a,b"}}, h.key).want(t, "a form", 202, "")
	if formed.text(t, "name") != "formed.csv" || formed.text(t, "mimeType") != "text/csv" || formed.text(t, "metadata.a") != "b" {
		t.Errorf("%s", formed.body)
	}
	formed = a.form("PUT", target, []filePart{{name: "file", file: "f", content: "c,d"}, {name: "metadata", content: "{}"}}, h.key)
	if formed.status != 202 || formed.json(t, "metadata.a") != nil {
		t.Errorf("%s", formed.body)
	}
	fetched := put(`{"url":"https://example.com/x.html"}`).want(t, "an address", 202, "")
	if fetched.text(t, "url") != "https://example.com/x.html" || fetched.json(t, "sha256") != nil || a.contents(h.org) != 0 {
		t.Errorf("%s, %d contents", fetched.body, a.contents(h.org))
	}
	put(`{"url":"https://example.com/x.html","name":"y"}`).want(t, "the same address", 200, "")
	put(`{"url":null,"name":"y"}`).want(t, "no address", 400, "invalid_request url:invalid_value")

	other := a.ok("POST", "/api/knowledge", `{"name":"o","content":"taken"}`, h.key).text(t, "id")
	taken := put(`{"content":"taken"}`).want(t, "another's content", 409, "document_exists")
	if !strings.Contains(taken.text(t, "detail"), other) || a.contents(h.org) != 1 {
		t.Errorf("%s, %d contents", taken.body, a.contents(h.org))
	}
	for body, problems := range map[string]string{
		`{"name":""}`:                        "name:too_short",
		`{"id":"doc_x"}`:                     "id:invalid_value",
		`{"content":"a","url":"https://a/"}`: "url:conflict",
		`{"createdBy":"me","pages":"x","metadata":{"":""}}`: "createdBy:unknown_field pages:invalid_type metadata:invalid_value",
	} {
		put(body).want(t, body, 400, "invalid_request "+problems)
	}
	a.form("PUT", target, []filePart{{name: "file", content: "a"}, {name: "file", content: "b"}}, h.key).want(t, "two files", 400, "invalid_request file:too_long").says(t, "must be sent only once")
	a.form("PUT", target, []filePart{{name: "file", content: ""}}, h.key).want(t, "an empty file", 400, "invalid_request file:too_short")
	a.form("PUT", "/api/knowledge?id="+id.New(id.Document), []filePart{{name: "file", content: "kept nowhere"}}, h.key).want(t, "of none", 404, "not_found")
	a.from("PUT", "/api/knowledge", `{"name":"a"}`, h.key).want(t, "without an id", 400, "invalid_request id:required")
	if a.contents(h.org) != 1 {
		t.Errorf("%d contents", a.contents(h.org))
	}
}

func TestDocumentsAreReadAgain(t *testing.T) {
	t.Parallel()
	a, h := knowledgeEnv(t)
	documentID := a.document(h)
	again := func(jobs int) answer {
		t.Helper()
		got := a.from("POST", "/api/knowledge?action=retry&id="+documentID, "", h.key).want(t, "again", 202, "")
		if got.text(t, "status") != "queued" || a.notifyRecorder.jobsFor(documentID) != jobs {
			t.Errorf("%s, jobs %d times, want %d", got.body, a.notifyRecorder.jobsFor(documentID), jobs)
		}
		return got
	}
	again(2)
	again(2) // the document is already queued
	a.exec(`UPDATE documents SET status = 'failed', error_code = 'unreadable', error_message = 'It cannot be read.' WHERE id = $1`, documentID)
	if got := a.ok("GET", "/api/knowledge?id="+documentID, "", h.memberKey, h.header); got.text(t, "error.code") != "unreadable" || got.text(t, "error.message") != "It cannot be read." {
		t.Errorf("%s", got.body)
	}
	if got := again(3); got.json(t, "error") != nil {
		t.Errorf("%s", got.body)
	}
	a.from("POST", "/api/knowledge?action=retry&id="+documentID, `{"name":"another"}`, h.key).want(t, "with a field", 400, "invalid_request name:unknown_field")
	a.from("POST", "/api/knowledge?action=retry", "", h.key).want(t, "without an id", 400, "invalid_request id:required")
}

func TestListOfDocuments(t *testing.T) {
	t.Parallel()
	a, h := knowledgeEnv(t)
	if got := a.ok("GET", "/api/knowledge", "", h.key); string(got.body) != `{"data":[],"hasMore":false,"nextCursor":null}` {
		t.Errorf("none: %s", got.body)
	}
	var ids []string
	for n := range 5 {
		ids = append(ids, a.ok("POST", "/api/knowledge", fmt.Sprintf(`{"name":"Doc 10%% %d_%d","content":"%d"}`, n%2, n, n), h.key).text(t, "id"))
	}
	slices.Reverse(ids)
	a.exec(`UPDATE documents SET status = 'failed', error_code = 'c', error_message = 'm' WHERE id = $1`, ids[2])
	listed := func(query string) (seen []string) {
		t.Helper()
		for cursor := ""; ; {
			got := a.ok("GET", "/api/knowledge?limit=2"+query+cursor, "", h.memberKey, h.header)
			list, _ := got.json(t, "data").([]any)
			for _, entry := range list {
				doc, _ := entry.(map[string]any)
				documentID, _ := doc["id"].(string)
				seen = append(seen, documentID)
			}
			if got.json(t, "hasMore") == false {
				return seen
			}
			cursor = "&cursor=" + url.QueryEscape(got.text(t, "nextCursor"))
		}
	}
	for query, want := range map[string][]string{
		"": ids, "&q=dOC": ids, "&q=1_": {ids[1], ids[3]}, "&q=10%25": ids, "&q=%25%25": nil, "&q=nothing": nil,
		"&status=failed": {ids[2]}, "&status=queued&q=0_": {ids[0], ids[4]}, "&status=ready": nil,
	} {
		if seen := listed(query); !slices.Equal(seen, want) {
			t.Errorf("%s: %v, want %v", query, seen, want)
		}
	}
}

// Parameters of a list, a search and a read cannot be combined.
func TestKnowledgeParameters(t *testing.T) {
	t.Parallel()
	a, h := knowledgeEnv(t)
	at := "id=" + a.document(h)
	for query, problems := range map[string]string{
		"limit=0": "limit:invalid_value", "limit=101&cursor=x&status=open&q=" + strings.Repeat("a", 121): "limit:invalid_value cursor:invalid_value q:too_long status:invalid_value",
		"status=": "status:invalid_value", "status=ready&status=failed": "status:duplicate", "q=a&q=b": "q:duplicate", "cursor=" + base64.RawURLEncoding.EncodeToString([]byte("doc_x")): "cursor:invalid_value",
		"page=1": "id:required", "content=1&chunk=0": "id:required", "documentId=" + id.New(id.Document): "query:required", "metadata=a:b&page=1": "id:required",
		at + "&limit=5": "limit:conflict", at + "&query=a": "query:conflict", at + "&q=a&status=ready&cursor=a&documentId=x&metadata=y": "cursor:conflict documentId:conflict metadata:conflict q:conflict status:conflict",
		at + "&page=1&chunk=1": "chunk:conflict", at + "&page=1&content=1": "page:conflict", at + "&chunk=1&content=1": "chunk:conflict",
		at + "&page=0": "page:invalid_value", at + "&page=-1": "page:invalid_value", at + "&page=01": "page:invalid_value", at + "&page=x": "page:invalid_value", at + "&page=": "page:invalid_value",
		at + "&page=9999999": "page:invalid_value", at + "&chunk=-1": "chunk:invalid_value", at + "&chunk=1.0": "chunk:invalid_value", at + "&chunk=99999999999999999999": "chunk:invalid_value",
		at + "&content=0": "content:invalid_value", at + "&content=": "content:invalid_value", at + "&content=1&content=1": "content:duplicate", at + "&page=1&page=2": "page:duplicate", at + "&" + at: "id:duplicate",
		"query=": "query:invalid_value", "query=%20%0a": "query:too_short", "query=" + strings.Repeat("a", 1001): "query:too_long", "query=a&query=b": "query:duplicate",
		"query=a&limit=51": "limit:invalid_value", "query=a&limit=0": "limit:invalid_value", "query=a&q=b&status=ready": "q:conflict status:conflict",
		"query=a&documentId=x&documentId=" + strings.TrimPrefix(at, "id=") + "&documentId=" + strings.TrimPrefix(at, "id="): "documentId[0]:invalid_value documentId[2]:duplicate",
		"query=a&metadata=a&metadata=b:c&metadata=b:d&metadata=:e&metadata=f:" + strings.Repeat("x", 257):                   "metadata[0]:invalid_value metadata[2]:duplicate metadata[3]:invalid_value metadata[4]:too_long",
		"query=a" + strings.Repeat("&documentId="+id.New(id.Document), 101):                                                 "documentId[1]:duplicate",
	} {
		got := a.from("GET", "/api/knowledge?"+query, "", h.key)
		if seen := got.problems(t); got.status != 400 || seen != "invalid_request "+problems && !strings.HasPrefix(seen, "invalid_request documentId[1]:duplicate ") {
			t.Errorf("%.200s: %d %s, want %s", query, got.status, seen, problems)
		}
	}
	many, more := "query=a", "query=a"
	for n := range 101 {
		many += "&documentId=" + id.New(id.Document)
		more += fmt.Sprint("&metadata=k", n, ":v")
	}
	a.from("GET", "/api/knowledge?"+many, "", h.key).want(t, "101 documents", 400, "invalid_request documentId:too_long")
	a.from("GET", "/api/knowledge?"+more, "", h.key).want(t, "101 names", 400, "invalid_request metadata:too_long")
	for query, status := range map[string]int{"": 200, at: 200, at + "&content=1&page=1": 400, at + "&content=2": 400} {
		if got := a.from("HEAD", "/api/knowledge?"+query, "", h.key); got.status != status {
			t.Errorf("HEAD %s: %d", query, got.status)
		}
	}
	if got := a.from("PATCH", "/api/knowledge?"+at, "{}", h.key).want(t, "another method", 405, "method_not_allowed"); got.header.Get("Allow") == "" {
		t.Errorf("%v", got.header)
	}
}

func TestPagesAndPassages(t *testing.T) {
	t.Parallel()
	a, h := knowledgeEnv(t)
	documentID := a.ok("POST", "/api/knowledge", `{"name":"a.pdf","content":"x"}`, h.key).text(t, "id")
	target := "/api/knowledge?id=" + documentID
	for _, query := range []string{"&page=1", "&chunk=0"} {
		a.from("GET", target+query, "", h.key).want(t, "while it waits", 404, "not_found").says(t, "the document is queued")
	}
	a.saveProcessed(documentID, 3, "Größe und Maß", "second", "third", "fourth")
	a.exec(`UPDATE document_chunks SET page = 2, start_at = 0, end_at = 6, headings = '{A,B}', box = '{1,2,3.5,4}' WHERE document_id = $1 AND n = 3`, documentID)
	page := a.ok("GET", target+"&page=1", "", h.memberKey, h.header)
	if page.text(t, "text") != "Größe und Maß\n\nsecond\n\nthird" || page.json(t, "page") != 1.0 || page.json(t, "pages") != 3.0 || page.text(t, "name") != "a.pdf" || page.text(t, "documentId") != documentID {
		t.Errorf("%s", page.body)
	}
	text := []rune(page.text(t, "text"))
	for n := range 3 {
		at := "passages." + strconv.Itoa(n)
		from, _ := page.json(t, at+".startIndex").(float64)
		to, _ := page.json(t, at+".endIndex").(float64)
		if got := string(text[int(from):int(to)]); got != page.text(t, at+".text") || page.json(t, at+".chunk") != float64(n) {
			t.Errorf("%s is %q in the page, %q by itself", at, got, page.text(t, at+".text"))
		}
	}
	two := a.ok("GET", target+"&page=2", "", h.key)
	if two.text(t, "text") != "fourth" || two.text(t, "passages.0.headings.1") != "B" || two.json(t, "passages.0.box.2") != 3.5 {
		t.Errorf("%s", two.body)
	}
	if empty := a.ok("GET", target+"&page=3", "", h.key); empty.text(t, "text") != "" || fmt.Sprint(empty.json(t, "passages")) != "[]" {
		t.Errorf("%s", empty.body)
	}
	for chunk, want := range map[int]string{0: "[0 1]", 1: "[0 1 2]", 3: "[2 3]"} {
		got := a.ok("GET", target+"&chunk="+strconv.Itoa(chunk), "", h.key)
		list, _ := got.json(t, "passages").([]any)
		var seen []any
		for _, p := range list {
			passage, _ := p.(map[string]any)
			seen = append(seen, passage["chunk"])
		}
		if fmt.Sprint(seen) != want || got.text(t, "name") != "a.pdf" {
			t.Errorf("around %d: %s", chunk, got.body)
		}
	}
	for query, says := range map[string]string{
		"&page=4":  "page 4 does not exist; the last page is 3",
		"&chunk=4": "passage 4 does not exist; the document's 4 passages are numbered from 0",
	} {
		a.from("GET", target+query, "", h.key).want(t, query, 404, "not_found").says(t, says)
	}
	a.exec(`UPDATE documents SET pages = NULL WHERE id = $1`, documentID)
	a.from("GET", target+"&page=1", "", h.key).want(t, "a page of what has none", 404, "not_found").says(t, "has no pages; use the parameter chunk to read one of its 4 passages")
	// The error for another organization's document does not reveal its number of pages.
	other := a.newTestOrg("other")
	missing := a.from("GET", "/api/knowledge?id="+id.New(id.Document)+"&page=1", "", other.key).shown()
	for _, query := range []string{"&page=1", "&page=4", "&chunk=4"} {
		if got := a.from("GET", target+query, "", other.key); got.shown() != missing {
			t.Errorf("%s: %s", query, got.shown())
		}
	}
}

// A spreadsheet may have all of its text on one page. If a page is long, the response contains only
// the beginning of its text. Only a few clients can read such pages at the same time.
func TestLongPages(t *testing.T) {
	t.Parallel()
	a, h := knowledgeEnv(t)
	documentID := a.ok("POST", "/api/knowledge", `{"name":"a.xlsx","content":"x"}`, h.key).text(t, "id")
	target := "/api/knowledge?id=" + documentID + "&page=1"
	for _, passages := range []int{knowledge.MaxPagePassages, knowledge.MaxPagePassages + 1} {
		var truncated any // nil unless the page is truncated
		if passages > knowledge.MaxPagePassages {
			truncated = true
		}
		a.exec(`DELETE FROM document_chunks WHERE document_id = $1`, documentID)
		a.exec(`INSERT INTO document_chunks (org_id, document_id, n, page, headings, start_at, end_at, text, terms)
			SELECT $2, $1, n, 1, '{}', n * 5, n * 5 + 4, 'r' || lpad(n::text, 3, '0'), '' FROM generate_series(0, $3 - 1) n`, documentID, h.org, passages)
		a.exec(`UPDATE documents SET status = 'ready', pages = 1, pages_done = 1, chunks = $2 WHERE id = $1`, documentID, passages)
		got := a.ok("GET", target, "", h.key)
		list, _ := got.json(t, "passages").([]any)
		if len(list) != knowledge.MaxPagePassages || got.json(t, "truncated") != truncated || !strings.HasSuffix(got.text(t, "text"), fmt.Sprint("\nr", knowledge.MaxPagePassages-1)) {
			t.Errorf("%d passages: %d, truncated %v", passages, len(list), got.json(t, "truncated"))
		}
	}
	next := a.ok("GET", fmt.Sprint("/api/knowledge?id=", documentID, "&chunk=", knowledge.MaxPagePassages), "", h.key)
	if next.text(t, "passages.1.text") != fmt.Sprint("r", knowledge.MaxPagePassages) {
		t.Errorf("%s", next.body)
	}
	var slots []*transfer.Slot
	for range transfer.FilesPerCredential {
		slots = append(slots, takeSlot(t, &a.api.downloads, nil, callerOwner(callerFor(t, a, h))))
	}
	a.from("GET", target, "", h.key).want(t, "beside many others", 429, "rate_limited")
	for _, p := range slots {
		a.api.downloads.Leave(p)
	}
	a.ok("GET", target, "", h.key)
}

func TestOriginalsOfDocuments(t *testing.T) {
	t.Parallel()
	a, h := knowledgeEnv(t)
	content := string(numbers(2<<20 + 100))
	sent := a.form("POST", "/api/knowledge", []filePart{{name: "file", file: "größe.pdf", content: content}}, h.key)
	target, etag := "/api/knowledge?content=1&id="+sent.text(t, "id"), `"`+sent.text(t, "sha256")+`"`
	got := a.ok("GET", target, "", h.member.cookie, h.header)
	for name, want := range map[string]string{
		"Content-Type": "application/pdf", "Content-Disposition": `attachment; filename="gr__e.pdf"; filename*=UTF-8''gr%C3%B6%C3%9Fe.pdf`, "ETag": etag,
		"Cache-Control": "private, no-cache, no-transform", "Content-Security-Policy": "sandbox; default-src 'none'", "Cross-Origin-Resource-Policy": "same-origin",
		"Accept-Ranges": "bytes", "X-Content-Type-Options": "nosniff", "Vary": transfer.FileVaries, "Content-Length": strconv.Itoa(len(content)), "Last-Modified": "",
	} {
		if got.header.Get(name) != want {
			t.Errorf("%s: %q, want %q", name, got.header.Get(name), want)
		}
	}
	if string(got.body) != content {
		t.Errorf("%d bytes", len(got.body))
	}
	for _, method := range []string{"GET", "HEAD"} {
		part := a.from(method, target, "", h.key, "Range: bytes=1048570-1048580")
		if part.status != 206 || part.header.Get("Content-Range") != "bytes 1048570-1048580/"+strconv.Itoa(len(content)) || method == "GET" && string(part.body) != content[1048570:1048581] {
			t.Errorf("%s of a part: %d %v", method, part.status, part.header)
		}
		if known := a.from(method, target, "", h.key, "If-None-Match: "+etag); known.status != 304 || known.header.Get("Cache-Control") != "private, no-cache, no-transform" {
			t.Errorf("%s with known data: %d %v", method, known.status, known.header)
		}
		if beyond := a.from(method, target, "", h.key, "Range: bytes=99999999-"); beyond.status != 416 {
			t.Errorf("%s beyond: %d", method, beyond.status)
		}
	}
	if head := a.ok("HEAD", target, "", h.key); head.header.Get("Content-Length") != strconv.Itoa(len(content)) || len(head.body) > 0 {
		t.Errorf("%v", head.header)
	}
	a.ok("PUT", "/api/knowledge?id="+sent.text(t, "id"), `{"content":"{\"a\": [1e400]}","mimeType":"application/json"}`, h.key)
	if fresh := a.ok("GET", target, "", h.key, "If-None-Match: "+etag); fresh.status != 200 || string(fresh.body) != `{"a": [1e400]}` || fresh.header.Get("Content-Type") != httpx.ContentJSON {
		t.Errorf("after a replacement: %d %v %s", fresh.status, fresh.header, fresh.body)
	}
	a.ok("PUT", "/api/knowledge?id="+sent.text(t, "id"), `{"content":"<script>alert(1)</script>","mimeType":"text/html"}`, h.key)
	if page := a.ok("GET", target, "", h.key); page.header.Get("Content-Type") != "application/octet-stream" || !strings.HasPrefix(page.header.Get("Content-Disposition"), "attachment") {
		t.Errorf("a page: %v", page.header)
	}
	if open := len(a.api.downloads.Open); open != 0 {
		t.Errorf("%d places are kept", open)
	}
}

func TestMetadataOfKnowledge(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	ada := w.signUp("ada@example.com")
	for tool, problems := range map[string]string{
		`{"enabled":true,"metadata":[]}`:                                       "tools.knowledge.metadata:invalid_type",
		`{"enabled":true,"metadata":{},"documentIds":[]}`:                      "tools.knowledge.documentIds:too_short tools.knowledge.metadata:too_short",
		`{"enabled":true,"documentIds":"x"}`:                                   "tools.knowledge.documentIds:invalid_type",
		`{"enabled":null,"documentIds":[null]}`:                                "tools.knowledge.enabled:invalid_type tools.knowledge.documentIds[0]:invalid_type",
		`{"enabled":true,"metadata":{"a":1}}`:                                  "tools.knowledge.metadata.a:invalid_type",
		`{"enabled":true,"metadata":{"a b":"c"}}`:                              "tools.knowledge.metadata:invalid_value",
		`{"enabled":true,"metadata":{"a":"b","a":"c"}}`:                        "tools.knowledge.metadata.a:duplicate",
		`{"enabled":true,"metadata":{"a":"` + strings.Repeat("x", 257) + `"}}`: "tools.knowledge.metadata.a:too_long",
	} {
		w.do("POST", "/api/agents", `{"name":"x","systemPrompt":"p","tools":{"knowledge":`+tool+`}}`, ada.auth).want(t, tool, 400, "invalid_request "+problems)
	}
	agentID, documentID := w.agent(ada, `{"name":"x","systemPrompt":"p","tools":{"knowledge":{"enabled":true,"metadata":{"team":"release"}}}}`),
		w.do("POST", "/api/knowledge", `{"name":"o","content":"known"}`, ada.auth).want(t, "a document", 202, "").text(t, "id")
	for _, c := range [][2]string{
		{`{}`, "map[team:release]"},
		{`{"tools":{"knowledge":{"documentIds":["` + documentID + `"]}}}`, "map[team:release]"},
		{`{"tools":{"knowledge":{"metadata":{"a":"b","c":""}}}}`, "map[a:b c:]"},
		{`{"tools":{"knowledge":{"metadata":null}}}`, "<nil>"},
	} {
		if got := fmt.Sprint(w.do("PUT", "/api/agents?id="+agentID, c[0], ada.auth).want(t, c[0], 200, "").json(t, "tools.knowledge.metadata")); got != c[1] {
			t.Errorf("%s: %s, want %s", c[0], got, c[1])
		}
	}
	// An empty list does not mean all documents. Only null does.
	change := func(body string) answer { t.Helper(); return w.do("PUT", "/api/agents?id="+agentID, body, ada.auth) }
	change(`{"tools":{"knowledge":{"documentIds":[]}}}`).want(t, "no documents", 400, "invalid_request tools.knowledge.documentIds:too_short").says(t, "null means all documents")
	change(`{"tools":{"knowledge":{"metadata":{}}}}`).want(t, "no metadata", 400, "invalid_request tools.knowledge.metadata:too_short")
	for _, c := range [][2]string{{`{}`, "[" + documentID + "]"}, {`{"tools":{"knowledge":{"documentIds":null}}}`, "<nil>"}} {
		if got := fmt.Sprint(change(c[0]).want(t, c[0], 200, "").json(t, "tools.knowledge.documentIds")); got != c[1] {
			t.Errorf("%s: %s, want %s", c[0], got, c[1])
		}
	}
	w.agent(ada, `{"name":"x","systemPrompt":"p","tools":{"knowledge":{"enabled":true,"documentIds":null,"metadata":null}}}`)
}
