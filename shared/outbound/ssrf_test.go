package outbound

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// forbiddenHosts are hosts that must not be reached in any notation. The victim, a server that must
// get no connection, listens on the loopback hosts among them.
var forbiddenHosts = []string{
	"127.0.0.1", "127.0.0.1.", "127.1", "127.0.1", "2130706433", "0x7f000001", "0X7F000001", "0x7f.1", "0177.0.0.1", "017700000001", "00000177.0.0.1",
	"127.0.0.01", "127.000.000.001", "0", "0.0.0.0", "127.255.255.254", "1.2.3.4.5", "999.0.0.1", "4294967296",
	"localhost", "LOCALHOST", "localhost.", "ⓛⓞⓒⓐⓛⓗⓞⓢⓣ", "local\u00adhost",
	"[::]", "[::1]", "[0:0:0:0:0:0:0:1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:ffff:7f00:1]", "[::127.0.0.1]", "[::ffff:8.8.8.8]",
	"[64:ff9b::7f00:1]", "[64:ff9b::127.0.0.1]", "[64:ff9b:1::7f00:1]", "[2002:7f00:1::]", "[2002:a9fe:a9fe::1]", "[2001:0:7f00:1::80ff:fffe]",
	"[fe80::1%25lo]", "[fe80::1]", "[::1%25lo]", "[fec0::1]", "[fc00::1]", "[fd00:ec2::254]", "[ff02::1]", "[2001:db8::1]", "[100::1]",
	"169.254.169.254", "100.100.100.200", "168.63.129.16", "192.0.0.192", "10.0.0.1", "172.16.0.1", "192.168.1.1", "198.18.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255",
	"①②⑦.0.0.1", "①②⑦.⓪.⓪.①", "１２７.0.0.1", "127。0。0。1", "127．0．0．1", "127｡0｡0｡1", "１６９.254.169.254", "²¹³⁰⁷⁰⁶⁴³³", "%E2%91%A0%E2%91%A1%E2%91%A6.0.0.1",
	"%31%32%37.0.0.1", "127.0.0.1%00", "127.0.0.1%2f", "127.0.0.1%0d%0a", "127.0.0.1\x00", "127.0.0.1\t", "127.0.0.1\r\nX: y", "127.0.0.1 ", " 127.0.0.1",
	"user@127.0.0.1", "user:password@127.0.0.1", "@127.0.0.1", "good.test@127.0.0.1", "good.test:80@127.0.0.1", "127.0.0.1\\@good.test", "127.0.0.1\\good.test", "good.test\\127.0.0.1",
	"127.0.0.1#@good.test", "127.0.0.1?@good.test", "good.test,127.0.0.1", "good.test..", ".", "", "a..b.test", "xn--", "[::1", "::1", "[127.0.0.1]", "[localhost]",
}

// forbiddenURLs must not be requested. %d stands for the victim's port.
var forbiddenURLs = []string{
	"file:///etc/passwd", "file://127.0.0.1:%d/", "gopher://127.0.0.1:%d/_GET%%20/", "dict://127.0.0.1:%d/info", "data:text/plain,hello", "ftp://127.0.0.1:%d/",
	"ws://127.0.0.1:%d/", "unix:///run/docker.sock", "javascript:alert(1)", "jar:http://127.0.0.1:%d/!/", "HTTP://127.0.0.1:%d/", "hTTps://127.0.0.1:%d/",
	"http:127.0.0.1:%d/", "http:/127.0.0.1:%d/", "http:///127.0.0.1:%d/", "http:\\\\127.0.0.1:%d\\", "https:\\127.0.0.1:%d",
	"http://127.0.0.1:0%d:1/", "http://127.0.0.1:+%d/", "http://127.0.0.1: %d/", "http://127.0.0.1:%d%%20/", "http://good.test:0/", "http://good.test:65536/",
}

// forbiddenAddresses are in the same networks as forbiddenHosts, in the form in which a name server
// returns them.
var forbiddenAddresses = []string{
	"127.0.0.1", "127.8.8.8", "0.0.0.0", "10.1.2.3", "100.100.100.200", "169.254.169.254", "172.31.255.255", "192.168.0.1", "192.0.0.192", "168.63.129.16", "224.0.0.1", "255.255.255.255",
	"::1", "::", "fd00:ec2::254", "fe80::1", "64:ff9b::7f00:1", "2002:7f00:1::", "2001:0:7f00:1::1", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1", "ff02::1",
}

// testEnv is a client, a host that it may reach, and a victim at the same port of other addresses.
type testEnv struct {
	client *Client
	good   string // host:port
	port   int
	hits   atomic.Int32 // number of connections to the victim

	mu     sync.Mutex
	dialed []netip.AddrPort
	next   string // target of the good host's redirect; empty: no redirect
}

const goodAddress = "127.0.0.2"

// newTestEnv returns an environment in which good.test is 127.0.0.2, which the operator allows. The
// victim listens on 127.0.0.1 and [::1].
func newTestEnv(t *testing.T, z *zone) *testEnv {
	t.Helper()
	w := &testEnv{}
	victim := listen(t, "127.0.0.1:0")
	w.port = victim.Addr().(*net.TCPAddr).Port
	w.count(t, victim)
	if six, err := new(net.ListenConfig).Listen(t.Context(), "tcp6", "[::1]:"+strconv.Itoa(w.port)); err == nil { // if IPv6 is available
		w.count(t, six)
	}
	good := listen(t, net.JoinHostPort(goodAddress, strconv.Itoa(w.port)))
	serve(t, good, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.next != "" && r.URL.Path == "/start" {
			rw.Header()["Location"] = []string{w.next}
			rw.WriteHeader(http.StatusFound)
		}
		_, _ = rw.Write([]byte("good"))
	}))
	client, err := New(Config{Allow: []string{goodAddress + "/32"}, Resolver: z.serve(t)})
	if err != nil {
		t.Fatal(err)
	}
	w.client = client
	w.good = "good.test:" + strconv.Itoa(w.port)
	w.client.guard.ports = append(w.client.guard.ports, uint16(w.port)) // the port is permitted, so that it is no reason to refuse a host
	w.client.guard.seen = func(_ string, to netip.AddrPort) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.dialed = append(w.dialed, to)
		return nil
	}
	return w
}

func (w *testEnv) count(t *testing.T, l net.Listener) {
	t.Helper()
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			w.hits.Add(1)
			_ = c.Close()
		}
	}()
}

func serve(t *testing.T, l net.Listener, h http.Handler) {
	t.Helper()
	server := &http.Server{Handler: h}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
}

// wantUntouched fails the test if the client has connected to any host except the allowed host.
func (w *testEnv) wantUntouched(t *testing.T, what string) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	allowed := netip.AddrPortFrom(netip.MustParseAddr(goodAddress), uint16(w.port))
	if w.hits.Load() > 0 || slices.ContainsFunc(w.dialed, func(a netip.AddrPort) bool { return a != allowed }) {
		t.Fatalf("%q: the victim was reached %d times, dialled: %v", what, w.hits.Load(), w.dialed)
	}
}

// get sends a request. If Go's parser rejects the URL, get constructs it without the parser.
func (w *testEnv) get(t *testing.T, address string, o Options) (status int, at *url.URL, err error) {
	t.Helper()
	o.Fresh = true
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
	if err != nil {
		scheme, rest, _ := strings.Cut(address, "://")
		host, _, _ := strings.Cut(rest, "/")
		req, err = http.NewRequestWithContext(t.Context(), http.MethodGet, "http://placeholder/", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Host, req.URL = host, &url.URL{Scheme: scheme, Host: host, Path: "/"}
	}
	resp, err := w.client.HTTP(o).Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	return resp.StatusCode, resp.Request.URL, nil
}

func (w *testEnv) works(t *testing.T) {
	t.Helper()
	status, _, err := w.get(t, "http://"+w.good+"/", Options{})
	if err != nil || status != http.StatusOK {
		t.Fatalf("the allowed host: %v, %v", status, err)
	}
}

func goodZone() *zone {
	return &zone{answers: map[string][][]string{"good.test": {{goodAddress}}}}
}

func (w *testEnv) forbidden() []string {
	var all []string
	for _, host := range forbiddenHosts {
		for _, scheme := range []string{"http", "https"} {
			all = append(all, fmt.Sprintf("%s://%s:%d/", scheme, host, w.port))
		}
	}
	for _, address := range forbiddenURLs {
		if strings.Contains(address, "%d") {
			address = fmt.Sprintf(address, w.port)
		}
		all = append(all, address)
	}
	return all
}

func TestForbiddenAddressesAreNeverDialled(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, goodZone())
	for _, address := range w.forbidden() {
		_, _, err := w.get(t, address, Options{})
		if failed := AsError(err); err == nil || !errors.Is(err, ErrRefused) && failed.Message != unreachable || !failed.NotSent {
			t.Errorf("%q: got %v, %+v", address, err, failed)
		}
		w.wantUntouched(t, address)
	}
	w.works(t)
}

func TestForbiddenAddressesBehindARedirect(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, goodZone())
	for _, address := range append(w.forbidden(), fmt.Sprintf("//127.0.0.1:%d/", w.port), fmt.Sprintf("//127.1:%d", w.port)) {
		w.mu.Lock()
		w.next, w.dialed = address, nil
		w.mu.Unlock()
		_, at, err := w.get(t, "http://"+w.good+"/start", Options{Redirects: 3})
		// If Go parses the URL as a path on the allowed host, the request may succeed. All other
		// requests must fail.
		if err == nil && at.Host != w.good {
			t.Errorf("%q: got %v", address, at)
		}
		if err != nil && AsError(err).NotSent {
			t.Errorf("%q: the first request was sent", address)
		}
		if len(w.dialed) == 0 {
			t.Errorf("%q: the allowed host was not asked", address)
		}
		w.wantUntouched(t, address)
	}
	w.works(t)
}

func TestForbiddenAddressesBehindNames(t *testing.T) {
	t.Parallel()
	z := goodZone()
	for n, address := range forbiddenAddresses {
		z.answers[fmt.Sprintf("private%d.test", n)] = [][]string{{address}}
	}
	w := newTestEnv(t, z)
	for n, address := range forbiddenAddresses {
		for _, redirected := range []bool{false, true} {
			at := fmt.Sprintf("http://private%d.test:%d/", n, w.port)
			if redirected {
				w.mu.Lock()
				w.next = at
				w.mu.Unlock()
				at = "http://" + w.good + "/start"
			}
			if _, _, err := w.get(t, at, Options{Redirects: 1}); !errors.Is(err, ErrRefused) {
				t.Errorf("%s, redirected %v: got %v", address, redirected, err)
			} else if strings.Contains(AsError(err).Message, address) {
				t.Errorf("the message shows %s: %v", address, AsError(err).Message)
			}
			w.wantUntouched(t, address)
		}
	}
	w.works(t)
}

// The error for a name reveals no information about the network. The message is the same whether
// the name has no address, cannot be resolved, or leads to an address or port that is forbidden or
// closed.
func TestErrorsRevealNothingAboutTheNetwork(t *testing.T) {
	t.Parallel()
	z := goodZone()
	names := []string{"missing.test", "broken.test", "closed.test"}
	z.answers["closed.test"] = [][]string{{"127.0.0.3"}}
	for n, address := range forbiddenAddresses {
		name := fmt.Sprintf("private%d.test", n)
		z.answers[name] = [][]string{{address}}
		names = append(names, name)
	}
	client, err := New(Config{Allow: []string{"127.0.0.3/32", "listed.test:8081"}, OwnPorts: []int{8080}, Resolver: z.serve(t)})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(address string) *Error {
		t.Helper()
		_, err := fetch(t, client.HTTP(Options{Fresh: true, Origin: "http://" + address}), "http://"+address+"/")
		if err == nil {
			t.Fatalf("%s answered", address)
		}
		return AsError(err)
	}
	for _, name := range names {
		for _, port := range []string{"1", "8080", "8081"} { // a closed port, the service's own port, and the port of another allowed name
			if failed := ask(name + ":" + port); failed.Message != "The host could not be reached." || !failed.NotSent {
				t.Errorf("%s, port %s: %+v", name, port, failed)
			}
		}
		// A port that is allowed nowhere is refused without a DNS query.
		if _, err := fetch(t, client.HTTP(Options{Fresh: true}), "http://"+name+":6379/"); !strings.HasPrefix(AsError(err).Message, "The URL has a port that is not allowed.") {
			t.Errorf("%s, another port: %v", name, err)
		}
		if _, err := fetch(t, client.HTTP(Options{Fresh: true}), "http://"+name+":8081/"); AsError(err).Message != "The host could not be reached." {
			t.Errorf("%s, another's port: %v", name, err)
		}
	}
}

func TestRebinding(t *testing.T) {
	t.Parallel()
	for _, address := range forbiddenAddresses {
		z := goodZone()
		z.answers["rebind.test"] = [][]string{{goodAddress}, {address}}
		w := newTestEnv(t, z)
		at := fmt.Sprintf("http://rebind.test:%d/", w.port)
		if status, _, err := w.get(t, at, Options{}); err != nil || status != http.StatusOK {
			t.Fatalf("%s: the first answer is allowed: %v", address, err)
		}
		status, _, err := w.get(t, at, Options{})
		// The name has only an IPv6 address. The response to the query for A records is empty.
		if err == nil {
			t.Errorf("%s: got %v", address, status)
		}
		w.wantUntouched(t, address)
	}
}

func TestRebindingBehindARedirectToTheSameName(t *testing.T) {
	t.Parallel()
	z := goodZone()
	z.answers["rebind.test"] = [][]string{{goodAddress}, {"127.0.0.1"}}
	w := newTestEnv(t, z)
	w.next = fmt.Sprintf("http://rebind.test:%d/secret", w.port)
	if _, _, err := w.get(t, fmt.Sprintf("http://rebind.test:%d/start", w.port), Options{Redirects: 1}); !errors.Is(err, ErrRefused) {
		t.Errorf("got %v", err)
	}
	w.wantUntouched(t, "redirect")
}

func TestOfMixedAnswersOnlyTheAllowedIsDialled(t *testing.T) {
	t.Parallel()
	z := goodZone()
	z.answers["first.test"] = [][]string{{"127.0.0.1", goodAddress, "169.254.169.254", "::1"}}
	z.answers["last.test"] = [][]string{{goodAddress, "::1", "fd00:ec2::254", "127.0.0.1"}}
	w := newTestEnv(t, z)
	for _, name := range []string{"first.test", "last.test"} {
		status, _, err := w.get(t, "http://"+net.JoinHostPort(name, strconv.Itoa(w.port))+"/", Options{})
		if err != nil || status != http.StatusOK {
			t.Errorf("%s: got %v", name, err)
		}
		w.wantUntouched(t, name)
	}
}
