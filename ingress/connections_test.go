package ingress_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// health requests /healthz over conn. It returns the status and the body of the response.
func health(t *testing.T, conn net.Conn) (status int, body string) {
	t.Helper()
	if _, err := io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: parley.test\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }() // discards the rest of the body, if any
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode == http.StatusTooManyRequests && res.Header.Get("Retry-After") == "" {
		t.Errorf("headers %v", res.Header)
	}
	return res.StatusCode, string(raw)
}

// Each client address may have only a limited number of open connections. Further connections of
// that address are refused, while other addresses can still connect.
func TestConnectionsAreBoundedByAddress(t *testing.T) {
	t.Parallel()
	const limit = 6
	cfg := defaults()
	cfg.ConnectionsPerAddress = limit
	r := newTestEnv(t, cfg)
	address := strings.TrimPrefix(r.url, "http://")
	attacker := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	dial := func() net.Conn {
		t.Helper()
		conn, err := attacker.DialContext(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		return conn
	}
	var open []net.Conn
	for range limit {
		conn := dial()
		if status, body := health(t, conn); status != http.StatusOK {
			t.Fatalf("within the limit: %d %s", status, body)
		}
		open = append(open, conn) // these connections stay idle
	}
	if status, body := health(t, dial()); status != http.StatusTooManyRequests || !strings.Contains(body, `"code":"rate_limited"`) {
		t.Errorf("a connection over the limit: %d %s", status, body)
	}
	for range 10 {
		if res := r.call(http.MethodGet, "/api/agents", r.asKey(), ""); res.status != http.StatusOK {
			t.Errorf("another client: %d %s", res.status, res.body)
		}
	}
	if err := open[0].Close(); err != nil {
		t.Fatal(err)
	}
	for began := time.Now(); ; <-time.After(10 * time.Millisecond) {
		if status, _ := health(t, dial()); status == http.StatusOK {
			break
		}
		if time.Since(began) > time.Minute {
			t.Fatal("the slot of a closed connection is not free")
		}
	}
}
