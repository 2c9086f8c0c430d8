package httpapi

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/auth"
	"parley/ingress/internal/httpapi/httpx"
	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/store"
)

// serveUpload serves as the ingress does a handler that reads a body of any size, and gives a client's connection, and when the server was done.
func serveUpload(t *testing.T, all *transfers, may httpx.Permit) (client net.Conn, took chan time.Duration) {
	t.Helper()
	gin.SetMode(gin.ReleaseMode)
	began := time.Now()
	took = make(chan time.Duration, 1)
	e := gin.New()
	e.POST("/", func(c *gin.Context) {
		place, err := all.enter(reader(1, 0), http.NewResponseController(c.Writer))
		if err != nil {
			t.Error(err)
			return
		}
		in := &arriving{body: c.Request.Body, from: place, may: may, allowed: anyBytes}
		n, err := io.Copy(io.Discard, in)
		in.whole()
		in.leave()
		took <- time.Since(began)
		if err != nil {
			httpx.Fail(c, err)
			return
		}
		c.String(http.StatusOK, strconv.FormatInt(n, 10))
	})
	server := &http.Server{Handler: e, ReadTimeout: 30 * time.Second, ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 90 * time.Second}
	listener := &pipes{make(chan net.Conn), make(chan struct{})}
	go func() { _ = server.Serve(listener) }()
	near, far := net.Pipe()
	listener.conns <- far
	t.Cleanup(func() { _, _ = near.Close(), server.Close() })
	return near, took
}

// A client on a slow line gets all of a document across, however long that takes; one that sends less is left when its time is
// used up, and one that sends nothing after a minute. All of them are answered.
func TestUploadsEndWithTheirProgress(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		piece       int // that is sent at a time
		every       time.Duration
		status      int
		least, most time.Duration
	}{
		"at once":              {4 << 20, time.Second, 200, 0, time.Second},
		"16 KiB a second":      {32 << 10, 2 * time.Second, 200, 250 * time.Second, 256 * time.Second},
		"8 KiB a second":       {16 << 10, 2 * time.Second, 400, 110 * time.Second, 130 * time.Second},
		"a lot once a minute":  {256 << 10, 59 * time.Second, 400, 75 * time.Second, 95 * time.Second},
		"bytes":                {1, time.Second, 400, time.Minute, 65 * time.Second},
		"nothing":              {0, time.Hour, 400, time.Minute, time.Minute},
		"nothing but a little": {100 << 10, time.Hour, 400, time.Minute, 70 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			client, took := serveUpload(t, &transfers{traffic: incoming}, httpx.Permit{})
			const size = 4 << 20
			answered := make(chan *http.Response, 1)
			go func() {
				res, err := http.ReadResponse(bufio.NewReader(client), nil) //nolint:bodyclose // whoever gets it closes it
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
				answered <- res
			}()
			_, err := io.WriteString(client, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: "+strconv.Itoa(size)+"\r\n\r\n")
			must(t, err)
			var sending sync.WaitGroup
			sending.Go(func() {
				for sent := 0; sent < size && tc.piece > 0; sent += tc.piece {
					if _, err := client.Write(numbers(tc.piece)); err != nil {
						return
					}
					<-time.After(tc.every)
				}
			})
			res := <-answered
			if d := <-took; d < tc.least || d > tc.most || res.StatusCode != tc.status {
				t.Errorf("%s took %s and gave %d", name, d, res.StatusCode)
			}
			must(t, errors.Join(res.Body.Close(), client.Close()))
			sending.Wait()
			<-time.After(time.Second) // by then the server has closed its end
		})
	}
}

// An upload ends with the credential that it was begun with.
func TestUploadsEndWithTheirPermit(t *testing.T) {
	t.Parallel()
	began, looks := time.Now(), 0
	in := &arriving{
		body: iotest.OneByteReader(bytes.NewReader(numbers(200 << 10))), allowed: anyBytes,
		from: placeOf(t, &transfers{traffic: incoming}, httptest.NewRecorder(), reader(1, 1)),
		may: httpx.Permit{
			Request: httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil), Org: "org_1", Next: began, Seen: began.Add(-time.Hour),
			Resolve: func(*http.Request, auth.Need) (auth.Identity, error) {
				looks++
				if looks > 1 {
					return auth.Identity{}, apierr.New(apierr.Unauthenticated, "revoked")
				}
				return auth.Identity{Caller: domain.Caller{OrganizationID: "org_1", Role: domain.RoleAdmin}, Until: began}, nil
			},
		},
	}
	in.may.Next = began.Add(-time.Second)
	first := make([]byte, 64<<10)
	if _, err := io.ReadFull(in, first); err != nil || looks != 1 {
		t.Fatalf("%v, %d looks", err, looks)
	}
	in.may.Next = began
	n, err := io.Copy(io.Discard, in)
	if apierr.CodeOf(err) != apierr.Unauthenticated || n != 0 {
		t.Errorf("%d bytes more: %v", n, err)
	}
	if _, err := in.Read(first); apierr.CodeOf(err) != apierr.Unauthenticated {
		t.Errorf("then %v", err)
	}
}

func TestUploadsAreCounted(t *testing.T) {
	t.Parallel()
	a, h := knowledgeWorld(t)
	who := transferrerFor(callerOf(t, a, h))
	form := []filePart{{name: "file", content: "x"}}
	a.api.uploads.traffic = impatient(incoming)
	var places []*place
	for range uploadsPerCredential {
		places = append(places, placeOf(t, &a.api.uploads, httptest.NewRecorder(), who))
	}
	got := a.form("POST", "/api/knowledge", form, h.key).want(t, "by the same key", 429, "rate_limited")
	if got.header.Get("Retry-After") == "" || !strings.Contains(got.text(t, "detail"), "credential") {
		t.Errorf("%v %s", got.header, got.body)
	}
	a.ok("POST", "/api/knowledge", `{"name":"a","content":"small ones need none"}`, h.key)
	for n := uploadsPerCredential; n < uploadsPerOrganization; n++ {
		places = append(places, placeOf(t, &a.api.uploads, httptest.NewRecorder(), transferrer{organization: h.org, credential: "other"}))
	}
	got = a.form("POST", "/api/knowledge", form, h.owner.auth).want(t, "by another", 429, "rate_limited")
	if !strings.Contains(got.text(t, "detail"), "organization") {
		t.Errorf("%s", got.body)
	}
	for org := 1; len(a.api.uploads.open) < uploadsAtOnce; org++ {
		places = append(places, placeOf(t, &a.api.uploads, httptest.NewRecorder(), reader(org, 0)))
	}
	away := a.newHouse("away")
	a.form("POST", "/api/knowledge", form, away.key).want(t, "beside uploads that keep the pace", 503, "overloaded")
	places[1].wait()
	a.form("POST", "/api/knowledge", form, away.key).want(t, "beside one that is slow", 202, "")
	if !places[1].cut || places[1].extend(0) == nil || places[0].cut {
		t.Error("another upload than the slow one made room")
	}
	for _, p := range places {
		a.api.uploads.leave(p)
	}
	a.form("POST", "/api/knowledge", form, h.key).want(t, "once there is room", 202, "")
}

// An upload that gave way to another's is told so.
func TestUploadsThatGiveWay(t *testing.T) {
	t.Parallel()
	p := placeOf(t, &transfers{traffic: incoming}, httptest.NewRecorder(), reader(1, 1))
	in := &arriving{body: iotest.ErrReader(errors.New("i/o timeout")), from: p, allowed: anyBytes}
	p.cut = true
	if _, err := io.ReadAll(in); apierr.CodeOf(err) != apierr.Overloaded {
		t.Errorf("%v", err)
	}
	in = &arriving{body: iotest.ErrReader(errors.New("i/o timeout")), from: placeOf(t, &transfers{traffic: incoming}, httptest.NewRecorder(), reader(1, 1)), allowed: anyBytes}
	if _, err := io.ReadAll(in); apierr.CodeOf(err) != apierr.InvalidRequest {
		t.Errorf("%v", err)
	}
}

// wire is a connection to a served arena.
func (a *arena) wire(t *testing.T) *net.TCPConn {
	t.Helper()
	server := httptest.NewServer(a.handler)
	t.Cleanup(server.Close)
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	must(t, conn.SetDeadline(time.Now().Add(waitMost)))
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		t.Fatalf("a %T", conn)
	}
	return tcp
}

func (h *house) uploadHead(length string) string {
	return "POST /api/knowledge HTTP/1.1\r\nHost: parley.test\r\n" + h.key + "\r\nContent-Type: multipart/form-data; boundary=b\r\n" + length + "\r\n\r\n"
}

const fileHead = "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\n\r\n"

// A client that goes away in the middle, or says a wrong length, leaves nothing.
func TestUploadsThatBreakOff(t *testing.T) {
	t.Parallel()
	a, h := knowledgeWorld(t)
	large := fileHead + string(numbers(3<<20))
	second := fileHead + "first\r\n" + large
	for name, tc := range map[string]struct {
		length, body string
		half         bool // only the client's half of the connection ends
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
		_, _ = io.WriteString(conn, tc.body) // which the server need not read
		if !tc.half {
			must(t, conn.SetLinger(0)) // as from a machine that is switched off
			must(t, conn.Close())
			continue
		}
		_ = conn.CloseWrite() // the server may have gone already
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
		a.api.uploads.mu.Lock()
		open := len(a.api.uploads.open)
		a.api.uploads.mu.Unlock()
		left := a.contents(h.org)
		if open == 0 && left == 0 {
			break
		}
		if time.Since(began) > waitMost {
			t.Fatalf("%d uploads are open, %d contents stay", open, left)
		}
	}
	if n := a.documents(h.org); n != 0 {
		t.Errorf("%d documents", n)
	}
}

// Chunked bodies and such that wait for leave are taken.
func TestUploadsInChunks(t *testing.T) {
	t.Parallel()
	a, h := knowledgeWorld(t)
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

// While a client takes its time, its upload has no connection to the database.
func TestUploadsHoldNoConnection(t *testing.T) {
	t.Parallel()
	a, h := knowledgeWorld(t)
	narrow, err := store.Open(a.dsn, 1)
	must(t, err)
	t.Cleanup(func() { _ = narrow.Close() })
	a.api.Store = narrow
	content := string(numbers(3<<20 + 5))
	body, contentType := formOf(t, filePart{name: "file", file: "a", content: content})
	asked := 0
	slow := iotest.DataErrReader(&pausing{from: bytes.NewReader(body), every: 1 << 20, pause: func() {
		asked++
		if got := a.from("GET", "/api/knowledge", "", h.key); got.status != 200 {
			t.Errorf("beside an upload: %d %s", got.status, got.body)
		}
	}})
	req := httptest.NewRequestWithContext(t.Context(), "POST", "/api/knowledge", slow)
	req.ContentLength = int64(len(body))
	req.Header.Set("Content-Type", contentType)
	got := a.send(with(req, h.key)).want(t, "an upload", 202, "")
	if asked < 3 || got.json(t, "bytes") != float64(len(content)) {
		t.Errorf("%d requests beside it; %s", asked, got.body)
	}
}

// pausing is a body that does something else now and then.
type pausing struct {
	from        io.Reader
	every, read int
	pause       func()
}

func (p *pausing) Read(b []byte) (int, error) {
	n, err := p.from.Read(b)
	if before := p.read; (before+n)/p.every > before/p.every {
		p.pause()
	}
	p.read += n
	return n, err
}
