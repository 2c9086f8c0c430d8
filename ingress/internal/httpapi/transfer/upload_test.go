package transfer

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
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
)

// serveUpload runs a handler that reads a body of any size, like the ingress. It returns the
// connection of a client, and a channel that receives the duration of the request.
func serveUpload(t *testing.T, all *Limiter, permit httpx.SessionCheck) (client net.Conn, took chan time.Duration) {
	t.Helper()
	gin.SetMode(gin.ReleaseMode)
	began := time.Now()
	took = make(chan time.Duration, 1)
	e := gin.New()
	e.POST("/", func(c *gin.Context) {
		slot, err := all.Enter(reader(1, 0), http.NewResponseController(c.Writer))
		if err != nil {
			t.Error(err)
			return
		}
		in := &Upload{Body: c.Request.Body, From: slot, permit: permit, Allowed: AnyBytes}
		n, err := io.Copy(io.Discard, in)
		in.Complete()
		in.Leave()
		took <- time.Since(began)
		if err != nil {
			httpx.Fail(c, err)
			return
		}
		c.String(http.StatusOK, strconv.FormatInt(n, 10))
	})
	server := &http.Server{Handler: e, ReadTimeout: 30 * time.Second, ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 90 * time.Second}
	listener := &pipeListener{make(chan net.Conn), make(chan struct{})}
	go func() { _ = server.Serve(listener) }()
	near, far := net.Pipe()
	listener.conns <- far
	t.Cleanup(func() { _, _ = near.Close(), server.Close() })
	return near, took
}

// A client on a slow connection can send a whole document, however long it takes. A client slower
// than SlowestRate is disconnected when its time is used up. A client that sends nothing is
// disconnected after a minute. Each of them gets a response.
func TestUploadsEndWithTheirProgress(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		piece        int // number of bytes sent at a time
		every        time.Duration
		status       int
		least, limit time.Duration
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
			client, took := serveUpload(t, &Limiter{Policy: Documents}, httpx.SessionCheck{})
			const size = 4 << 20
			answered := make(chan *http.Response, 1)
			go func() {
				res, err := http.ReadResponse(bufio.NewReader(client), nil) //nolint:bodyclose // the reader of the body closes it
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
			if d := <-took; d < tc.least || d > tc.limit || res.StatusCode != tc.status {
				t.Errorf("%s took %s and gave %d", name, d, res.StatusCode)
			}
			must(t, errors.Join(res.Body.Close(), client.Close()))
			sending.Wait()
			<-time.After(time.Second) // time for the server to close its side
		})
	}
}

// An upload ends when its credential becomes invalid.
func TestUploadsEndWithTheirPermit(t *testing.T) {
	t.Parallel()
	began, looks := time.Now(), 0
	in := &Upload{
		Body: iotest.OneByteReader(bytes.NewReader(numbers(200 << 10))), Allowed: AnyBytes,
		From: takeSlot(t, &Limiter{Policy: Documents}, httptest.NewRecorder(), reader(1, 1)),
		permit: httpx.SessionCheck{
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
	in.permit.Next = began.Add(-time.Second)
	first := make([]byte, 64<<10)
	if _, err := io.ReadFull(in, first); err != nil || looks != 1 {
		t.Fatalf("%v, %d looks", err, looks)
	}
	in.permit.Next = began
	n, err := io.Copy(io.Discard, in)
	if apierr.CodeFor(err) != apierr.Unauthenticated || n != 0 {
		t.Errorf("%d bytes more: %v", n, err)
	}
	if _, err := in.Read(first); apierr.CodeFor(err) != apierr.Unauthenticated {
		t.Errorf("then %v", err)
	}
}

// The error of an upload that was aborted to make room for another upload states this reason.
func TestUploadsThatGiveWay(t *testing.T) {
	t.Parallel()
	p := takeSlot(t, &Limiter{Policy: Documents}, httptest.NewRecorder(), reader(1, 1))
	in := &Upload{Body: iotest.ErrReader(errors.New("i/o timeout")), From: p, Allowed: AnyBytes}
	p.Cut = true
	if _, err := io.ReadAll(in); apierr.CodeFor(err) != apierr.Overloaded {
		t.Errorf("%v", err)
	}
	in = &Upload{Body: iotest.ErrReader(errors.New("i/o timeout")), From: takeSlot(t, &Limiter{Policy: Documents}, httptest.NewRecorder(), reader(1, 1)), Allowed: AnyBytes}
	if _, err := io.ReadAll(in); apierr.CodeFor(err) != apierr.InvalidRequest {
		t.Errorf("%v", err)
	}
}
