package outbound

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// hostPort returns the address of a test server.
func hostPort(server *httptest.Server) string { return server.Listener.Addr().String() }

func listen(t *testing.T, address string) net.Listener {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func start(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server
}

// allowing returns a client for test servers.
func allowing(t *testing.T, servers ...*httptest.Server) *Client {
	t.Helper()
	var cfg Config
	for _, server := range servers {
		cfg.Allow = append(cfg.Allow, hostPort(server))
	}
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func fetch(t *testing.T, c *http.Client, address string) (string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	return do(c, req)
}

func do(c *http.Client, req *http.Request) (string, error) {
	resp, err := c.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	return string(b), err
}

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	for _, entry := range []string{"", "example.com", "10.0.0.0/33", "::ffff:10.0.0.0/104", "http://a:80", "a:b", "a:0", "a:65536", "a:-1", "127.1:80", "a@b:80", ":80", "a/24", "[::1%25lo]:80", "fe80::1%lo/64", "::1:80"} {
		if _, err := New(Config{Allow: []string{entry}}); err == nil {
			t.Errorf("%q was taken", entry)
		}
	}
	for _, port := range []int{0, -1, 65536} {
		if _, err := New(Config{OwnPorts: []int{port}}); err == nil {
			t.Errorf("port %d was taken", port)
		}
	}
	if _, err := New(Config{Allow: []string{"127.0.0.1:80", "[::1]:8080", "Example.COM:443", "bücher.example:443", "10.0.0.0/8", "fd00::/8"}, OwnPorts: []int{8080}}); err != nil {
		t.Error(err)
	}
	for _, o := range []Options{{Origin: "ftp://a"}, {Origin: "https://"}, {Origin: "https://u@a"}, {Trusted: "a"}, {Trusted: "127.1:80"}} {
		c, _ := New(Config{})
		if _, err := fetch(t, c.HTTP(o), "https://example.com/"); !errors.Is(err, ErrRefused) || !AsError(err).NotSent {
			t.Errorf("%+v: got %v", o, err)
		}
	}
}

func TestGuard(t *testing.T) {
	t.Parallel()
	g, err := newGuard([]string{"10.0.0.5:9000", "db.test:5432", "10.9.0.0/16", "fd12::/16", "127.0.0.0/8"}, []int{8080, 443, 5432, 9000})
	if err != nil {
		t.Fatal(err)
	}
	g.locals = func() ([]net.Addr, error) {
		return []net.Addr{&net.IPNet{IP: net.ParseIP("93.184.216.34"), Mask: net.CIDRMask(24, 32)}}, nil
	}
	for _, c := range []struct {
		name, host, network, address string
		permit                       permit
		want                         bool
	}{
		{"public", "a.test", "tcp4", "8.8.8.8:443", permit{}, true},
		{"public, port 80", "a.test", "tcp4", "8.8.8.8:80", permit{}, true},
		{"public IPv6", "a.test", "tcp6", "[2606:4700::1111]:443", permit{}, true},
		{"other port", "a.test", "tcp4", "8.8.8.8:8443", permit{}, false},
		{"the origin's port", "a.test", "tcp4", "8.8.8.8:8443", permit{port: 8443}, true},
		{"private, the origin's port", "a.test", "tcp4", "10.0.0.1:8443", permit{port: 8443}, false},
		{"listed address", "10.0.0.5", "tcp4", "10.0.0.5:9000", permit{}, true},
		{"listed address by a name", "a.test", "tcp4", "10.0.0.5:9000", permit{}, true},
		{"its other port", "10.0.0.5", "tcp4", "10.0.0.5:9001", permit{}, false},
		{"listed name", "db.test", "tcp4", "192.168.7.7:5432", permit{}, true},
		{"its address by another name", "a.test", "tcp4", "192.168.7.7:5432", permit{}, false},
		{"listed network", "a.test", "tcp4", "10.9.1.1:80", permit{}, true},
		{"listed network, other port", "a.test", "tcp4", "10.9.1.1:6379", permit{}, false},
		{"listed network, origin's port", "a.test", "tcp4", "10.9.1.1:6379", permit{port: 6379}, true},
		{"listed IPv6 network", "a.test", "tcp6", "[fd12::1]:80", permit{}, true},
		{"trusted", "search.test", "tcp4", "172.16.0.9:8888", permit{trusted: "search.test:8888"}, true},
		{"trusted host's other port", "search.test", "tcp4", "172.16.0.9:8889", permit{trusted: "search.test:8888"}, false},
		{"another host at the trusted one's address", "a.test", "tcp4", "172.16.0.9:8888", permit{trusted: "search.test:8888"}, false},
		{"own port in a listed network", "a.test", "tcp4", "127.0.0.1:443", permit{}, false},
		{"own port as the origin's", "a.test", "tcp4", "127.0.0.1:8080", permit{port: 8080}, false},
		{"own port, trusted", "search.test", "tcp4", "127.0.0.1:8080", permit{trusted: "search.test:8080"}, true},
		{"own port on another machine of a listed network", "a.test", "tcp4", "10.9.1.1:443", permit{}, false},
		{"own port as the origin's, there", "10.9.1.1", "tcp4", "10.9.1.1:5432", permit{port: 5432}, false},
		{"own port as the origin's, in a listed IPv6 network", "a.test", "tcp6", "[fd12::1]:5432", permit{port: 5432}, false},
		{"own port, another name of a listed one's machine", "a.test", "tcp4", "10.9.1.2:5432", permit{port: 5432}, false},
		{"own port, the very address listed", "a.test", "tcp4", "10.0.0.5:9000", permit{}, true},
		{"own port, the very name listed, in a listed network", "db.test", "tcp4", "10.9.1.2:5432", permit{}, true},
		{"own port of a public address", "a.test", "tcp4", "8.8.8.8:5432", permit{port: 5432}, true},
		{"own public address", "a.test", "tcp4", "93.184.216.34:443", permit{}, false},
		{"own public address, port of another service", "a.test", "tcp4", "93.184.216.34:80", permit{}, true},
		{"neighbour's public address", "a.test", "tcp4", "93.184.216.35:443", permit{}, true},
		{"not TCP", "a.test", "udp4", "8.8.8.8:443", permit{}, false},
		{"a zone", "a.test", "tcp6", "[fd12::1%eth0]:443", permit{}, false},
		{"no address", "a.test", "tcp4", "a.test:443", permit{}, false},
	} {
		if err := g.check(c.permit, c.host, c.network, c.address); (err == nil) != c.want || err != nil && !errors.Is(err, ErrRefused) {
			t.Errorf("%s: got %v", c.name, err)
		}
	}
	g.locals = func() ([]net.Addr, error) { return nil, errors.New("none of your business") }
	if err := g.check(permit{}, "a.test", "tcp4", "93.184.216.35:443"); err == nil {
		t.Error("own addresses are not known, and nothing was refused")
	}
}

func TestOwnPortsAreRefusedOnLoopback(t *testing.T) {
	t.Parallel()
	server := start(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "inside") })
	port := server.Listener.Addr().(*net.TCPAddr).Port
	for _, c := range []struct {
		allow []string
		own   []int
		works bool
	}{
		{[]string{"127.0.0.0/8"}, nil, true},
		{[]string{"127.0.0.0/8"}, []int{port}, false},
		{[]string{hostPort(server)}, []int{port}, true},
		{nil, nil, false},
	} {
		client, err := New(Config{Allow: c.allow, OwnPorts: c.own})
		if err != nil {
			t.Fatal(err)
		}
		_, err = fetch(t, client.HTTP(Options{Origin: server.URL}), server.URL)
		if (err == nil) != c.works {
			t.Errorf("%+v: got %v", c, err)
		}
	}
}

func TestOriginIsNeverLeft(t *testing.T) {
	t.Parallel()
	other := start(t, func(http.ResponseWriter, *http.Request) { t.Error("the other host was asked") })
	server := start(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/away":
			http.Redirect(w, r, other.URL, http.StatusFound)
		case "/here":
			http.Redirect(w, r, "/there", http.StatusFound)
		}
	})
	c := allowing(t, server, other).HTTP(Options{Origin: server.URL, Redirects: 3})
	if _, err := fetch(t, c, server.URL+"/here"); err != nil {
		t.Error(err)
	}
	if _, err := fetch(t, c, server.URL+"/away"); !errors.Is(err, ErrRefused) || AsError(err).NotSent {
		t.Errorf("got %v", err)
	}
	if _, err := fetch(t, c, other.URL); !errors.Is(err, ErrRefused) || !AsError(err).NotSent {
		t.Errorf("got %v", err)
	}
}

func TestTrustedIsOneHostOnly(t *testing.T) {
	t.Parallel()
	private := start(t, func(http.ResponseWriter, *http.Request) { t.Error("the private host was asked") })
	search := start(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, private.URL, http.StatusFound) })
	c := allowing(t)
	if _, err := fetch(t, c.HTTP(Options{}), search.URL); !errors.Is(err, ErrRefused) {
		t.Errorf("got %v", err)
	}
	if _, err := fetch(t, c.HTTP(Options{Trusted: hostPort(search)}), search.URL); err != nil {
		t.Error(err)
	}
	if _, err := fetch(t, c.HTTP(Options{Trusted: hostPort(search), Redirects: 1}), search.URL); !errors.Is(err, ErrRefused) {
		t.Errorf("got %v", err)
	}
	if _, err := fetch(t, c.HTTP(Options{}), search.URL); !errors.Is(err, ErrRefused) {
		t.Errorf("a connection of the trusted client was used again: %v", err)
	}
}

func TestRedirectsAreCapped(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	server := start(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		http.Redirect(w, r, "/", http.StatusFound)
	})
	for limit, want := range map[int]int32{0: 1, 1: 2, 3: 4, 9: 4, -1: 1} {
		asked.Store(0)
		_, err := fetch(t, allowing(t, server).HTTP(Options{Redirects: limit}), server.URL)
		if (err == nil) != (limit <= 0) || asked.Load() != want {
			t.Errorf("%d: asked %d times, %v", limit, asked.Load(), err)
		}
	}
}

// Credentials are sent only to their origin, even across redirects.
func TestCredentialsStayWithTheirOrigin(t *testing.T) {
	t.Parallel()
	var seen []http.Header
	var first *httptest.Server
	second := start(t, func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, r.Header)
		if r.URL.Path == "/back" {
			http.Redirect(w, r, first.URL+"/end", http.StatusFound)
		}
	})
	first = start(t, func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, r.Header)
		switch r.URL.Path {
		case "/same":
			http.Redirect(w, r, "/end", http.StatusFound)
		case "/other":
			http.Redirect(w, r, second.URL+"/back", http.StatusFound)
		}
	})
	c := allowing(t, first, second).HTTP(Options{Redirects: 3})
	ask := func(path string) []http.Header {
		seen = nil
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, first.URL+path+"?token=secret", http.NoBody)
		req.Header = http.Header{"Authorization": {"secret"}, "Cookie": {"secret"}, "X-Api-Key": {"secret"}, "Accept": {"text/html"}, "Accept-Language": {"de"}}
		if _, err := do(c, req); err != nil {
			t.Fatal(err)
		}
		return seen
	}
	if got := ask("/same"); len(got) != 2 || got[1].Get("X-Api-Key") != "secret" || got[1].Get("Referer") != "" || got[1].Get("User-Agent") != "Parley" {
		t.Errorf("the same origin got %v", got)
	}
	got := ask("/other")
	if len(got) != 3 {
		t.Fatalf("got %v", got)
	}
	for _, header := range got[1:] { // a redirect back to the origin does not restore the credentials
		if header.Get("Accept-Language") != "de" || header.Get("Accept") != "text/html" {
			t.Errorf("got %v", header)
		}
		for name, values := range header {
			if strings.Contains(strings.Join(values, ""), "secret") {
				t.Errorf("%s went to another origin: %v", name, values)
			}
		}
	}
}

func TestCredentialsAreNotSentInTheClear(t *testing.T) {
	t.Parallel()
	plain := start(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Header.Get("X-Api-Key")+r.Header.Get("Authorization"))
	})
	secure := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, plain.URL, http.StatusTemporaryRedirect)
	}))
	t.Cleanup(secure.Close)
	client := allowing(t, plain, secure)
	if _, err := fetch(t, client.HTTP(Options{}), secure.URL); err == nil || AsError(err).Message != "The host's certificate is not valid." || !AsError(err).NotSent {
		t.Errorf("an unknown certificate: got %v", err)
	}
	client.tune = func(base *http.Transport) {
		base.TLSClientConfig.RootCAs = secure.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	}
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		req, _ := http.NewRequestWithContext(t.Context(), method, secure.URL, strings.NewReader("secret body"))
		if method == http.MethodGet {
			req.Body, req.GetBody, req.ContentLength = http.NoBody, nil, 0
		}
		req.Header = http.Header{"Authorization": {"secret"}, "X-Api-Key": {"secret"}}
		got, err := do(client.HTTP(Options{Redirects: 1}), req)
		if method == http.MethodGet && (err != nil || got != "") || method == http.MethodPost && !errors.Is(err, ErrRefused) {
			t.Errorf("%s: got %q, %v", method, got, err)
		}
	}
}

// The test does not run in parallel, because it changes the environment.
func TestNoProxyOfTheEnvironment(t *testing.T) {
	proxy := start(t, func(http.ResponseWriter, *http.Request) { t.Error("the proxy was asked") })
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"} {
		t.Setenv(name, proxy.URL)
	}
	t.Setenv("NO_PROXY", "")
	t.Setenv("no_proxy", "")
	w := newTestEnv(t, goodZone())
	w.client.guard.exact[hostPort(proxy)] = true
	w.works(t)
}

func packed(t *testing.T, encoding string, plain []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser
	switch encoding {
	case "gzip", "x-gzip":
		w = gzip.NewWriter(&b)
	case "zlib":
		w = zlib.NewWriter(&b)
	default:
		w, _ = flate.NewWriter(&b, flate.BestCompression)
	}
	if _, err := w.Write(plain); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	return b.Bytes()
}

func TestBodiesAreDecodedAndCapped(t *testing.T) {
	t.Parallel()
	zeros := make([]byte, 64<<20)
	text := []byte(strings.Repeat("Grüezi ", 100))
	twice := packed(t, "gzip", packed(t, "gzip", text))
	empty := bytes.Repeat(packed(t, "gzip", nil), 200_000) // 4.6 MB of empty streams
	for _, c := range []struct {
		name, encoding string
		body           []byte
		want           string
		large, fails   bool
	}{
		{name: "plain", body: text, want: string(text)},
		{name: "identity", encoding: "identity", body: text, want: string(text)},
		{name: "gzip", encoding: "gzip", body: packed(t, "gzip", text), want: string(text)},
		{name: "old name", encoding: "X-GZIP ", body: packed(t, "gzip", text), want: string(text)},
		{name: "deflate as it should be", encoding: "deflate", body: packed(t, "zlib", text), want: string(text)},
		{name: "deflate as it often is", encoding: "deflate", body: packed(t, "flate", text), want: string(text)},
		{name: "exactly the cap", body: zeros[:1<<20], want: string(zeros[:1<<20])},
		{name: "exactly the cap, packed", encoding: "gzip", body: packed(t, "gzip", zeros[:1<<20]), want: string(zeros[:1<<20])},
		{name: "one more", body: zeros[:1<<20+1], large: true},
		{name: "bomb", encoding: "gzip", body: packed(t, "gzip", zeros), large: true},
		{name: "deflate bomb", encoding: "deflate", body: packed(t, "zlib", zeros), large: true},
		{name: "packed twice is unpacked once", encoding: "gzip", body: twice, want: string(packed(t, "gzip", text))},
		{name: "empty members without end", encoding: "gzip", body: empty, large: true},
		{name: "nothing", encoding: "gzip", body: nil},
		{name: "twice by its header", encoding: "gzip, gzip", body: twice, fails: true},
		{name: "brotli", encoding: "br", body: text, fails: true},
		{name: "not gzip", encoding: "gzip", body: text, fails: true},
		{name: "cut off", encoding: "gzip", body: packed(t, "gzip", text)[:20], fails: true},
		{name: "one byte", encoding: "deflate", body: []byte{0x78}, fails: true},
	} {
		server := start(t, func(w http.ResponseWriter, _ *http.Request) {
			if c.encoding != "" {
				w.Header().Set("Content-Encoding", c.encoding)
			}
			_, _ = w.Write(c.body)
		})
		got, err := fetch(t, allowing(t, server).HTTP(Options{MaxBytes: 1 << 20}), server.URL)
		switch {
		case c.large && (!errors.Is(err, ErrTooLarge) || len(got) > 1<<20):
			t.Errorf("%s: got %d bytes, %v", c.name, len(got), err)
		case c.fails && (err == nil || errors.Is(err, ErrTooLarge) || AsError(err).Message == "The request failed."):
			t.Errorf("%s: got %q, %v", c.name, got, err)
		case !c.large && !c.fails && (err != nil || got != c.want):
			t.Errorf("%s: got %d bytes, %v", c.name, len(got), err)
		}
	}
}

func TestWhatIsAskedFor(t *testing.T) {
	t.Parallel()
	server := start(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Header.Get("User-Agent")+"|"+r.Header.Get("Accept-Encoding"))
	})
	c := allowing(t, server).HTTP(Options{})
	for accept, want := range map[string]string{"": "Parley|gzip, deflate", "application/json, text/event-stream": "Parley|identity"} {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody)
		req.Header.Set("Accept", accept)
		if got, err := do(c, req); err != nil || got != want {
			t.Errorf("%q: got %q, %v", accept, got, err)
		}
	}
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody)
	req.Host = "other.test"
	if _, err := do(c, req); !errors.Is(err, ErrRefused) {
		t.Errorf("two hosts: got %v", err)
	}
}

func TestTimeIsCapped(t *testing.T) {
	t.Parallel()
	server := start(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/body":
			_, _ = io.WriteString(w, "some")
			_ = http.NewResponseController(w).Flush()
		case "/redirect":
			http.Redirect(w, r, "/body", http.StatusFound)
			return
		}
		<-r.Context().Done()
	})
	for _, path := range []string{"/header", "/body", "/redirect"} {
		began := time.Now()
		_, err := fetch(t, allowing(t, server).HTTP(Options{Timeout: time.Second, Redirects: 1}), server.URL+path)
		if err == nil || AsError(err).Message != "The request took too long." || AsError(err).NotSent || time.Since(began) > 25*time.Second {
			t.Errorf("%s: got %v after %v", path, err, time.Since(began))
		}
	}
	hop := newTransport(allowing(t, server), Options{Timeout: time.Hour})
	end := time.Now().Add(time.Minute)
	begun, done := context.WithDeadline(t.Context(), end)
	done()
	before, _ := http.NewRequestWithContext(begun, http.MethodGet, server.URL, http.NoBody)
	if at := hop.deadline(&http.Request{Response: &http.Response{Request: before}}); !at.Equal(end) {
		t.Errorf("a redirect moves the end of the exchange to %v", at)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	req, _ := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, http.NoBody)
	if _, err := do(allowing(t, server).HTTP(Options{}), req); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: got %v", err)
	}
}

// raw starts a TCP server. On each connection, it reads a request's header up to the empty line and
// then sends the bytes of the argument answer.
func raw(t *testing.T, answer string) (address string, requests *atomic.Int32) {
	t.Helper()
	l := listen(t, "127.0.0.1:0")
	requests = new(atomic.Int32)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			in := bufio.NewReader(c)
			for line, err := in.ReadString('\n'); err == nil; line, err = in.ReadString('\n') {
				if line == "\r\n" {
					requests.Add(1)
					_, _ = io.WriteString(c, answer)
					break
				}
			}
			_ = c.Close()
		}
	}()
	return l.Addr().String(), requests
}

func TestBrokenAnswers(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"nothing":              "",
		"no HTTP":              "220 mail.test ESMTP\r\n",
		"endless headers":      "HTTP/1.1 200 OK\r\n" + strings.Repeat("X-Fill: "+strings.Repeat("x", 1000)+"\r\n", 100) + "\r\n",
		"cut body":             "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nfew",
		"bad chunk":            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
		"two lengths":          "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
		"protocol changes":     "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
		"redirect to a secret": "HTTP/1.1 302 Found\r\nLocation: http://[::1\r\nContent-Length: 0\r\n\r\n",
	} {
		address, requests := raw(t, answer)
		c, err := New(Config{Allow: []string{address}})
		if err != nil {
			t.Fatal(err)
		}
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/?k=secret", http.NoBody)
		req.Header.Set("Idempotency-Key", "k") // because of this header, net/http retries the request on a reused connection
		_, err = do(c.HTTP(Options{Fresh: true, Redirects: 1}), req)
		failed := AsError(err)
		if err == nil || failed.NotSent || requests.Load() != 1 || strings.Contains(failed.Message, "secret") || strings.Contains(failed.Message, "127.0.0.1") {
			t.Errorf("%s: asked %d times, %v, %+v", name, requests.Load(), err, failed)
		}
	}
}

func TestNotSentIsCertain(t *testing.T) {
	t.Parallel()
	closed := listen(t, "127.0.0.1:0")
	_ = closed.Close()
	silent := listen(t, "127.0.0.1:0") // accepts connections and never sends a byte
	c, err := New(Config{Allow: []string{closed.Addr().String(), silent.Addr().String(), "missing.test:80"}, Resolver: goodZone().serve(t)})
	if err != nil {
		t.Fatal(err)
	}
	for address, want := range map[string]string{
		"http://" + closed.Addr().String():  "The host could not be reached.",
		"https://" + silent.Addr().String(): "The request took too long.",
		"http://missing.test/":              "The host could not be reached.",
	} {
		_, err := fetch(t, c.HTTP(Options{Fresh: true, Timeout: time.Second}), address)
		if failed := AsError(err); err == nil || !failed.NotSent || failed.Message != want {
			t.Errorf("%s: got %v, %+v", address, err, failed)
		}
	}
}

func TestSending(t *testing.T) {
	t.Parallel()
	address, requests := raw(t, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
	c, err := New(Config{Allow: []string{address}})
	if err != nil {
		t.Fatal(err)
	}
	post := func(ctx context.Context) (string, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address, strings.NewReader("body"))
		if err != nil {
			t.Fatal(err)
		}
		return do(c.HTTP(Options{Fresh: true}), req)
	}
	stale := errors.New("stale")
	calls := 0
	_, err = post(WithSending(t.Context(), func(context.Context) error { calls++; return stale }))
	if !errors.Is(err, stale) || !AsError(err).NotSent || requests.Load() != 0 || calls != 1 {
		t.Errorf("got %v after %d calls, %d requests", err, calls, requests.Load())
	}
	got, err := post(WithSending(t.Context(), func(context.Context) error {
		calls++
		if requests.Load() != 0 {
			t.Error("the request was sent before the hook returned")
		}
		return nil
	}))
	if err != nil || got != "ok" || calls != 2 || requests.Load() != 1 {
		t.Errorf("got %q, %v after %d calls, %d requests", got, err, calls, requests.Load())
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, err = post(WithSending(ctx, func(ctx context.Context) error { cancel(); <-ctx.Done(); return ctx.Err() }))
	if !errors.Is(err, context.Canceled) || !AsError(err).NotSent || requests.Load() != 1 {
		t.Errorf("cancelled meanwhile: got %v, %d requests", err, requests.Load())
	}
}

func TestSendingOverTLS(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	secure := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	t.Cleanup(secure.Close)
	client := allowing(t, secure)
	client.tune = func(base *http.Transport) {
		base.TLSClientConfig.RootCAs = secure.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	}
	for _, refusal := range []error{errors.New("stale"), nil} {
		ctx := WithSending(t.Context(), func(context.Context) error {
			if asked.Load() != 0 {
				t.Error("the request was sent before the hook returned")
			}
			return refusal
		})
		req, _ := http.NewRequestWithContext(ctx, http.MethodPost, secure.URL, strings.NewReader("body"))
		_, err := do(client.HTTP(Options{Fresh: true}), req)
		if !errors.Is(err, refusal) || (asked.Load() == 0) != (refusal != nil) {
			t.Errorf("%v: got %v after %d requests", refusal, err, asked.Load())
		}
	}
}

func TestAbandonedRequestsNeverLeave(t *testing.T) {
	t.Parallel()
	ours, theirs := net.Pipe()
	defer func() { _ = ours.Close(); _ = theirs.Close() }()
	w := &sendState{ctx: t.Context()}
	c := &conn{Conn: ours}
	c.sendState.Store(w)
	if notSent, err := w.abandon(); !notSent || err != nil {
		t.Errorf("got %v, %v", notSent, err)
	}
	if n, err := c.Write([]byte("late")); n != 0 || err == nil {
		t.Errorf("%d bytes left, %v", n, err)
	}
}

func FuzzURL(f *testing.F) {
	for _, host := range forbiddenHosts {
		f.Add("http://" + host + "/")
		f.Add("https://" + host + ":8080/x?y#z")
	}
	for _, address := range forbiddenURLs {
		f.Add(strings.ReplaceAll(address, "%d", "80"))
	}
	f.Add("https://example.com/page?x=1")
	f.Add("http://8.8.8.8/")
	f.Add("http://[2606:4700::1111]/")
	answers := append([]string{"93.184.216.34", "2606:4700::1"}, forbiddenAddresses...)
	enough := errors.New("far enough")
	open := netip.MustParsePrefix("10.77.0.0/16")
	f.Fuzz(func(t *testing.T, address string) {
		z := &zone{any: answers}
		c, err := New(Config{Allow: []string{open.String(), "10.0.0.5:9000"}, OwnPorts: []int{8080}, Resolver: z.inMemory()})
		if err != nil {
			t.Fatal(err)
		}
		c.guard.seen = func(_ string, to netip.AddrPort) error {
			if !mayBeDialled(to, open) {
				t.Errorf("%q: %v would have been dialled", address, to)
			}
			return enough // no connection is made to the address
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
		if err != nil {
			return
		}
		_, err = do(c.HTTP(Options{Timeout: 5 * time.Second}), req)
		if err == nil {
			t.Errorf("%q was answered", address)
		} else if !AsError(err).NotSent {
			t.Errorf("%q: something left: %v", address, err)
		}
	})
}

// mayBeDialled reports whether the guard should allow an address. It shares no code with the guard.
func mayBeDialled(to netip.AddrPort, open netip.Prefix) bool {
	addr := to.Addr()
	if to.String() == "10.0.0.5:9000" {
		return true
	}
	if to.Port() != 80 && to.Port() != 443 {
		return false
	}
	if open.Contains(addr) {
		return true
	}
	if !addr.IsGlobalUnicast() || addr.IsPrivate() || addr.Zone() != "" || addr.Is4In6() {
		return false
	}
	if addr.Is6() {
		b := addr.As16()
		return b[0]>>5 == 1 && !strings.HasPrefix(addr.StringExpanded(), "2001:0000:") && !strings.HasPrefix(addr.StringExpanded(), "2002:")
	}
	b := addr.As4()
	first, _ := strconv.Atoi(strings.SplitN(addr.String(), ".", 2)[0])
	return first > 0 && first < 224 && (first != 100 || b[1] < 64 || b[1] > 127) && addr.String() != "168.63.129.16" && (first != 192 || b[1] != 0 || b[2] != 0)
}
