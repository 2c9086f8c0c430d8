package httpapi

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"parley/ingress/internal/httpapi/transfer"
	"parley/shared/store"
	"parley/shared/testkit"
)

// largeForm is a form that is too large to be uploaded without a slot of the transfer limiter.
var largeForm = []filePart{{name: "file", file: "a.txt", content: string(numbers(2 * transfer.SmallBody))}}

func TestUploadsAreCounted(t *testing.T) {
	t.Parallel()
	a, h := knowledgeEnv(t)
	who := callerOwner(callerFor(t, a, h))
	form := largeForm
	a.api.knowledge.Uploads.Policy = impatient(transfer.Documents)
	var slots []*transfer.Slot
	for range transfer.UploadsPerCredential {
		slots = append(slots, takeSlot(t, &a.api.knowledge.Uploads, httptest.NewRecorder(), who))
	}
	got := a.form("POST", "/api/knowledge", form, h.key).want(t, "by the same key", 429, "rate_limited")
	if got.header.Get("Retry-After") == "" || !strings.Contains(got.text(t, "detail"), "credential") {
		t.Errorf("%v %s", got.header, got.body)
	}
	a.ok("POST", "/api/knowledge", `{"name":"a","content":"small ones need none"}`, h.key)
	for n := transfer.UploadsPerCredential; n < transfer.UploadsPerOrganization; n++ {
		slots = append(slots, takeSlot(t, &a.api.knowledge.Uploads, httptest.NewRecorder(), transfer.Owner{Organization: h.org, Credential: "other"}))
	}
	got = a.form("POST", "/api/knowledge", form, h.owner.auth).want(t, "by another", 429, "rate_limited")
	if !strings.Contains(got.text(t, "detail"), "organization") {
		t.Errorf("%s", got.body)
	}
	for org := 1; len(a.api.knowledge.Uploads.Open) < transfer.UploadsAtOnce; org++ {
		slots = append(slots, takeSlot(t, &a.api.knowledge.Uploads, httptest.NewRecorder(), reader(org, 0)))
	}
	away := a.newTestOrg("away")
	a.form("POST", "/api/knowledge", form, away.key).want(t, "beside uploads that keep the pace", 503, "overloaded")
	slots[1].Wait()
	a.form("POST", "/api/knowledge", form, away.key).want(t, "beside one that is slow", 202, "")
	if !slots[1].Cut || slots[1].Extend(0) == nil || slots[0].Cut {
		t.Error("another upload than the slow one made room")
	}
	for _, p := range slots {
		a.api.knowledge.Uploads.Leave(p)
	}
	a.form("POST", "/api/knowledge", form, h.key).want(t, "once there is room", 202, "")
}

// wire returns a TCP connection to a server of the environment.
func (a *runEnv) wire(t *testing.T) *net.TCPConn {
	t.Helper()
	server := httptest.NewServer(a.serving())
	t.Cleanup(server.Close)
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	must(t, conn.SetDeadline(time.Now().Add(maxWait)))
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		t.Fatalf("a %T", conn)
	}
	return tcp
}

func (h *testOrg) uploadHead(length string) string {
	return "POST /api/knowledge HTTP/1.1\r\nHost: parley.test\r\n" + h.key + "\r\nContent-Type: multipart/form-data; boundary=b\r\n" + length + "\r\n\r\n"
}

const fileHead = "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\n\r\n"

// If a client disconnects during an upload or sends a wrong length, nothing is stored.
func TestUploadsThatBreakOff(t *testing.T) {
	t.Parallel()
	a, h := knowledgeEnv(t)
	large := fileHead + string(numbers(3<<20))
	second := fileHead + "first\r\n" + large
	for name, tc := range map[string]struct {
		length, body string
		half         bool // whether the client closes only its sending direction, and can still read the response
		want         string
	}{
		"in the head of a part":  {"Content-Length: 1000", fileHead[:20], true, "400"},
		"in a file":              {"Content-Length: 9999999", large, true, "400"},
		"in the second file":     {"Content-Length: 9999999", second, true, "400"},
		"in a chunk":             {"Transfer-Encoding: chunked", "400000\r\n" + large, true, "400"},
		"between chunks":         {"Transfer-Encoding: chunked", strconv.FormatInt(int64(len(large)), 16) + "\r\n" + large + "\r\n", true, "400"},
		"no chunk":               {"Transfer-Encoding: chunked", "xyz\r\n" + fileHead, true, "400"},
		"gone":                   {"Content-Length: 9999999", second, false, ""},
		"a length that is short": {"Content-Length: 3000000", large[:3_000_100], true, "400"},
		"two lengths":            {"Content-Length: 5\r\nContent-Length: 6", fileHead, true, "400"},
		"a negative length":      {"Content-Length: -1", fileHead, true, "400"},
	} {
		conn := a.wire(t)
		_, err := io.WriteString(conn, h.uploadHead(tc.length))
		must(t, err)
		_, _ = io.WriteString(conn, tc.body) // the server may stop reading before the end
		if !tc.half {
			must(t, conn.SetLinger(0)) // Close resets the connection
			must(t, conn.Close())
			continue
		}
		_ = conn.CloseWrite() // the server may have closed the connection
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !strings.HasPrefix(res.Status, tc.want) {
			t.Errorf("%s: %s", name, res.Status)
		}
		must(t, res.Body.Close())
	}
	for began := time.Now(); ; <-time.After(10 * time.Millisecond) {
		a.api.knowledge.Uploads.Mu.Lock()
		open := len(a.api.knowledge.Uploads.Open)
		a.api.knowledge.Uploads.Mu.Unlock()
		left := a.contents(h.org)
		if open == 0 && left == 0 {
			break
		}
		if testkit.Late(began, maxWait) {
			t.Fatalf("%d uploads are open, %d contents stay", open, left)
		}
	}
	if n := a.documents(h.org); n != 0 {
		t.Errorf("%d documents", n)
	}
}

// Chunked bodies and bodies with Expect: 100-continue are accepted.
func TestUploadsInChunks(t *testing.T) {
	t.Parallel()
	a, h := knowledgeEnv(t)
	for _, extra := range []string{"", "\r\nExpect: 100-continue"} {
		conn := a.wire(t)
		body := fileHead + "some text " + extra + "\r\n--b--\r\n"
		from := bufio.NewReader(conn)
		_, err := io.WriteString(conn, h.uploadHead("Transfer-Encoding: chunked"+extra))
		must(t, err)
		if extra != "" {
			line, err := from.ReadString('\n')
			_, empty := from.ReadString('\n')
			if err != nil || empty != nil || !strings.Contains(line, "100") {
				t.Fatalf("%q %v", line, err)
			}
		}
		for piece := range slices.Chunk([]byte(body), 7) {
			_, err := io.WriteString(conn, strconv.FormatInt(int64(len(piece)), 16)+"\r\n"+string(piece)+"\r\n")
			must(t, err)
		}
		_, err = io.WriteString(conn, "0\r\n\r\n")
		must(t, err)
		res, err := http.ReadResponse(from, nil)
		must(t, err)
		if res.StatusCode != http.StatusAccepted {
			t.Errorf("%s", res.Status)
		}
		must(t, res.Body.Close())
	}
}

// An upload does not use a database connection while it waits for its client.
func TestUploadsOccupyNoDatabaseConnection(t *testing.T) {
	t.Parallel()
	a, h := knowledgeEnv(t)
	narrow, err := store.Open(a.dsn, 1)
	must(t, err)
	t.Cleanup(func() { _ = narrow.Close() })
	a.rebuild(func(d *Deps) { d.Store = narrow })
	content := string(numbers(3<<20 + 5))
	body, contentType := formFor(t, filePart{name: "file", file: "a", content: content})
	asked := 0
	slow := iotest.DataErrReader(&pausingBody{from: bytes.NewReader(body), every: 1 << 20, pause: func() {
		asked++
		if got := a.from("GET", "/api/knowledge", "", h.key); got.status != 200 {
			t.Errorf("during an upload: %d %s", got.status, got.body)
		}
	}})
	req := httptest.NewRequestWithContext(t.Context(), "POST", "/api/knowledge", slow)
	req.ContentLength = int64(len(body))
	req.Header.Set("Content-Type", contentType)
	got := a.send(with(req, h.key)).want(t, "an upload", 202, "")
	if asked < 3 || got.json(t, "bytes") != float64(len(content)) {
		t.Errorf("%d requests during it; %s", asked, got.body)
	}
}

// pausingBody is a body that calls the function pause repeatedly while the body is read. The field
// every is the number of bytes between two calls.
type pausingBody struct {
	from        io.Reader
	every, read int
	pause       func()
}

func (p *pausingBody) Read(b []byte) (int, error) {
	n, err := p.from.Read(b)
	if before := p.read; (before+n)/p.every > before/p.every {
		p.pause()
	}
	p.read += n
	return n, err
}
