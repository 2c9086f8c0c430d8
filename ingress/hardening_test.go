package ingress_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"parley/shared/testkit"
)

// wire is a raw connection from a test to an ingress.
type wire struct {
	net.Conn
	t      *testing.T
	reader *bufio.Reader
}

func (r *testEnv) dial(t *testing.T) *wire {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(r.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &wire{Conn: conn, t: t, reader: bufio.NewReader(conn)}
}

// write sends bytes. It ignores the errors that occur if the server has closed the connection.
func (w *wire) write(text string) {
	w.t.Helper()
	if _, err := io.WriteString(w.Conn, text); err != nil && !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) {
		w.t.Fatal(err)
	}
}

// responses returns the statuses of the responses that the server sends. The argument due is the
// number of expected responses. responses waits up to a minute for each expected response, and then
// a moment for further responses. If the argument end is set, responses waits until the server has
// closed the connection.
func (w *wire) responses(due int, end bool) (statuses []int, closed bool) {
	w.t.Helper()
	for {
		wait := quiet
		if end || len(statuses) < due {
			wait = time.Minute
		}
		if err := w.SetReadDeadline(time.Now().Add(wait)); err != nil {
			w.t.Fatal(err)
		}
		res, err := http.ReadResponse(w.reader, nil)
		if err != nil {
			return statuses, !errors.Is(err, os.ErrDeadlineExceeded)
		}
		_, err = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		if err != nil {
			w.t.Errorf("reading response %d: %v", res.StatusCode, err)
		}
		statuses = append(statuses, res.StatusCode)
	}
}

func hardened(t *testing.T) *testEnv {
	t.Helper()
	return newTestEnv(t, defaults())
}

const quiet = 300 * time.Millisecond // longer than a server on loopback takes to respond on an idle machine

// A proxy and the service could disagree on where an ambiguous request ends. The service either
// rejects the request and closes the connection, or parses it in the only way that RFC 9112 allows.
// RFC 9112 requires that the connection is closed after a chunked request that also has a
// Content-Length. net/http does not report this Content-Length, so the service closes the
// connection after every chunked request.
func TestSmuggling(t *testing.T) {
	t.Parallel()
	r := hardened(t)
	const next = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
	body := `{"name":"a","systemPrompt":"p"}`
	n := strconv.Itoa(len(body))
	chunked := strconv.FormatInt(int64(len(body)), 16) + "\r\n" + body + "\r\n0\r\n\r\n"
	post := func(headers, body string) string {
		return "POST /api/agents HTTP/1.1\r\nHost: x\r\nX-Api-Key: " + r.key + "\r\nContent-Type: application/json\r\n" + headers + "\r\n" + body + next
	}
	get := func(headers string) string { return "GET /healthz HTTP/1.1\r\n" + headers + "\r\n" + next }
	for name, c := range map[string]struct {
		sent   string
		want   []int
		closed bool
	}{
		"a request and another":      {post("Content-Length: "+n+"\r\n", body), []int{201, 200}, false},
		"chunked":                    {post("Transfer-Encoding: chunked\r\n", chunked), []int{201}, true},
		"differing lengths":          {post("Content-Length: "+n+"\r\nContent-Length: 5\r\n", body), []int{400}, true},
		"equal lengths":              {post("Content-Length: "+n+"\r\nContent-Length: "+n+"\r\n", body), []int{201, 200}, false},
		"lengths in one line":        {post("Content-Length: "+n+", "+n+"\r\n", body), []int{400}, true},
		"negative length":            {post("Content-Length: -1\r\n", body), []int{400}, true},
		"signed length":              {post("Content-Length: +"+n+"\r\n", body), []int{400}, true},
		"hexadecimal length":         {post("Content-Length: 0x1f\r\n", body), []int{400}, true},
		"endless length":             {post("Content-Length: 99999999999999999999\r\n", body), []int{400}, true},
		"empty length":               {post("Content-Length: \r\n", body), []int{400}, true},
		"length and chunks":          {post("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", chunked), []int{201}, true},
		"chunks and length":          {post("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", chunked), []int{201}, true},
		"chunked twice":              {post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", chunked), []int{501}, true},
		"chunked by two names":       {post("Transfer-Encoding: chunked, identity\r\n", chunked), []int{501}, true},
		"unknown coding":             {post("Transfer-Encoding: xchunked\r\n", chunked), []int{501}, true},
		"coding in quotes":           {post("Transfer-Encoding: \"chunked\"\r\n", chunked), []int{501}, true},
		"coding after a tab":         {post("Transfer-Encoding:\tchunked\r\n", chunked), []int{201}, true},
		"coding after VT":            {post("Transfer-Encoding: \x0bchunked\r\n", chunked), []int{400}, true},
		"chunk size not a number":    {post("Transfer-Encoding: chunked\r\n", "zz\r\n"+body+"\r\n0\r\n\r\n"), []int{400}, true},
		"chunk size negative":        {post("Transfer-Encoding: chunked\r\n", "-1\r\n"+body+"\r\n0\r\n\r\n"), []int{400}, true},
		"chunk size with 0x":         {post("Transfer-Encoding: chunked\r\n", "0x1f\r\n"+body+"\r\n0\r\n\r\n"), []int{400}, true},
		"chunk size too great":       {post("Transfer-Encoding: chunked\r\n", "fffffffffffffffff\r\n"+body+"\r\n0\r\n\r\n"), []int{400}, true},
		"chunk longer than its size": {post("Transfer-Encoding: chunked\r\n", "3\r\n"+body+"\r\n0\r\n\r\n"), []int{400}, true},
		"chunk ends with LF alone":   {post("Transfer-Encoding: chunked\r\n", strings.Replace(chunked, "\r\n0", "\n0", 1)), []int{400}, true},
		"chunk extension endless":    {post("Transfer-Encoding: chunked\r\n", "1;"+strings.Repeat("a", 100_000)+"\r\n"+body), []int{400}, true},
		"space before a colon":       {get("Host: x\r\nX-Api-Key : y\r\n"), []int{400}, true},
		"space before the first":     {get(" Host: x\r\n"), []int{400}, true},
		"space in a name":            {get("Host: x\r\nX Api Key: y\r\n"), []int{400}, true},
		"no name":                    {get("Host: x\r\n: y\r\n"), []int{400}, true},
		"no colon":                   {get("Host: x\r\nnonsense\r\n"), []int{400}, true},
		"NUL in a value":             {get("Host: x\r\nX-A: a\x00b\r\n"), []int{400}, true},
		"NUL in a name":              {get("Host: x\r\nX-\x00A: a\r\n"), []int{400}, true},
		"CR in a value":              {get("Host: x\r\nX-A: a\rb\r\n"), []int{400}, true},
		"DEL in a value":             {get("Host: x\r\nX-A: a\x7fb\r\n"), []int{400}, true},
		"folded line":                {get("Host: x\r\nX-A: a\r\n b\r\n"), []int{200, 200}, false},
		"folded coding":              {post("X-A: a\r\n Transfer-Encoding: chunked\r\nContent-Length: "+n+"\r\n", body), []int{201, 200}, false},
		"two hosts":                  {get("Host: x\r\nHost: y\r\n"), []int{400}, true},
		"no host":                    {get("X-A: a\r\n"), []int{400}, true},
		"empty host":                 {get("Host: \r\n"), []int{200, 200}, false},
		"strange host":               {get("Host: x y\r\n"), []int{400}, true},
		"host with a path":           {get("Host: x/../y\r\n"), []int{400}, true},
		"absolute form":              {"GET http://other.test/healthz HTTP/1.1\r\nHost: x\r\n\r\n" + next, []int{200, 200}, false},
		"absolute form of a file":    {"GET file:///etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n" + next, []int{404, 200}, false},
		"authority form":             {"CONNECT x:80 HTTP/1.1\r\nHost: x\r\n\r\n" + next, []int{404, 200}, false},
		"asterisk form":              {"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n" + next, []int{200, 200}, false},
		"no path":                    {"GET healthz HTTP/1.1\r\nHost: x\r\n\r\n" + next, []int{400}, true},
		"space in the path":          {"GET /health z HTTP/1.1\r\nHost: x\r\n\r\n" + next, []int{400}, true},
		"two spaces":                 {"GET  /healthz HTTP/1.1\r\nHost: x\r\n\r\n" + next, []int{400}, true},
		"control in the path":        {"GET /health\x01z HTTP/1.1\r\nHost: x\r\n\r\n" + next, []int{400}, true},
		"bad escape in the path":     {"GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n" + next, []int{400}, true},
		"escaped NUL in the path":    {"GET /%00 HTTP/1.1\r\nHost: x\r\n\r\n" + next, []int{404, 200}, false},
		"dots in the path":           {"GET /api/../healthz HTTP/1.1\r\nHost: x\r\n\r\n" + next, []int{404, 200}, false},
		"escaped slash":              {"GET /api%2fagents HTTP/1.1\r\nHost: x\r\n\r\n" + next, []int{404, 200}, false},
		"two slashes":                {"GET //healthz HTTP/1.1\r\nHost: x\r\n\r\n" + next, []int{404, 200}, false},
		"LF alone":                   {"GET /healthz HTTP/1.1\nHost: x\n\n" + next, []int{200, 200}, false},
		"HTTP/0.9":                   {"GET /healthz\r\n\r\n" + next, []int{400}, true},
		"HTTP/2 preface":             {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + next, []int{404}, true},
		"HTTP/3":                     {"GET /healthz HTTP/3.0\r\nHost: x\r\n\r\n" + next, []int{505}, true},
		"HTTP/1.2":                   {"GET /healthz HTTP/1.2\r\nHost: x\r\n\r\n" + next, []int{200, 200}, false},
		"version in small letters":   {"GET /healthz http/1.1\r\nHost: x\r\n\r\n" + next, []int{400}, true},
		"HTTP/1.0":                   {"GET /healthz HTTP/1.0\r\n\r\n" + next, []int{200}, true},
		"HTTP/1.0 kept alive":        {"GET /healthz HTTP/1.0\r\nConnection: keep-alive\r\n\r\n" + next, []int{200, 200}, false},
		"HTTP/1.0 with chunks":       {"POST /healthz HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + next, []int{405}, true},
		"TLS":                        {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\n\n", []int{400}, true},
		"empty lines first":          {"\r\n\r\n" + next, []int{400}, true},
		"trailers":                   {post("Transfer-Encoding: chunked\r\nTrailer: X-Api-Key\r\n", strings.TrimSuffix(chunked, "\r\n")+"X-Api-Key: other\r\n\r\n"), []int{201}, true},
		"upgrade":                    {get("Host: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"), []int{200, 200}, false},
		"connection names a header":  {get("Host: x\r\nConnection: X-Api-Key, close\r\n"), []int{200}, true},
		"expectation":                {post("Expect: 200-ok\r\nContent-Length: "+n+"\r\n", body), []int{417}, true},
		"ten pipelined":              {strings.Repeat(next, 10), slices.Repeat([]int{200}, 10), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := r.dial(t)
			w.write(c.sent)
			got, closed := w.responses(len(c.want), c.closed)
			if !slices.Equal(got, c.want) || closed != c.closed {
				t.Errorf("%v, closed %v; want %v, closed %v", got, closed, c.want, c.closed)
			}
		})
	}
}

// The sizes of single headers, of all headers together and of the request target are limited.
func TestHeaderCap(t *testing.T) {
	t.Parallel()
	r := hardened(t)
	const room = 40 << 10 // more than the limit, including the bytes that net/http adds to it
	for name, c := range map[string]struct {
		sent string
		want []int
	}{
		"one header":    {"GET /healthz HTTP/1.1\r\nHost: x\r\nX-A: " + strings.Repeat("a", room) + "\r\n\r\n", []int{431}},
		"many headers":  {"GET /healthz HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("X-A: a\r\n", room/8) + "\r\n", []int{431}},
		"cookies":       {"GET /healthz HTTP/1.1\r\nHost: x\r\nCookie: " + strings.Repeat("a=b; ", room/5) + "\r\n\r\n", []int{431}},
		"address":       {"GET /healthz?" + strings.Repeat("a", room) + " HTTP/1.1\r\nHost: x\r\n\r\n", []int{431}},
		"method":        {strings.Repeat("A", room) + " / HTTP/1.1\r\nHost: x\r\n\r\n", []int{431}},
		"endless line":  {strings.Repeat("a", 2*room), []int{431}},
		"large, within": {"GET /healthz?" + strings.Repeat("a", 10<<10) + " HTTP/1.1\r\nHost: x\r\nX-A: " + strings.Repeat("a", 10<<10) + "\r\n\r\n", []int{200}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := r.dial(t)
			w.write(c.sent)
			if got, _ := w.responses(len(c.want), false); !slices.Equal(got, c.want) {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}

// If the headers of a request are incomplete after 5 s, the connection is closed.
func TestSlowHeaders(t *testing.T) {
	t.Parallel()
	r := hardened(t)
	for name, begun := range map[string]string{
		"nothing": "", "half a line": "GET /heal", "half the headers": "GET /healthz HTTP/1.1\r\nHost: x\r\n", "half a body's headers": "POST /api/agents HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, began := r.dial(t), time.Now()
			w.write(begun)
			got, closed := w.responses(1, true)
			took := time.Since(began)
			if !closed || took < 4*time.Second || took > testkit.Within(9*time.Second) {
				t.Errorf("%v, closed %v after %v", got, closed, took)
			}
		})
	}
}

// Two thousand clients that each send half a request do not slow down other clients.
func TestSlowClientsDoNotDelayOthers(t *testing.T) {
	t.Parallel()
	r := hardened(t)
	const clients = 2000
	address := strings.TrimPrefix(r.url, "http://")
	halves := []string{
		"", "GET /healthz HTTP/1.1\r\nHost: x\r\nX-A: ", "POST /api/agents HTTP/1.1\r\nHost: x\r\nX-Api-Key: " + r.key + "\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{",
		"POST /api/agents HTTP/1.1\r\nHost: x\r\nX-Api-Key: " + r.key + "\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{",
	}
	conns := make([]net.Conn, clients)
	for i := range conns {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		conns[i] = conn
		if _, err := io.WriteString(conn, halves[i%len(halves)]); err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
	}
	defer func() {
		for _, conn := range conns {
			_ = conn.Close()
		}
	}()
	began := time.Now()
	for range 50 {
		r.call("GET", "/healthz", nil, "").want(200)
		r.call("GET", "/api/agents", r.asKey(), "").want(200)
		r.call("POST", "/api/agents", r.asKey(), `{"name":"a","systemPrompt":"p"}`).want(201)
	}
	if took := time.Since(began); took > testkit.Within(5*time.Second) {
		t.Errorf("150 requests with %d slow clients took %v", clients, took)
	}
}

// A body is limited to 262,144 bytes, with and without a Content-Length. The connection is closed
// even if the client continues to send.
func TestBodyCap(t *testing.T) {
	t.Parallel()
	r := hardened(t)
	head := "POST /api/agents HTTP/1.1\r\nHost: x\r\nX-Api-Key: " + r.key + "\r\nContent-Type: application/json\r\n"
	chunk := "8000\r\n" + strings.Repeat(" ", 0x8000) + "\r\n"
	for name, c := range map[string]struct {
		sent string
		want []int
	}{
		"announced":           {head + "Content-Length: 1000000000\r\n\r\n", []int{413}},
		"announced, expected": {head + "Content-Length: 1000000000\r\nExpect: 100-continue\r\n\r\n", []int{413}},
		"chunks":              {head + "Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat(chunk, 40), []int{413}},
		"endless chunks":      {head + "Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat(chunk, 400), []int{413}},
		"on a GET":            {"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n" + strings.Repeat(" ", 1_000_000), []int{200}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := r.dial(t)
			go func() { _, _ = io.WriteString(w.Conn, c.sent) }() // an error is expected if the server stops reading
			if got, closed := w.responses(len(c.want), true); !slices.Equal(got, c.want) || !closed {
				t.Errorf("%v, closed %v; want %v", got, closed, c.want)
			}
		})
	}
}

// A client may disconnect after any byte of its request: an incomplete request has no effect, and
// other clients still get responses.
func TestEarlyClose(t *testing.T) {
	t.Parallel()
	r := hardened(t)
	body := `{"name":"left","systemPrompt":"p"}`
	request := "POST /api/agents HTTP/1.1\r\nHost: x\r\nX-Api-Key: " + r.key + "\r\nContent-Type: application/json\r\nContent-Length: " +
		strconv.Itoa(len(body)) + "\r\n\r\n" + body
	var wg sync.WaitGroup
	var turn atomic.Int64
	for range 4 {
		wg.Go(func() {
			for n := turn.Add(1); n <= int64(len(request)); n = turn.Add(1) {
				conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(r.url, "http://"))
				if err != nil {
					t.Errorf("after %d closes: %v", n, err)
					return
				}
				_, _ = io.WriteString(conn, request[:n]) // an error is expected if the server closes the connection first
				_ = conn.Close()
			}
		})
	}
	wg.Wait()
	var agents struct{ Data []struct{ Name string } }
	r.call("GET", "/api/agents?limit=100&q=left", r.asKey(), "").into(&agents, 200)
	if len(agents.Data) > 1 {
		t.Errorf("%d agents were created from incomplete requests", len(agents.Data))
	}
	r.call("GET", "/readyz", nil, "").want(200)
}
