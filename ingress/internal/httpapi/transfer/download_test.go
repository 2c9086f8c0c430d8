package transfer

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/auth"
	"parley/ingress/internal/httpapi/httpx"
	"parley/shared/apierr"
	"parley/shared/domain"
)

// pipeListener is a net.Listener for in-memory connections. Unlike a network listener, it works
// with testing/synctest.
type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipeListener) Close() error { close(p.done); return nil }

func (p *pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

// serveFile serves content like the ingress. It returns the connection of a client that has sent
// the request, and a channel that receives the duration of the response.
func serveFile(t *testing.T, all *Limiter, content []byte, permit httpx.SessionCheck) (client net.Conn, took chan time.Duration) {
	t.Helper()
	gin.SetMode(gin.ReleaseMode)
	began := time.Now()
	took = make(chan time.Duration, 1)
	e := gin.New()
	e.GET("/", func(c *gin.Context) {
		slot, err := all.Enter(reader(1, 0), http.NewResponseController(c.Writer))
		if err != nil {
			t.Error(err)
			return
		}
		SendFile(c, domain.File{Name: "x", MIMEType: "text/plain", SHA256: "aa", Bytes: int64(len(content))}, "private", bytes.NewReader(content), slot, permit)
		all.Leave(slot)
		took <- time.Since(began)
	})
	server := &http.Server{Handler: e, ReadTimeout: 30 * time.Second, ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 90 * time.Second}
	listener := &pipeListener{make(chan net.Conn), make(chan struct{})}
	go func() { _ = server.Serve(listener) }()
	near, far := net.Pipe()
	listener.conns <- far
	t.Cleanup(func() { _, _ = near.Close(), server.Close() })
	_, err := io.WriteString(near, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	must(t, err)
	return near, took
}

// A client on a slow connection gets a whole file, however long it takes. A client slower than
// SlowestRate is disconnected when its time limit has passed. A client that reads nothing is
// disconnected after a minute.
func TestDownloadsEndWithTheirProgress(t *testing.T) {
	t.Parallel()
	content := numbers(4 << 20)
	for name, tc := range map[string]struct {
		piece    int           // number of bytes read at a time
		every    time.Duration // pause between reads
		complete bool
		least    time.Duration
		limit    time.Duration
	}{
		"16 KiB a second":       {32 << 10, 2 * time.Second, true, 250 * time.Second, 256 * time.Second},
		"8 KiB a second":        {16 << 10, 2 * time.Second, false, 110 * time.Second, 130 * time.Second},
		"a drain once a minute": {256 << 10, 59 * time.Second, false, 75 * time.Second, 95 * time.Second},
		"bytes":                 {1, time.Second, false, time.Minute, 65 * time.Second},
		"nothing":               {0, time.Hour, false, time.Minute, time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			client, took := serveFile(t, &Limiter{Policy: Files}, content, httpx.SessionCheck{})
			var got bytes.Buffer
			for piece := make([]byte, tc.piece); len(took) == 0; <-time.After(tc.every) {
				n, _ := io.ReadFull(client, piece)
				got.Write(piece[:n])
			}
			if d := <-took; d < tc.least || d > tc.limit {
				t.Errorf("%s took %s", name, d)
			}
			if !tc.complete {
				if rest, err := io.Copy(io.Discard, client); rest > 64<<10 || err != nil || got.Len() >= len(content) {
					t.Errorf("%s: behind %d bytes came %d: %v", name, got.Len(), rest, err)
				}
				return
			}
			res, err := http.ReadResponse(bufio.NewReader(io.MultiReader(&got, client)), nil)
			must(t, err)
			body, err := io.ReadAll(res.Body)
			if err != nil || !bytes.Equal(body, content) || res.ContentLength != int64(len(content)) {
				t.Errorf("%s: %d bytes: %v", name, len(body), err)
			}
			must(t, res.Body.Close())
		})
	}
}

// A download ends when its credential becomes invalid.
func TestDownloadsEndWithTheirPermit(t *testing.T) {
	t.Parallel()
	content := numbers(1 << 20)
	synctest.Test(t, func(t *testing.T) {
		began, looks := time.Now(), 0
		client, took := serveFile(t, &Limiter{Policy: Files}, content, httpx.SessionCheck{
			Request: httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil), Org: "org_1", Reads: []string{"usr_1"}, Next: began.Add(5 * time.Second), Seen: began,
			Resolve: func(*http.Request, auth.Need) (auth.Identity, error) {
				looks++
				return auth.Identity{}, apierr.New(apierr.Unauthenticated, "revoked")
			},
		})
		_, err := io.ReadFull(client, make([]byte, 200<<10))
		must(t, err)
		<-time.After(6 * time.Second)
		rest, err := io.Copy(io.Discard, client)
		if d := <-took; rest > 64<<10 || err != nil || d != 6*time.Second || looks != 1 {
			t.Errorf("%d bytes more, %v, until %s; %d looks", rest, err, d, looks)
		}
	})
}
