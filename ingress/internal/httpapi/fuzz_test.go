package httpapi

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"mime"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/openapi/openapitest"
	"parley/shared/domain"
	"parley/shared/id"
)

// fuzzEnv is an environment for fuzz targets. A fuzz target must send requests with the method try.
// The other methods would report a failure of the whole fuzz target and not of the current input.
type fuzzEnv struct {
	*runEnv
	testOrg *testOrg
	agent   string
	run     string
	asked   string // id of a run that waits for an approval
	source  string // id of a text that a run has read
	doc     string // id of a processed document
	budget  string
	serving http.Handler
}

func newFuzzed(f *testing.F) *fuzzEnv {
	f.Helper()
	a := newRunEnv(f)
	h := a.newTestOrg("home")
	agentID := a.newAgent(h)
	runID := a.newChat(h, agentID, "s", h.key)
	a.finish("answer", runID)
	asked := a.newChat(h, agentID, "asked", h.key)
	a.park(asked, "home", domain.ActionApproval)
	source := a.saveSource(a.newChat(h, agentID, "read", h.key), "home", "a text")
	return &fuzzEnv{runEnv: a, testOrg: h, agent: agentID, run: runID, asked: asked, source: source, doc: a.document(h), budget: a.budget(h), serving: a.handler}
}

// filler returns a replacer for the placeholders of the access table.
func (z *fuzzEnv) filler() *strings.Replacer {
	return strings.NewReplacer("$ag", z.agent, "$run", z.run, "$asked", z.asked, "$unsure", z.asked, "$src", z.source, "$doc", z.doc, "$bud", z.budget, "$tpl", "tpl_support",
		"$org", z.testOrg.org, "$usr", z.testOrg.member.id, "$word", "w")
}

// try sends a request. It fails the test if the response is one that no input may cause, such as an
// internal error.
func (z *fuzzEnv) try(t *testing.T, req *http.Request) answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	rec := openapitest.Serve(t, z.serving, req.WithContext(ctx))
	got := answer{rec.Code, rec.Header(), rec.Body.Bytes()}
	kind, _, err := mime.ParseMediaType(got.header.Get("Content-Type"))
	switch {
	case got.status == http.StatusServiceUnavailable && strings.HasPrefix(req.URL.Path, "/v1/"):
		// In this environment, requests do not wait for runs and may get 503.
	case got.status >= 500:
		t.Errorf("%s %s: %d %s", req.Method, req.URL, got.status, got.body)
	case err != nil && len(got.body) > 0:
		t.Errorf("%d with type %q: %s", got.status, got.header.Get("Content-Type"), got.body)
	case got.status != http.StatusNotModified && strings.HasSuffix(kind, "json") && !json.Valid(got.body):
		t.Errorf("%d with invalid JSON: %q", got.status, got.body)
	case got.status >= 400 && strings.HasPrefix(req.URL.Path, "/api/") && kind != "application/problem+json":
		t.Errorf("%d as %q: %s", got.status, kind, got.body)
	}
	return got
}

// request returns a request for a fuzz target.
func request(method, path, query, body string) *http.Request {
	req := httptest.NewRequest(method, "/", strings.NewReader(body)) //nolint:noctx // try sets the context
	req.URL = &url.URL{Path: path, RawQuery: query}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Prefer", "respond-async")
	return req
}

// with adds headers of the form "name: value".
func with(req *http.Request, headers ...string) *http.Request {
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Add(name, value)
	}
	return req
}

// moreBodies contains additional seed bodies. The keys are queries in the access table.
var moreBodies = map[string][]string{
	"id=$ag": {
		fullAgent, `{"fallbackModels":["offline","",null],"model":"offline"}`,
		`{"tools":{"httpRequest":{"enabled":true,"approval":"","endpoints":[{"name":"mcp","method":"GET","url":"https://{h}/{x}?{y}={z}&a={","inputSchema":{"type":"object","$ref":"#"},"signingSecret":"whsec_"}]}}}`,
		`{"tools":{"httpRequest":{"endpoints":[{"name":"a","method":"GET","url":"https://a.b/{}/{{}}/%7Bx%7D/..;/{..}","inputSchema":{"type":"object","properties":{"":{"pattern":"(a+)+$"}}},"signingSecret":"***"}]}}}`,
		`{"tools":{"mcp":{"enabled":true,"servers":[{"name":"s","url":"https://[::1%25lo]:0/{x}","sideEffect":""}]}}}`,
	},
	"action=import-openapi&id=$ag": {
		`{"document":"openapi: 3.0.0\ninfo: {title: t, version: '1'}\nservers: [{url: https://a.b}]\npaths:\n  /x:\n    post: {operationId: x, responses: {}}\n"}`,
		`{"document":"a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]"}`, `{"document":"swagger: '2.0'"}`, `{"document":"- \t"}`, `{"document":{"openapi":"3.1.0","paths":{"":{"get":{"$ref":"#/paths"}}}}}`,
		`{"document":{"openapi":"3.0.3","info":{},"servers":[{"url":"{s}://h","variables":{"s":{"default":"ftp"}}}],"paths":{"/{a}/{a}":{"get":{"parameters":[{"$ref":"#/components/parameters/a"}]}}},"components":{"parameters":{"a":{"$ref":"#/components/parameters/a"}}}}}`,
	},
}

// Every route responds without an internal error to any body.
func FuzzBodies(f *testing.F) {
	z := newFuzzed(f)
	var rows []accessRow
	for _, r := range accessTable {
		if r.body != "" {
			rows = append(rows, r)
			f.Add(uint(len(rows)-1), r.body)
			for _, seed := range moreBodies[r.query] {
				f.Add(uint(len(rows)-1), seed)
			}
		}
	}
	f.Add(uint(0), `{"email":"a@b","password":"`+strings.Repeat("x", 300)+`","name":""}`)
	f.Fuzz(func(t *testing.T, n uint, body string) {
		r := rows[n%uint(len(rows))]
		fill := z.filler()
		req := request(r.method, r.path, fill.Replace(r.query), fill.Replace(body))
		if r.who != forAnyone && r.who != forLink {
			with(req, z.testOrg.key)
		}
		z.try(t, req)
	})
}

// fuzzing reports whether the fuzzer generates inputs. In an ordinary test, there are only the
// seeds.
func fuzzing() bool { return flag.Lookup("test.fuzz").Value.String() != "" }

// Every route responds without an internal error to any query.
func FuzzQuery(f *testing.F) {
	z := newFuzzed(f)
	for n, r := range accessTable {
		f.Add(uint(n), r.query)
	}
	for i, query := range []string{
		"limit=1&cursor=x", "limit=101", "limit=0", "limit=-1", "limit=1e2", "limit=99999999999999999999", "cursor=", "cursor=cnVuXzAxaDQ1NXZiNHBleDV2c2tuazA4NHNuMDJx",
		"id=$run&wait=0", "id=$run&wait=-1", "id=$run&stream=1", "id=$run&id=$run", "status=running", "%zz", "a=%00", "a=%ff", ";", "&&&=", "q=%25_", "q=" + strings.Repeat("a", 200), "action=cancel&action=chat",
		"action=approve&toolCallId=call_1&id=$asked", "action=deny&toolCallId=call_1&id=$asked", "action=approve&toolCallId=&id=$asked", "action=happened&toolCallId=%F0%9F%98%80&id=$asked",
		"action=abandon&toolCallId=call_1&toolCallId=call_2&id=$run", "action=resend&id=$run", "id=$src", "id=src_", "id=src_" + strings.Repeat("F", 64), "action=import-openapi&id=$ag",
		"sessionId=%F0%9F%98%80", "agentId=$ag&sessionId=s", "id=s&agentId=$ag", "principal=x", "id=$doc&page=1", "id=$doc&chunk=0&content=1", "query=a&metadata=a:b&documentId=$doc", "id=$doc&content=1",
	} {
		for n := range accessTable {
			if !fuzzing() || n%len(accessTable) == 7*i%len(accessTable) { // fewer seeds leave the fuzzer more time
				f.Add(uint(n), query)
			}
		}
	}
	f.Fuzz(func(t *testing.T, n uint, query string) {
		r := accessTable[n%uint(len(accessTable))]
		fill := z.filler()
		body := fill.Replace(r.body)
		if r.who == forAnyone || r.who == forLink || r.who == forSession {
			body = "{}"
		}
		z.try(t, with(request(r.method, r.path, fill.Replace(query), body), z.testOrg.key))
	})
}

// Only cursors that the service has created are accepted, and only limits in the valid range.
func FuzzPage(f *testing.F) {
	for _, text := range []string{"", "1", "100", "101", "+1", "01", "1_0", "0x1", " 1", "\u0661", "YWdfMDFoNDU1dmI0cGV4NXZza25rMDg0c24wMnE", "YWdfMDFoNDU1dmI0cGV4NXZza25rMDg0c24wMnE=", "!!"} {
		f.Add(text, text)
	}
	f.Fuzz(func(t *testing.T, limit, cursor string) {
		c, _ := gin.CreateTestContext(httptest.NewRecorder())
		c.Request = request("GET", "/", "", "")
		httpx.StateFor(c).Query = url.Values{"limit": {limit}, "cursor": {cursor}}
		p, err := httpx.ReadPage(c, id.Agent)
		if err == nil && (p.Limit < 1 || p.Limit > httpx.MaxPage || !id.Valid(id.Agent, p.After)) {
			t.Errorf("limit %q and cursor %q gave %+v", limit, cursor, p)
		}
	})
}

// Request ids and trace contexts never contain unexpected characters. Valid values from a caller
// are kept.
func FuzzRequestNames(f *testing.F) {
	for _, text := range []string{
		"", "my-id", "a b", "a\nb", "\u00e9", strings.Repeat("a", 129), "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
		"01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		req := &http.Request{Header: http.Header{headerRequestID: {text}, "Traceparent": {text}}}
		name := requestIDFor(req)
		if len(name) < 1 || len(name) > 128 || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' }) {
			t.Errorf("%q became %q", text, name)
		}
		if trace := traceparent(req); trace != "" && (trace != text || len(trace) != 55 || strings.Trim(trace, "0123456789abcdef-") != "") {
			t.Errorf("%q became %q", text, trace)
		}
	})
}

// Only JSON encoded in UTF-8 is accepted as JSON.
func FuzzContentType(f *testing.F) {
	for _, text := range []string{"application/json", "application/json; charset=utf-8", `Application/JSON;charset="UTF-8"`, "text/plain", "application/json, text/plain", "application/json;;", "application/json; charset*=utf-8''x", "/"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if httpx.IsJSON(http.Header{"Content-Type": {text}}) && !strings.HasPrefix(strings.ToLower(strings.TrimSpace(text)), "application/json") {
			t.Errorf("%q is taken for JSON", text)
		}
	})
}

// Requests for automations and chats cause no internal error, whatever their headers are. Accepted
// idempotency keys are valid.
func FuzzRunHeaders(f *testing.F) {
	z := newFuzzed(f)
	for _, text := range []string{
		"", "key", "\u00e9", "\xff", "\x00", strings.Repeat("k", 256), "a,b", "schedule", "Schedule", "a\nb", "0.1", "1.2", "-1.1", "1", "99999999999999999999.1", "text/event-stream", "text/event-stream;q=0",
	} {
		f.Add(text, "", "", "", "")
		f.Add("", text, "", "", text)
		f.Add("", "", text, "", "")
		f.Add("", "", "", text, "")
	}
	f.Fuzz(func(t *testing.T, key, trigger, automation, accept, last string) {
		set := func(req *http.Request) *http.Request {
			for name, value := range map[string]string{
				"Idempotency-Key": key, "X-Trigger-Type": trigger, "X-Automation-Id": automation, "Accept": accept, "Last-Event-Id": last,
			} {
				if value != "" {
					req.Header[name] = strings.Split(value, "\n")
				}
			}
			return with(req, z.testOrg.key)
		}
		automated := z.try(t, set(request("POST", "/api/internal/run-automation", "", `{"target":"`+z.agent+`","input":{"message":"m"}}`)))
		if automated.status == 202 && (!utf8.ValidString(key) || utf8.RuneCountInString(key) > 255) {
			t.Errorf("the key %q was taken", key)
		}
		if !strings.Contains(accept, "event-stream") {
			z.try(t, set(request("POST", "/api/agents", "action=chat&id="+z.agent, `{"sessionId":"s","message":"m"}`)))
		}
		z.try(t, set(request("GET", "/api/runs", "id="+z.run+"&stream=1", "")))
	})
}

// Random credential headers never authenticate.
func FuzzCredentialHeaders(f *testing.F) {
	z := newFuzzed(f)
	for _, text := range []string{"", "x", "ak_1", unknownKey()[11:], "Bearer ps_" + strings.Repeat("a", 32), "tenant_demo", "parley_session=x", z.testOrg.org, "a,b", "\x00", "a\nb"} {
		f.Add(text, "-", "-", "-")
		f.Add("-", text, "-", "-")
		f.Add("-", "-", text, "-")
		f.Add("-", "-", "-", text)
		f.Add(text, text, text, text)
	}
	f.Fuzz(func(t *testing.T, key, authorization, cookie, organization string) {
		req := request("GET", "/api/agents", "", "")
		for name, value := range map[string]string{"X-Api-Key": key, "Authorization": authorization, "Cookie": cookie, "X-Organization-Id": organization} {
			if value != "-" {
				req.Header[name] = strings.Split(value, "\n")
			}
		}
		if got := z.try(t, req); got.status < 400 {
			t.Errorf("%q %q %q %q got in: %d %s", key, authorization, cookie, organization, got.status, got.body)
		}
	})
}

// A random text is never accepted as the token of a link.
func FuzzLinkTokens(f *testing.F) {
	z := newFuzzed(f)
	for _, text := range []string{"", "x", "pl_" + strings.Repeat("a", 32), "pi_" + strings.Repeat("a", 32), "pr_" + strings.Repeat("a", 32), "%00", "\xff", "pl_" + strings.Repeat("\u00e9", 16), "a&token=b"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, token string) {
		body, err := json.Marshal(map[string]string{"token": token, "password": "long enough"})
		if err != nil {
			return
		}
		for _, req := range []*http.Request{
			request("GET", "/login", "token="+token, ""), request("GET", "/accept", "token="+token, ""), request("GET", "/reset", "token="+token, ""),
			request("GET", "/api/auth/oidc/callback", "state="+token+"&code="+token, ""),
			request("POST", "/api/auth/accept", "", string(body)), request("POST", "/api/auth/reset", "", string(body)),
		} {
			if got := z.try(t, req); len(got.header["Set-Cookie"]) > 0 && strings.Contains(got.header.Get("Set-Cookie"), "parley_session=ps_") {
				t.Errorf("%q logged in: %s", token, got.body)
			}
		}
	})
}

// FuzzRawRequest sends requests as raw bytes, as they arrive from the network. In the bytes, $key,
// $ag and $run are placeholders for a key and ids.
func FuzzRawRequest(f *testing.F) {
	z := newFuzzed(f)
	for _, r := range accessTable {
		if r.who == forAnyone || r.who == forLink {
			continue
		}
		f.Add([]byte(r.method + " " + r.path + "?" + r.query + " HTTP/1.1\r\nHost: parley.test\r\nX-Api-Key: $key\r\nContent-Type: application/json\r\nContent-Length: 400\r\n\r\n" + r.body))
	}
	for _, raw := range []string{
		"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "GET /healthz HTTP/1.0\r\n\r\n", "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", "CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET http://x/api/agents HTTP/1.1\r\nHost: y\r\n\r\n", "POST /api/auth/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
		"GET /dashboard HTTP/1.1\r\nHost: x\r\nCookie: parley_session=x\r\n\r\n", "GET /%00/%ff HTTP/1.1\r\nHost: x\r\n\r\n", "PRI * HTTP/2.0\r\n\r\n",
		"GET /docs HTTP/1.1\r\nHost: x\r\n\r\n", "GET /openapi.json HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\nRange: bytes=0-1\r\nIf-None-Match: *\r\n\r\n",
	} {
		f.Add([]byte(raw))
	}
	key := strings.TrimPrefix(z.testOrg.key, "X-Api-Key: ")
	f.Fuzz(func(t *testing.T, raw []byte) {
		text := strings.NewReplacer("$key", key, "$ag", z.agent, "$run", z.run, "$tpl", "tpl_support").Replace(string(raw))
		req, err := http.ReadRequest(bufio.NewReader(strings.NewReader(text)))
		if err != nil || strings.Contains(text, "password") {
			return // net/http itself rejects malformed requests, and checking a password would take too long
		}
		req.RemoteAddr = "10.0.0.1:1"
		got := z.try(t, req)
		if id := got.requestID(); !errors.Is(err, http.ErrAbortHandler) && (id == "" || strings.ContainsAny(id, "\r\n")) {
			t.Errorf("request id %q", id)
		}
	})
}
