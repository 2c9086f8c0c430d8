package httpapi

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"parley/ingress/internal/auth"
	"parley/shared/domain"
	"parley/shared/secrets"
)

func TestDashboardPages(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	ada := w.signUp("ada@example.com")
	const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; " +
		"base-uri 'none'; form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
	for _, path := range []string{"/dashboard", "/dashboard/", "/dashboard/agents/ag_x", "/dashboard/runs?status=failed", "/dashboard/nowhere"} {
		a := w.do("GET", path, "", ada.cookie)
		if a.status != http.StatusOK || a.header.Get("Content-Security-Policy") != policy || a.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d %v", path, a.status, a.header)
		}
		to := "/login"
		if path != "/dashboard" {
			to += "?next=" + url.QueryEscape(path)
		}
		if strings.HasSuffix(path, "/") {
			to = "/login" // this path is no page of the dashboard, so the redirect has no parameter next
		}
		if a = w.do("GET", path, ""); a.status != http.StatusSeeOther || a.header.Get("Location") != to {
			t.Errorf("%s without a session: %d to %q", path, a.status, a.header.Get("Location"))
		}
	}
	key, _ := w.key(ada, domain.KeyScopeOrganization)
	if a := w.do("GET", "/dashboard", "", key); a.status != http.StatusSeeOther {
		t.Errorf("with a key: %d", a.status)
	}
	for path, status := range map[string]int{
		"/dashboard/templates?token=demo": 200, "/dashboard/templates/tpl_support?token=demo": 200, "/dashboard/templates?token=demos": 303,
		"/dashboard/templates": 303, "/dashboard/templatesx?token=demo": 303, "/dashboard/runs?token=demo": 303,
	} {
		a := w.do("GET", path, "")
		if a.status != status || status == 200 && !bytes.Contains(a.body, []byte(`&#34;session&#34;:null`)) {
			t.Errorf("%s for a visitor: %d %s", path, a.status, a.body)
		}
	}
	stale := w.do("GET", "/dashboard/templates?token=demo", "", "Cookie: "+auth.CookieName+"="+secrets.NewSessionToken())
	if stale.status != 200 {
		t.Errorf("the demo with a stale cookie: %d", stale.status)
	}
}

func TestSignupForm(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	send := func(form url.Values, headers ...string) answer {
		return w.do("POST", "/signup", form.Encode(), append(headers, "Content-Type: application/x-www-form-urlencoded")...)
	}
	a := send(url.Values{"email": {"ada@example.com"}, "password": {password}, "name": {"<Ada>"}, "next": {"/dashboard/templates"}})
	if a.status != http.StatusSeeOther || a.header.Get("Location") != "/dashboard/templates" {
		t.Fatalf("signing up: %d to %q: %s", a.status, a.header.Get("Location"), a.body)
	}
	cookie, _, _ := strings.Cut(a.header.Get("Set-Cookie"), ";")
	if name := w.do("GET", "/api/auth/session", "", "Cookie: "+cookie).want(t, "session", 200, "").text(t, "user.name"); name != "<Ada>" {
		t.Errorf("the name is %q", name)
	}
	for what, c := range map[string]struct {
		form   url.Values
		status int
		says   string
	}{
		"taken":      {url.Values{"email": {"ada@example.com"}, "password": {password}}, 409, "address"},
		"no address": {url.Values{"email": {"ada"}, "password": {password}, "name": {"Ada"}}, 400, "Email must be an email address."},
		"short":      {url.Values{"email": {"b@example.com"}, "password": {"short"}}, 400, "Password"},
		"nothing":    {url.Values{}, 400, "Email"},
		"twice":      {url.Values{"email": {"b@example.com", "c@example.com"}, "password": {password}}, 400, "Email must be given only once."},
	} {
		a := send(c.form)
		if a.status != c.status || !strings.Contains(string(a.body), c.says) || !strings.Contains(string(a.body), `action="/signup"`) {
			t.Errorf("%s: %d %s", what, a.status, a.body)
		}
		if strings.Contains(string(a.body), password) {
			t.Errorf("%s: the page holds the password", what)
		}
	}
	if a := send(url.Values{"email": {"d@example.com"}, "password": {password}}, "Sec-Fetch-Site: cross-site"); a.status != http.StatusForbidden {
		t.Errorf("from another site: %d", a.status)
	}
	for path, to := range map[string]string{"/signup": "/dashboard", "/login?next=/dashboard/runs": "/dashboard/runs"} {
		if a := w.do("GET", path, "", "Cookie: "+cookie); a.status != http.StatusSeeOther || a.header.Get("Location") != to {
			t.Errorf("%s while signed in: %d to %q", path, a.status, a.header.Get("Location"))
		}
	}
	if a := w.do("GET", "/signup?next=//evil.example", ""); a.status != 200 || strings.Contains(string(a.body), "evil") {
		t.Errorf("the page: %d %s", a.status, a.body)
	}
}

// TestLoginPageExplainsLinks checks the login page for a person who has no password and whose login
// link was already used. If the process has created an account, the page shows where to find a login
// link and, to clients on the same machine, the whole command for this account.
func TestLoginPageExplainsLinks(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	host := "localhost:8080"
	page := func(address string) string {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/login", nil)
		req.RemoteAddr, req.Host = address, host
		return string(w.send(req).body)
	}
	contains := func(address string, parts ...string) {
		t.Helper()
		page := page(address)
		for _, part := range parts {
			if !strings.Contains(page, part) {
				t.Errorf("the page for %s does not contain %q:\n%s", address, part, page)
			}
		}
	}

	const here, elsewhere = "127.0.0.1:4711", "203.0.113.9:4711"
	contains(here, "<code>parley reset-password <var>email</var></code>")
	if page := page(here); strings.Contains(page, "loginUrl") {
		t.Errorf("no process has created an account, but the page describes its login link:\n%s", page)
	}

	w.rebuild(func(d *Deps) { d.Owner, d.Program = "owner@parley.local", "bin/parley" })
	const link = "prints a new login link, and stores it as <code>loginUrl</code>"
	contains(here, "<code>bin/parley reset-password owner@parley.local</code>", link)
	contains(elsewhere, "<code>bin/parley reset-password <var>email</var></code>", link)
	if page := page(elsewhere); strings.Contains(page, "owner@parley.local") {
		t.Errorf("the page for a client on another machine contains the account's address:\n%s", page)
	}
	host = "evil.example:8080"
	if page := page(here); strings.Contains(page, "owner@parley.local") {
		t.Errorf("the page for a name that resolves to this machine contains the account's address:\n%s", page)
	}
	ada := w.signUp("ada@example.com")
	if page := string(w.do("GET", "/dashboard", "", ada.cookie).body); !strings.Contains(page, "bin/parley reset-password") {
		t.Errorf("the dashboard does not contain the command:\n%s", page)
	}
}

func TestAssets(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	page := w.do("GET", "/login", "").body
	name := string(regexp.MustCompile(`/assets/site-style-[A-Z0-9]+\.css`).Find(page))
	if name == "" {
		t.Fatalf("the page names no style sheet: %s", page)
	}
	plain := w.do("GET", name, "")
	if plain.status != 200 || plain.header.Get("Cache-Control") != "public, max-age=31536000, immutable" || plain.header.Get("Content-Encoding") != "" || !bytes.Contains(plain.body, []byte("prefers-color-scheme:dark")) {
		t.Errorf("plain: %d %v", plain.status, plain.header)
	}
	packed := w.do("GET", name, "", "Accept-Encoding: br, gzip;q=0.8")
	r, err := gzip.NewReader(bytes.NewReader(packed.body))
	if err != nil || packed.header.Get("Content-Encoding") != "gzip" || packed.header.Get("Vary") != "Accept-Encoding" {
		t.Fatalf("packed: %v, %v", err, packed.header)
	}
	if body, err := io.ReadAll(r); err != nil || !bytes.Equal(body, plain.body) {
		t.Errorf("the compressed body differs: %v", err)
	}
	for _, refuses := range []string{"gzip;q=0", "br", "", "identity"} {
		if a := w.do("GET", name, "", "Accept-Encoding: "+refuses); a.header.Get("Content-Encoding") != "" {
			t.Errorf("%q is answered compressed", refuses)
		}
	}
	if a := w.do("GET", name, "", "If-None-Match: "+plain.header.Get("ETag")); a.status != http.StatusNotModified || len(a.body) > 0 {
		t.Errorf("unchanged: %d", a.status)
	}
	for _, missing := range []string{"/assets/site-style.css", "/assets/widget.js", "/assets/widget-files.js", "/assets/..%2fweb.go", "/assets/"} {
		if a := w.do("GET", missing, ""); a.status != http.StatusNotFound {
			t.Errorf("%s: %d", missing, a.status)
		}
	}
	if a := w.do("GET", "/assets/licences.txt", ""); a.status != 200 || !bytes.Contains(a.body, []byte("== preact")) || strings.Contains(a.header.Get("Cache-Control"), "immutable") {
		t.Errorf("licences: %d %v", a.status, a.header)
	}
	for _, path := range []string{"/widget.js", "/widget-files.js"} {
		widget := w.do("GET", path, "", "Origin: https://shop.example")
		if widget.status != 200 || widget.header.Get("Access-Control-Allow-Origin") != "*" || widget.header.Get("Cross-Origin-Resource-Policy") != "cross-origin" ||
			widget.header.Get("Cache-Control") != "public, max-age=300" || !strings.HasPrefix(widget.header.Get("Content-Type"), "text/javascript") {
			t.Errorf("%s: %d %v", path, widget.status, widget.header)
		}
	}
}

func TestWidgetPreview(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	ada := w.signUp("ada@example.com")
	agent := w.agent(ada, `{"name":"Ada","systemPrompt":"p"}`)
	if a := w.do("GET", "/widget/preview?agent="+agent, ""); a.status != 200 || !strings.Contains(string(a.body), `src="/widget.js" data-agent="`+agent+`"`) {
		t.Errorf("preview: %d %s", a.status, a.body)
	}
	for _, bad := range []string{"", "?agent=", "?agent=ag_x", "?agent=<script>", "?agent=" + agent + "&agent=" + agent} {
		if a := w.do("GET", "/widget/preview"+bad, ""); a.status != http.StatusBadRequest {
			t.Errorf("preview %s: %d", bad, a.status)
		}
	}
}
