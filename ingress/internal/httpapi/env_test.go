package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/alexedwards/argon2id"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"parley/ingress/internal/auth"
	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/openaiapi"
	"parley/ingress/internal/openapi/openapitest"
	"parley/ingress/internal/ratelimit"
	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/outbound"
	"parley/shared/sealed"
	"parley/shared/secrets"
	"parley/shared/store"
	"parley/shared/templates"
	"parley/shared/testkit"
)

// cancelRecorder records the agents whose queued runs were cancelled.
type cancelRecorder struct {
	mu   sync.Mutex
	seen []string
	err  error
}

func (c *cancelRecorder) CancelQueued(_ context.Context, org, agentID string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen = append(c.seen, org+" "+agentID)
	return c.err
}

// testEnv is the complete HTTP API with a real database, without a network.
type testEnv struct {
	t              testing.TB
	dsn            string // data source name of the database, as superuser
	deps           Deps
	api            *api
	handler        http.Handler
	store          *store.Store
	cancelRecorder *cancelRecorder
	notifyRecorder *notifyRecorder
	log            *lockedBuffer
	sealed         *prometheus.Registry // metrics of encrypted values
}

type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

var manyRequests = ratelimit.Settings{
	Demo: 100, User: 1_000_000, System: 2_000_000, Widget: ratelimit.Widget{Visitor: 100, Address: 1000, Agent: 10_000},
}

func newTestEnv(tb testing.TB, limits ratelimit.Settings) *testEnv {
	tb.Helper()
	dsn := testkit.Postgres(tb)
	s, err := store.Open(dsn, 8)
	must(tb, err)
	tb.Cleanup(func() { _ = s.Close() })
	return newTestEnvOver(tb, dsn, s, limits)
}

// newTestEnvOver is newTestEnv with the given store.
func newTestEnvOver(tb testing.TB, dsn string, s *store.Store, limits ratelimit.Settings) *testEnv {
	tb.Helper()
	return newTestEnvWithKeys(tb, dsn, s, limits, strings.Repeat("ab", 32))
}

// newTestEnvWithKeys is newTestEnvOver with a given value of SECRETS_KEY.
func newTestEnvWithKeys(tb testing.TB, dsn string, s *store.Store, limits ratelimit.Settings, keys string) *testEnv {
	tb.Helper()
	owner, err := store.OpenOwner(dsn, 1)
	must(tb, err)
	must(tb, errors.Join(owner.Agents.SyncTemplates(tb.Context(), templates.All()), owner.Close()))
	l, err := ratelimit.New(s.Limits, limits)
	must(tb, err)
	box, err := secrets.NewBox(keys)
	must(tb, err)
	signer, err := secrets.NewSigner(keys)
	must(tb, err)
	outside, err := outbound.New(outbound.Config{Allow: []string{"127.0.0.1:8080"}})
	must(tb, err)
	proxies := auth.Proxies{netip.MustParsePrefix("10.0.0.0/8")}
	w := &testEnv{t: tb, dsn: dsn, store: s, cancelRecorder: &cancelRecorder{}, notifyRecorder: &notifyRecorder{}, log: &lockedBuffer{}, sealed: prometheus.NewRegistry()}
	watch, err := sealed.NewWatch(box, w.sealed, zerolog.New(w.log))
	must(tb, err)
	s.Seals.ReportUnopened(watch.UnopenedBytes)
	s.Budgets.SetCurrency("CHF")
	resolver := auth.New(s.Accounts, auth.NewWidgets(s.Agents, box, watch), proxies)
	var wg sync.WaitGroup
	wg.Go(func() { resolver.Run(tb.Context()) })
	tb.Cleanup(wg.Wait)
	w.deps = Deps{
		Store: s, Auth: resolver, Limits: l, Secrets: box, Sealed: watch, Runs: w.cancelRecorder, Log: zerolog.New(w.log), Proxies: proxies,
		PublicURL: "http://parley.test/", DefaultModel: "offline", DemoTokens: 1_000_000, Currency: "CHF",
		Jobs: w.notifyRecorder, Searches: noSearchWorkers{}, Signer: signer, Outbound: outside,
		Checks: map[string]func(context.Context) error{"postgres": s.Ping},
	}
	w.rebuild(func(*Deps) {})
	return w
}

// rebuild changes the dependencies and replaces the HTTP API by a new one. All counters in memory
// begin at zero.
func (w *testEnv) rebuild(change func(*Deps)) {
	w.t.Helper()
	change(&w.deps)
	var err error
	w.api, err = newAPI(w.deps, auth.NewPasswords(0, cheapPasswords))
	must(w.t, err)
	m, err := newMetrics(nil)
	must(w.t, err)
	w.handler = w.api.engine(m)
}

// serving returns a handler that passes each request to the current HTTP API, even after rebuild.
func (w *testEnv) serving() http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) { w.handler.ServeHTTP(rw, req) })
}

// cheapPasswords contains parameters with which hashing takes less than a millisecond, because
// thousands of people sign up in these tests.
var cheapPasswords = argon2id.Params{Memory: 64, Iterations: 1, Parallelism: 1, SaltLength: 16, KeyLength: 32}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// answer is a response with its body.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a answer) requestID() string { return strings.Join(a.header[headerRequestID], " and ") }

// json returns the body, or the value at a path such as "errors.0.field".
func (a answer) json(tb testing.TB, path string) any {
	tb.Helper()
	var value any
	if err := json.Unmarshal(a.body, &value); err != nil {
		tb.Fatalf("body %q: %v", a.body, err)
	}
	for part := range strings.SplitSeq(path, ".") {
		switch v := value.(type) {
		case map[string]any:
			value = v[part]
		case []any:
			if i := int(part[0] - '0'); i < len(v) {
				value = v[i]
			} else {
				value = nil
			}
		}
	}
	return value
}

func (a answer) text(tb testing.TB, path string) string {
	tb.Helper()
	s, _ := a.json(tb, path).(string)
	return s
}

// goFormatting matches Go's formatting of values, such as %!d or map[. Messages to clients must not
// contain it.
var goFormatting = regexp.MustCompile(`%![a-zA-Z(]|\[\]string|map\[|<nil>|0x[0-9a-f]{8}|strconv\.|json: |\b(domain|store|apierr|url|http|sql|pq)\.[A-Z]`)

// openAICodes maps the error codes of OpenAI's API to Parley's.
var openAICodes = map[string]apierr.Code{
	openaiapi.CodeInvalidKey: apierr.Unauthenticated, openaiapi.CodeModelNotFound: apierr.NotFound, openaiapi.CodeNoPrevious: apierr.InvalidRequest,
	openaiapi.CodeUnsupported: apierr.InvalidRequest, openaiapi.CodeVoiceNotEnabled: apierr.InvalidRequest,
}

// problems returns the code and the fields of an error response, such as "invalid_request
// name:required". For an error in OpenAI's format it returns Parley's code and, unless the model is
// unknown, the parameter, such as "invalid_request name".
func (a answer) problems(tb testing.TB) string {
	tb.Helper()
	var p httpx.Problem
	if a.header.Get("X-Should-Retry") != "" && len(a.body) > 0 {
		code, param := a.text(tb, "error.code"), a.text(tb, "error.param")
		if known, renamed := openAICodes[code]; renamed {
			code = string(known)
		}
		if param == "" || code == string(apierr.NotFound) {
			return code
		}
		return code + " " + param
	}
	if a.header.Get("Content-Type") != "application/problem+json" || len(a.body) == 0 { // for example a response to HEAD
		return ""
	}
	if leak := goFormatting.Find(a.body); leak != nil {
		tb.Errorf("a message shows %q: %s", leak, a.body)
	}
	must(tb, json.Unmarshal(a.body, &p))
	out := string(p.Code)
	for _, f := range p.Errors {
		out += " " + f.Field + ":" + f.Code
	}
	return out
}

// do sends a request. Headers have the form "name: value". The body is JSON unless a header says
// otherwise.
func (w *testEnv) do(method, target, body string, headers ...string) answer {
	w.t.Helper()
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	req := httptest.NewRequestWithContext(w.t.Context(), method, target, reader)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if http.CanonicalHeaderKey(name) == "Content-Type" {
			req.Header.Del(name)
		}
		req.Header.Add(name, value)
	}
	return w.send(req)
}

func (w *testEnv) send(req *http.Request) answer {
	w.t.Helper()
	rec := openapitest.Serve(w.t, w.handler, req)
	return answer{rec.Code, rec.Header(), rec.Body.Bytes()}
}

// want fails the test unless the response has the given status. For errors, the problems must be
// exactly the given ones.
func (a answer) want(tb testing.TB, what string, status int, problems string) answer {
	tb.Helper()
	if a.status != status || a.problems(tb) != problems {
		tb.Errorf("%s: %d %q, want %d %q\n%s", what, a.status, a.problems(tb), status, problems, a.body)
	}
	return a
}

// person is a user who has a login session and an organization.
type person struct {
	id, org, email, token string
	auth, cookie          string // headers
}

const password = "correct horse battery"

func (w *testEnv) signUp(email string) person {
	w.t.Helper()
	a := w.do("POST", "/api/auth/signup", `{"email":"`+email+`","password":"`+password+`"}`).want(w.t, "signing up", 201, "")
	p := person{id: a.text(w.t, "user.id"), org: a.text(w.t, "organization.id"), email: email, token: a.text(w.t, "token")}
	p.auth, p.cookie = "Authorization: Bearer "+p.token, "Cookie: "+auth.CookieName+"="+p.token
	return p
}

// join makes p a member of the organization org with the given role.
func (w *testEnv) join(p person, org string, role domain.Role) {
	w.t.Helper()
	w.exec(`INSERT INTO memberships (org_id, user_id, role) VALUES ($1, $2, $3)`, org, p.id, role)
	w.api.Auth.ForgetToken(p.token)
}

// key creates an API key with a scope. It returns a header that contains the key, and the key's id.
func (w *testEnv) key(p person, scope domain.KeyScope) (header, keyID string) {
	w.t.Helper()
	a := w.do("POST", "/api/keys", `{"name":"test","scope":"`+string(scope)+`"}`, p.auth).want(w.t, "making a key", 201, "")
	return "X-Api-Key: " + a.text(w.t, "key"), a.text(w.t, "id")
}

// tableFor returns an api that has a route table but cannot handle requests.
func tableFor(t *testing.T) *api {
	t.Helper()
	a, err := newAPI(Deps{Store: &store.Store{}}, nil)
	must(t, err)
	return a
}
