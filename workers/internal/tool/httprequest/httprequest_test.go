package httprequest_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"parley/shared/domain"
	"parley/shared/outbound"
	"parley/workers/internal/tool"
	"parley/workers/internal/tool/httprequest"
)

const (
	apiKey  = "sk-live-\"quoted\"/4711&x"
	signing = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
)

// fakeServer is an HTTP server that records its requests.
type fakeServer struct {
	*httptest.Server

	mu     sync.Mutex
	asked  []asked
	answer http.HandlerFunc // if nil, the response is 200 with a small object
}

type asked struct {
	method, uri, body string
	header            http.Header
}

func newLedger(t *testing.T) *fakeServer {
	t.Helper()
	l := &fakeServer{}
	l.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		l.mu.Lock()
		l.asked = append(l.asked, asked{r.Method, r.RequestURI, string(body), r.Header})
		answer := l.answer
		l.mu.Unlock()
		if answer == nil {
			w.Header().Set("Content-Type", "application/json; charset=utf-8")
			_, _ = io.WriteString(w, `{"n": 12345678901234567890, "ok": true}`)
			return
		}
		answer(w, r)
	}))
	t.Cleanup(l.Close)
	return l
}

func (l *fakeServer) last(t *testing.T) asked {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.asked) == 0 {
		t.Fatal("the server received no request")
	}
	return l.asked[len(l.asked)-1]
}

func (l *fakeServer) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.asked)
}

// open decrypts secrets of the form "sealed:<value>", and only for the organization org_1 and the
// agent ag_1.
func open(sealed, org, target string) (string, error) {
	plain, ok := strings.CutPrefix(sealed, "sealed:")
	if !ok || org != "org_1" || target != "ag_1" {
		return "", errors.New("cannot be opened: " + sealed)
	}
	return plain, nil
}

func backend(t *testing.T, allow ...string) *httprequest.Backend {
	t.Helper()
	client, err := outbound.New(outbound.Config{Allow: allow})
	if err != nil {
		t.Fatal(err)
	}
	return httprequest.New(client, open)
}

func request(e domain.Endpoint, arguments string) tool.Request {
	e.Name = "crm"
	return tool.Request{
		OrganizationID: "org_1", RunID: "run_1", TargetID: "ag_1", Fence: 1,
		Config: domain.Config{Tools: domain.Tools{HTTPRequest: &domain.HTTPRequestTool{Enabled: true, Endpoints: []domain.Endpoint{{Name: "other"}, e}}}},
		Call:   tool.Call{ID: "call_1", Name: "crm", Arguments: json.RawMessage(arguments)},
	}
}

func (l *fakeServer) call(t *testing.T, req tool.Request) (map[string]any, error) {
	t.Helper()
	result, err := backend(t, l.Listener.Addr().String()).Call(t.Context(), req)
	if err != nil {
		return nil, err
	}
	var out map[string]any
	if err := json.Unmarshal(result.Output, &out); err != nil {
		t.Fatalf("%s: %v", result.Output, err)
	}
	return out, nil
}

func TestArgumentsGoWhereTheyBelong(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	for _, c := range []struct{ method, path, kind, arguments, uri, body string }{
		{"GET", "/u/{id}?v=1&q={q}", "", `{"id":"a b","tags":["x","y z"],"n":12345678901234567890,"b":true}`, "/u/a%20b?v=1&b=true&n=12345678901234567890&tags=x&tags=y+z", ""},
		{"GET", "/u", "", ``, "/u", ""},
		{"GET", "/u", "", `{"x":null}`, "/u", ""},
		{"GET", "/u", "", `{"a b":"&"}`, "/u?a+b=%26", ""},
		{"HEAD", "/u", "", `{"x":1}`, "/u?x=1", ""},
		{"DELETE", "/u/{id}", "", `{"id":7,"force":true}`, "/u/7?force=true", ""},
		{"POST", "/u/{id}", "", `{"id":7,"note":"<é>","deep":{"n":1.10}}`, "/u/7", `{"deep":{"n":1.10},"note":"<é>"}`},
		{"PUT", "/u", "", `{}`, "/u", `{}`},
		{"PATCH", "/u?x={x}", "", `{"x":"1"}`, "/u?x=1", `{}`},
		{"POST", "/u", "application/x-www-form-urlencoded", `{"b":"x y","a":[1,2]}`, "/u", `a=1&a=2&b=x+y`},
		{"POST", "/u", "application/vnd.api+json", `{"b":1}`, "/u", `{"b":1}`},
	} {
		e := domain.Endpoint{Method: c.method, URL: l.URL + c.path}
		if c.kind != "" {
			e.Headers = map[string]string{"content-type": "sealed:" + c.kind}
		}
		if _, err := l.call(t, request(e, c.arguments)); err != nil {
			t.Errorf("%s %s: %v", c.method, c.path, err)
			continue
		}
		got := l.last(t)
		if got.method != c.method || got.uri != c.uri || got.body != c.body {
			t.Errorf("%s %s %s: got %+v", c.method, c.path, c.arguments, got)
		}
		kind := c.kind
		if kind == "" && got.body != "" {
			kind = "application/json"
		}
		if got.header.Get("Content-Type") != kind || got.header.Get("User-Agent") != "Parley" || got.header.Get("Connection") != "close" || got.header.Get("Idempotency-Key") != "" {
			t.Errorf("%s %s: got %v", c.method, c.path, got.header)
		}
	}
}

func TestArgumentsThatDoNotFit(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	for path, arguments := range map[string]string{
		"/u/{id}": `{}`, "/u/{id}/x": `{"id":".."}`, "/users/{id}": `{"id":"1/delete"}`, "/people/{id}": `{"id":"1%2fdelete%zz"}`, "/u": `{"x":{"a":1}}`, "/v": `[1]`, "/w": `"x"`, "/x": `{`, "/y?q={q}": `{"q":[{}]}`,
	} {
		req := request(domain.Endpoint{Method: "GET", URL: l.URL + path}, arguments)
		req.Sending = func(context.Context) error { t.Error("the request was about to be sent"); return nil }
		_, err := l.call(t, req)
		var public *tool.Error
		if !errors.As(err, &public) || !public.NotSent || !strings.HasPrefix(public.Message, "The arguments do not fit the endpoint: ") {
			t.Errorf("%s %s: got %v", path, arguments, err)
		}
	}
	if l.count() > 0 {
		t.Errorf("the server received %+v", l.asked)
	}
}

func TestWrongSetUpIsKnownBeforeAnythingIsSent(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	for name, e := range map[string]domain.Endpoint{
		"address":       {Method: "GET", URL: "https://{host}/"},
		"header":        {Method: "GET", URL: l.URL, Headers: map[string]string{"X": apiKey}},
		"secret":        {Method: "GET", URL: l.URL, SigningSecret: signing},
		"short secret":  {Method: "GET", URL: l.URL, SigningSecret: "sealed:whsec_c2hvcnQ="},
		"broken header": {Method: "GET", URL: l.URL, Headers: map[string]string{"X": "sealed:" + apiKey + "\r\nY: z"}},
		"method":        {Method: "G T", URL: l.URL},
	} {
		_, err := l.call(t, request(e, `{}`))
		var public *tool.Error
		if !errors.As(err, &public) || !public.NotSent || strings.Contains(public.Message, apiKey) || name != "header" && strings.Contains(fmt.Sprint(public.Err), apiKey) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	for name, change := range map[string]func(*tool.Request){
		"another endpoint": func(r *tool.Request) { r.Call.Name = "missing" },
		"disabled":         func(r *tool.Request) { r.Config.Tools.HTTPRequest.Enabled = false },
		"no such tool":     func(r *tool.Request) { r.Config.Tools.HTTPRequest = nil },
	} {
		req := request(domain.Endpoint{Method: "GET", URL: l.URL}, `{}`)
		change(&req)
		_, err := l.call(t, req)
		var public *tool.Error
		if !errors.As(err, &public) || !public.NotSent {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if l.count() > 0 {
		t.Errorf("the server received %+v", l.asked)
	}
}

func TestHeadersKeyAndSignature(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	req := request(domain.Endpoint{
		Method: "POST", URL: l.URL + "/pay", SideEffect: domain.SideEffectIdempotent, SigningSecret: "sealed:" + signing,
		Headers: map[string]string{"authorization": "sealed:Bearer " + apiKey, "Idempotency-Key": "sealed:of-the-agent", "Accept": "sealed:text/csv"},
	}, `{"amount":5}`)
	req.EffectKey = "eff_1"
	sent := 0
	req.Sending = func(context.Context) error {
		sent++
		if l.count() > 0 {
			t.Error("the request was sent before it could be recorded")
		}
		return nil
	}
	for range 2 {
		if _, err := l.call(t, req); err != nil {
			t.Fatal(err)
		}
		req.Sending = func(context.Context) error { sent++; return nil }
	}
	if sent != 2 || l.count() != 2 {
		t.Errorf("recorded %d times, sent %d times", sent, l.count())
	}
	first, second := l.asked[0], l.asked[1]
	for _, got := range []asked{first, second} {
		if got.header.Get("Authorization") != "Bearer "+apiKey || got.header.Get("Accept") != "text/csv" ||
			len(got.header.Values("Idempotency-Key")) != 1 || got.header.Get("Idempotency-Key") != "eff_1" || got.header.Get("Webhook-Id") != "eff_1" {
			t.Errorf("got %v", got.header)
		}
		webhook, err := standardwebhooks.NewWebhook(signing)
		if err != nil {
			t.Fatal(err)
		}
		if err := webhook.Verify([]byte(got.body), got.header); err != nil {
			t.Error(err)
		}
		if err := webhook.Verify([]byte(got.body+" "), got.header); err == nil {
			t.Error("the signature holds for another body")
		}
	}
	if first.body != second.body {
		t.Errorf("the repeated request differs from the first: %s, %s", first.body, second.body)
	}
	req.EffectKey, req.Sending = "", nil
	if _, err := l.call(t, req); err != nil {
		t.Fatal(err)
	}
	if id := l.last(t).header.Get("Webhook-Id"); !strings.HasPrefix(id, "eff_") || id == "eff_1" {
		t.Errorf("a message without an effect has the id %q", id)
	}
}

func TestNothingLeavesForARunThatIsLost(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	req := request(domain.Endpoint{Method: "POST", URL: l.URL}, `{}`)
	req.Sending = func(context.Context) error { return tool.ErrStale }
	_, err := l.call(t, req)
	var public *tool.Error
	if !errors.Is(err, tool.ErrStale) || !errors.As(err, &public) || !public.NotSent || l.count() != 0 {
		t.Errorf("got %v, sent %d times", err, l.count())
	}
}

func TestFailuresSayWhetherTheRequestLeft(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	l.answer = func(w http.ResponseWriter, _ *http.Request) {
		c, _, _ := http.NewResponseController(w).Hijack()
		_ = c.Close()
	}
	gone := newLedger(t)
	gone.Close()
	for _, c := range []struct {
		name       string
		fakeServer *fakeServer
		allowed    bool
		notSent    bool
		message    string
	}{
		{"closed without an answer", l, true, false, "The connection was lost."},
		{"no server listens", gone, true, true, "The host could not be reached."},
		{"not allowed", l, false, true, "The URL leads to a host that is not allowed."},
	} {
		before, recorded := c.fakeServer.count(), 0
		req := request(domain.Endpoint{Method: "POST", URL: c.fakeServer.URL + "/?token=secret"}, `{}`)
		req.EffectKey = "eff_1"
		req.Sending = func(context.Context) error { recorded++; return nil }
		b := backend(t)
		if c.allowed {
			b = backend(t, c.fakeServer.Listener.Addr().String())
		}
		_, err := b.Call(t.Context(), req)
		var public *tool.Error
		if !errors.As(err, &public) || public.NotSent != c.notSent || public.Message != c.message || strings.Contains(fmt.Sprint(public.Err), "secret") {
			t.Errorf("%s: got %+v", c.name, err)
		}
		if sent := c.fakeServer.count() - before; (sent == 0) != c.notSent || sent > 1 || (recorded == 0) != c.notSent {
			t.Errorf("%s: sent %d times, recorded %d times", c.name, sent, recorded)
		}
	}
}

func TestACancelledCall(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	ctx, cancel := context.WithCancel(t.Context())
	l.answer = func(_ http.ResponseWriter, r *http.Request) { cancel(); <-r.Context().Done() }
	_, err := backend(t, l.Listener.Addr().String()).Call(ctx, request(domain.Endpoint{Method: "GET", URL: l.URL}, `{}`))
	if public := new(tool.Error); !errors.Is(err, context.Canceled) || errors.As(err, &public) {
		t.Errorf("got %v", err)
	}
}

func TestRedirects(t *testing.T) {
	t.Parallel()
	other := newLedger(t)
	l := newLedger(t)
	l.answer = func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/away":
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		case "/here":
			http.Redirect(w, r, "/end?key="+apiKey, http.StatusTemporaryRedirect)
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		}
	}
	for _, c := range []struct {
		method, path string
		effect       domain.SideEffect
		ledgered     bool
		status       float64 // expected status of the response; 0 means that an error is expected
		asked        int
	}{
		{"GET", "/here", domain.SideEffectNone, false, 200, 2},
		{"HEAD", "/here", domain.SideEffectNone, false, 200, 2},
		{"GET", "/here", domain.SideEffectNone, true, 307, 1},
		{"GET", "/here", domain.SideEffectIdempotent, false, 307, 1},
		{"GET", "/here", "", false, 307, 1},
		{"POST", "/here", domain.SideEffectNone, false, 307, 1},
		{"DELETE", "/here", domain.SideEffectNone, false, 307, 1},
		{"POST", "/away", domain.SideEffectUnsafe, true, 307, 1},
		{"GET", "/away", domain.SideEffectNone, false, 0, 1},
		{"GET", "/loop", domain.SideEffectNone, false, 0, 4},
	} {
		before := l.count()
		req := request(domain.Endpoint{Method: c.method, URL: l.URL + c.path, SideEffect: c.effect, Headers: map[string]string{"X-Key": "sealed:" + apiKey}}, `{}`)
		if c.ledgered {
			req.EffectKey, req.Sending = "eff_1", func(context.Context) error { return nil }
		}
		out, err := backend(t, l.Listener.Addr().String(), other.Listener.Addr().String()).Call(t.Context(), req)
		var got map[string]any
		_ = json.Unmarshal(out.Output, &got)
		if (err != nil) != (c.status == 0) || err == nil && got["status"] != c.status || l.count()-before != c.asked {
			t.Errorf("%+v: got %s, %v after %d requests", c, out.Output, err, l.count()-before)
		}
		if c.status == 307 && (got["location"] == nil || strings.Contains(fmt.Sprint(got["location"]), apiKey)) {
			t.Errorf("%+v: got %s", c, out.Output)
		}
	}
	if other.count() > 0 {
		t.Error("another host received a request")
	}
}

func TestResults(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", 40<<10)
	deep := strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000)
	for _, c := range []struct {
		name, kind, body string
		status           int
		want             string
	}{
		{"JSON", "application/json", `{"n": 12345678901234567890, "f": 1.10, "s":"<é>"}`, 200, `{"status":200,"contentType":"application/json","body":{"f":1.10,"n":12345678901234567890,"s":"<é>"}}`},
		{"problem", "application/problem+json", `{"title":"no"}`, 422, `{"status":422,"contentType":"application/problem+json","body":{"title":"no"}}`},
		{"null", "application/json", `null`, 200, `{"status":200,"contentType":"application/json","body":null}`},
		{"not JSON", "application/json", `{"n":`, 200, `{"status":200,"contentType":"application/json","body":"{\"n\":"}`},
		{"two values", "application/json", `{} {}`, 200, `{"status":200,"contentType":"application/json","body":"{} {}"}`},
		{"NUL in JSON", "application/json", `["a\u0000b"]`, 200, `{"status":200,"contentType":"application/json","body":["ab"]}`},
		{"text", "text/plain; charset=utf-8", "hello", 500, `{"status":500,"contentType":"text/plain; charset=utf-8","body":"hello"}`},
		{"broken text", "text/plain", "a\xffb\x00", 200, `{"status":200,"contentType":"text/plain","body":"a` + "\uFFFD" + `b"}`},
		{"XML", "application/atom+xml", "<x/>", 200, `{"status":200,"contentType":"application/atom+xml","body":"<x/>"}`},
		{"image", "image/png", "\x89PNG\r\n", 200, `{"status":200,"contentType":"image/png","note":"The body is not text and is not shown (6 bytes)."}`},
		{"unknown type", "application/octet-stream", "text all the same", 200, `{"status":200,"contentType":"application/octet-stream","note":"The body is not text and is not shown (17 bytes)."}`},
		{"nothing", "", "", 204, `{"status":204}`},
	} {
		l := newLedger(t)
		l.answer = func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = []string{c.kind}
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, c.body)
		}
		got, err := backend(t, l.Listener.Addr().String()).Call(t.Context(), request(domain.Endpoint{Method: "GET", URL: l.URL}, `{}`))
		if err != nil || string(got.Output) != c.want {
			t.Errorf("%s: got %s, %v", c.name, got.Output, err)
		}
	}
	for name, body := range map[string]string{"long text": long, "long JSON": `["` + long + `"]`, "deep JSON": deep, "a megabyte and more": strings.Repeat("x", 2<<20)} {
		l := newLedger(t)
		l.answer = func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, body)
		}
		out, err := l.call(t, request(domain.Endpoint{Method: "GET", URL: l.URL}, `{}`))
		if shown, _ := out["body"].(string); err != nil || out["truncated"] != (len(body) > 40<<10) && out["truncated"] != nil || shown == "" || len(shown) > 40<<10 || strings.Contains(shown, "\uFFFD") {
			t.Errorf("%s: got %d bytes, truncated %v, %v", name, len(shown), out["truncated"], err)
		}
	}
}

func TestTooManyRequestsIsAResult(t *testing.T) {
	t.Parallel()
	for _, status := range []int{429, 503} {
		l := newLedger(t)
		l.answer = func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "120")
			w.WriteHeader(status)
		}
		out, err := l.call(t, request(domain.Endpoint{Method: "POST", URL: l.URL}, `{}`))
		if err != nil || out["status"] != float64(status) || out["retryAfter"] != "120" || l.count() != 1 {
			t.Errorf("got %v, %v after %d requests", out, err, l.count())
		}
	}
}

func TestAGatewayThatLostItsServerLeavesAnEffectUnknown(t *testing.T) {
	t.Parallel()
	for _, status := range []int{502, 504} {
		for effect, known := range map[domain.SideEffect]bool{"none": true, "idempotent": false, "unsafe": false, "": false} {
			l := newLedger(t)
			l.answer = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
			req := request(domain.Endpoint{Method: "POST", URL: l.URL, SideEffect: effect}, `{}`)
			req.EffectKey, req.Sending = "eff_1", func(context.Context) error { return nil }
			out, err := l.call(t, req)
			var public *tool.Error
			if known && (err != nil || out["status"] != float64(status)) || !known && (err == nil || errors.As(err, &public)) {
				t.Errorf("%d after side effect %q: %v, %v", status, effect, out, err)
			}
		}
	}
}

func TestABodyThatBreaksOffLeavesTheStatusKnown(t *testing.T) {
	t.Parallel()
	var bomb bytes.Buffer
	packer := gzip.NewWriter(&bomb)
	_, _ = packer.Write(make([]byte, 8<<20))
	_ = packer.Close()
	for name, answer := range map[string]http.HandlerFunc{
		"cut": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			w.WriteHeader(http.StatusCreated)
			_, _ = io.WriteString(w, "part")
		},
		"bomb": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			w.WriteHeader(http.StatusCreated)
			_, _ = w.Write(bomb.Bytes())
		},
		"brotli": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "br")
			w.WriteHeader(http.StatusCreated)
			_, _ = io.WriteString(w, "part")
		},
	} {
		l := newLedger(t)
		l.answer = answer
		req := request(domain.Endpoint{Method: "POST", URL: l.URL}, `{}`)
		req.EffectKey, req.Sending = "eff_1", func(context.Context) error { return nil }
		out, err := l.call(t, req)
		if err != nil || out["status"] != float64(201) || out["truncated"] != true || l.count() != 1 {
			t.Errorf("%s: got %v, %v", name, out, err)
		}
	}
}

func TestSecretsAreNeverShown(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("0123456789abcdef", 250)
	secrets := map[string]string{"X-Long": long, "Authorization": "Bearer " + apiKey, "X-Basic": "Basic dXNlcjpwYXNzd29yZDEyMw==", "X-Number": "1234567890", "X-Short": "ab"}
	parts := []string{apiKey, `sk-live-\"quoted\"/4711&x`, "sk-live-%22quoted%22%2F4711%26x", `sk-live-\"quoted\"/4711\u0026x`, "dXNlcjpwYXNzd29yZDEyMw==", "user:password123", "password123", "1234567890", signing, signing[6:]}
	quoted := func(s string) string {
		b, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	plain := strings.Join(parts, " | ")
	for name, c := range map[string]struct{ kind, body string }{
		"text":             {"text/plain", plain},
		"JSON":             {"application/json", `{"echo":` + quoted(plain) + `,"number":1234567890,"list":[{` + quoted(apiKey) + `:1}]}`},
		"escaped":          {"application/json", `{"echo":"` + strings.ReplaceAll(signing, "M", `\u004d`) + `"}`},
		"given twice":      {"application/json", `{"echo":` + quoted(apiKey) + `,"echo":"x"}`},
		"JSON in JSON":     {"application/json", quoted(quoted(plain))},
		"broken JSON":      {"application/json", `{"echo":` + quoted(plain)},
		"NUL between":      {"text/plain", strings.ReplaceAll(signing, "K", "K\x00")},
		"cut":              {"text/plain", strings.Repeat(long, 300)},
		"in content type":  {"text/plain; x=" + signing, "x"},
		"in binary":        {"image/png", plain},
		"in an XML answer": {"application/xml", "<a>" + plain + "</a>"},
	} {
		l := newLedger(t)
		l.answer = func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", c.kind)
			w.Header().Set("Retry-After", signing)
			_, _ = io.WriteString(w, c.body)
		}
		e := domain.Endpoint{Method: "POST", URL: l.URL, SigningSecret: "sealed:" + signing, Headers: map[string]string{}}
		for header, value := range secrets {
			e.Headers[header] = "sealed:" + value
		}
		result, err := backend(t, l.Listener.Addr().String()).Call(t.Context(), request(e, `{}`))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var out any
		if err := json.Unmarshal(result.Output, &out); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		shown := string(result.Output) + fmt.Sprint(out)
		for _, part := range append(parts, "whsec_M", "ILPZIo2LaLa", "0123456789abcdef") {
			if strings.Contains(shown, part) {
				t.Errorf("%s: %s is shown in %.300s", name, part, shown)
			}
		}
	}
}

func TestSpecs(t *testing.T) {
	t.Parallel()
	own := map[string]any{"properties": map[string]any{"id": map[string]any{"type": "integer"}, "note": map[string]any{}}, "required": []any{"note"}, "additionalProperties": false}
	before := fmt.Sprint(own)
	specs := httprequest.Specs(domain.HTTPRequestTool{Enabled: true, Endpoints: []domain.Endpoint{
		{Name: "a", Description: "Reads.", Method: "GET", URL: "https://a.test/{id}?q={q}", SideEffect: domain.SideEffectNone},
		{Name: "b", Method: "POST", URL: "https://a.test/", SideEffect: domain.SideEffectIdempotent},
		{Name: "c", Method: "PUT", URL: "https://a.test/{id}/{sub}?api_key=secret&q={q}", InputSchema: own},
		{Name: "d", Method: "GET", URL: "https://{host}/"},
		{Name: "e", Method: "DELETE", URL: "https://a.test/", InputSchema: map[string]any{}},
	}})
	want := []string{
		`a|Reads.|none|{"additionalProperties":false,"properties":{"id":{"type":"string"},"q":{"type":"string"}},"required":["id","q"],"type":"object"}`,
		`b|Calls POST a.test/.|idempotent|{"additionalProperties":true,"properties":{},"type":"object"}`,
		`c|Calls PUT a.test/{id}/{sub}.|unsafe|{"additionalProperties":false,"properties":{"id":{"type":"integer"},"note":{},"q":{"type":"string"},"sub":{"type":"string"}},"required":["note","id","sub"],"type":"object"}`,
		`e|Calls DELETE a.test/.|unsafe|{"properties":{},"type":"object"}`,
	}
	if len(specs) != len(want) {
		t.Fatalf("got %d specs", len(specs))
	}
	for i, s := range specs {
		if got := fmt.Sprintf("%s|%s|%s|%s", s.Name, s.Description, s.SideEffect, s.Schema); got != want[i] {
			t.Errorf("got  %s\nwant %s", got, want[i])
		}
	}
	if after := fmt.Sprint(own); before != after {
		t.Errorf("the configuration was changed: %s", after)
	}
	if got := httprequest.Specs(domain.HTTPRequestTool{Endpoints: []domain.Endpoint{{Name: "a", URL: "https://a.test"}}}); len(got) > 0 {
		t.Errorf("a disabled tool has %v", got)
	}
}
