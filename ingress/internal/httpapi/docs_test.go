package httpapi

import (
	"bytes"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/openapi"
	"parley/ingress/internal/openapi/openapitest"
	"parley/ingress/web"
	"parley/shared/apierr"
)

// inPath matches a parameter in the path of a route.
var inPath = regexp.MustCompile(`:(\w+)`)

// TestEveryRouteIsDocumented compares the route table with the OpenAPI document. Each must contain
// exactly the routes of the other.
func TestEveryRouteIsDocumented(t *testing.T) {
	t.Parallel()
	m, err := newMetrics(nil)
	must(t, err)
	contract, err := openapitest.Document()
	must(t, err)
	a := tableFor(t)
	served := map[string]bool{}
	for _, r := range withHead(append(a.routes(), a.pages(m)...)) {
		if !openapitest.IsPage(r.Path) {
			served[r.Method+" "+inPath.ReplaceAllString(r.Path, "{$1}")] = true
		}
	}
	documented := contract.Operations()
	for _, operation := range documented {
		if !served[operation] {
			t.Errorf("the document has %s, the route table does not", operation)
		}
	}
	for _, operation := range slices.Sorted(maps.Keys(served)) {
		if !slices.Contains(documented, operation) {
			t.Errorf("the route table has %s, the document does not", operation)
		}
	}
}

// TestErrorCodesAreDocumented compares the error codes, statuses and titles with the OpenAPI
// document.
func TestErrorCodesAreDocumented(t *testing.T) {
	t.Parallel()
	documented := map[string]bool{}
	for _, code := range openapi.ErrorCodes() {
		documented[code.Code] = true
		kind, known := httpx.Kinds[apierr.Code(code.Code)]
		if !known || kind.Status != code.Status || kind.Title != code.Title || kind.Retryable != code.Retryable {
			t.Errorf("the document has %+v, the service %+v", code, kind)
		}
	}
	for code := range httpx.Kinds {
		if !documented[string(code)] {
			t.Errorf("the document lacks the code %s", code)
		}
	}
}

// TestDocs reads the API reference like a browser that executes no scripts.
func TestDocs(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	for path, want := range map[string]struct{ contentType, part string }{
		"/openapi.json":     {"application/json", `{"openapi":"3.1.0",`},
		"/docs":             {"text/html; charset=utf-8", `href="/docs/quickstart"`},
		"/docs/api":         {"text/html; charset=utf-8", "http://parley.test/api/internal/run-automation"},
		"/docs/errors":      {"text/html; charset=utf-8", ` id="rate_limited"`},
		"/docs/api/schemas": {"text/html; charset=utf-8", ` id="schema-RunErrorCode"`},
		"/llms.txt":         {"text/plain; charset=utf-8", "http://parley.test/openapi.json"},
	} {
		a := w.do("GET", path, "").want(t, path, 200, "")
		if a.header.Get("Content-Type") != want.contentType || !bytes.Contains(a.body, []byte(want.part)) {
			t.Errorf("%s: %s without %s", path, a.header.Get("Content-Type"), want.part)
		}
		if got := a.header.Get("Content-Security-Policy"); got != web.DocsSecurityPolicy || strings.Contains(got, "http") {
			t.Errorf("%s: Content-Security-Policy %q", path, got)
		}
		etag := a.header.Get("ETag")
		for _, tag := range []string{etag, "W/" + etag, `"other", ` + etag, "*"} {
			if b := w.do("GET", path, "", "If-None-Match: "+tag); b.status != 304 || len(b.body) != 0 || b.header.Get("ETag") != etag {
				t.Errorf("%s with If-None-Match %s: %d, %d bytes", path, tag, b.status, len(b.body))
			}
		}
		w.do("GET", path, "", `If-None-Match: "other"`).want(t, path+" changed", 200, "")
		w.do("POST", path, "").want(t, path+" by POST", 405, "method_not_allowed")
		w.do("GET", path+"?zz=1", "").want(t, path+" with a parameter", 400, "invalid_request zz:unknown_field")
		w.do("GET", path+"?%zz", "").want(t, path+" with a malformed query", 400, "invalid_request query:invalid_value")
	}
}

// TestFavicon checks that the icon is an image that loads no other resource, and that browsers
// revalidate the icon.
func TestFavicon(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	a := w.do("GET", "/favicon.svg", "").want(t, "the icon", 200, "")
	for name, want := range map[string]string{
		"Content-Type": "image/svg+xml", "Content-Security-Policy": "default-src 'none'", "Cache-Control": "no-cache",
		"X-Content-Type-Options": "nosniff",
	} {
		if got := a.header.Get(name); got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
	if inline := regexp.MustCompile(`<(style|script)|\s(style|on[a-z]+)=`).Find(a.body); inline != nil {
		t.Errorf("the icon contains %q, which its policy blocks", inline)
	}
	if b := w.do("GET", "/favicon.svg", "", "If-None-Match: "+a.header.Get("ETag")); b.status != 304 || len(b.body) != 0 {
		t.Errorf("with its ETag: status %d, %d bytes", b.status, len(b.body))
	}
}

// assetScript matches the beginning of a script element that loads an asset.
var assetScript = regexp.MustCompile(`<script (type="module" )?src="/assets/`)

// TestGuides reads and searches the pages of the documentation.
func TestGuides(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	for path, part := range map[string]string{
		"/docs":                               `<a href="/docs/guides/cron">Cron</a>`,
		"/docs?q=cron":                        `<a href="/docs/guides/cron`,
		"/docs?q=%3Cnothing%3E":               "No page contains all of these words",
		"/docs/webhooks":                      "<h1>Webhooks that start runs<",
		"/docs/guides/cron":                   `aria-current="page">Cron</a>`,
		"/docs/quickstart":                    `href="/docs/webhooks"`,
		"/docs/security?q=":                   "",
		"/docs/nope":                          "Page not found",
		"/docs/guides/nope":                   "Page not found",
		"/docs?q=" + strings.Repeat("a", 201): "at most 200 characters",
		"/docs/guides/cron?zz=1":              "",
	} {
		want := 200
		switch {
		case strings.Contains(path, "nope"):
			want = 404
		case part == "" || strings.HasPrefix(path, "/docs?q=aaa"):
			want = 400
		}
		a := w.do("GET", path, "")
		if a.status != want || !bytes.Contains(a.body, []byte(part)) {
			t.Errorf("%s: status %d, want %d with %q: %.300s", path, a.status, want, part, a.body)
		}
		if scripts := bytes.Count(a.body, []byte("<script")); scripts != len(assetScript.FindAll(a.body, -1)) {
			t.Errorf("%s: the page contains a script that is not an asset: %.300s", path, a.body)
		}
	}
	if a := w.do("GET", "/docs/", ""); a.status != 308 || a.header.Get("Location") != "/docs" {
		t.Errorf("/docs/: status %d to %q", a.status, a.header.Get("Location"))
	}
}

// If a path does not exist, a browser gets a page and a program gets an error in JSON.
func TestMissingPages(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	page := "Accept: text/html,application/xhtml+xml,*/*;q=0.8"
	if a := w.do("GET", "/nope", "", page); a.status != 404 || !bytes.Contains(a.body, []byte("Page not found")) {
		t.Errorf("status %d: %.200s", a.status, a.body)
	}
	for _, path := range []string{"/nope", "/api/nope", "/v1/nope"} {
		accept := page
		if path == "/nope" {
			accept = "Accept: */*"
		}
		if a := w.do("GET", path, "", accept); a.status != 404 || bytes.Contains(a.body, []byte("<html")) {
			t.Errorf("%s: status %d: %.200s", path, a.status, a.body)
		}
	}
	w.do("POST", "/nope", "", page).want(t, "POST", 404, "not_found")
}

// Probes may have query parameters: some load balancers add a parameter to prevent a cache from
// responding.
func TestProbesIgnoreTheQuery(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
		plain, busted := w.do("GET", path, ""), w.do("GET", path+"?t=1", "")
		if busted.status != plain.status || plain.status == 400 {
			t.Errorf("%s: %d, with a parameter %d", path, plain.status, busted.status)
		}
	}
}

// TestProblemTypesLeadSomewhere opens the URL in the type field of an error.
func TestProblemTypesLeadSomewhere(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	kind := w.do("GET", "/api/agents", "").want(t, "no credential", 401, "unauthenticated").text(t, "type")
	path, code, _ := strings.Cut(kind, "#")
	if page := w.do("GET", path, "").want(t, path, 200, ""); !bytes.Contains(page.body, []byte(` id="`+code+`"`)) {
		t.Errorf("%s leads nowhere", kind)
	}
}
