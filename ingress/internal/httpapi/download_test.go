package httpapi

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/auth"
	"parley/ingress/internal/httpapi/httpx"
	"parley/shared/apierr"
	"parley/shared/domain"
)

const waitMost = 30 * time.Second // that something stands still which should go on

func TestDisposition(t *testing.T) {
	t.Parallel()
	wide := strings.Repeat("\U0001F600", 255)
	for name, want := range map[string]string{
		"plot.png":              `"plot.png"`,
		"out/table 1.csv":       `"table 1.csv"`,
		"../../etc/passwd":      `"passwd"`,
		`C:\temp\a.txt`:         `"a.txt"`,
		`a"b.txt`:               `"a_b.txt"; filename*=UTF-8''a%22b.txt`,
		"a\r\nSet-Cookie: b=c":  `"a__Set-Cookie_ b=c"; filename*=UTF-8''a__Set-Cookie%3A%20b%3Dc`,
		"a;filename=evil.exe":   `"a_filename=evil.exe"; filename*=UTF-8''a%3Bfilename%3Devil.exe`,
		"100%41.txt":            `"100_41.txt"; filename*=UTF-8''100%2541.txt`,
		"größe.csv":             `"gr__e.csv"; filename*=UTF-8''gr%C3%B6%C3%9Fe.csv`,
		"photo\u202egnp.exe":    `"photo_gnp.exe"`,
		"\u2066a\u2069\ufeff.b": `"_a__.b"`,
		"a\u2028b\u0085c\x00d":  `"a_b_c_d"`,
		"a\xff\xfe.bin":         `"a__.bin"`,
		"में\u200d.txt":         `"____.txt"; filename*=UTF-8''%E0%A4%AE%E0%A5%87%E0%A4%82%E2%80%8D.txt`,
		"":                      `"file"`,
		"out/":                  `"file"`,
		"..":                    `"file"`,
		". .":                   `"file"`,
		"   ":                   `"file"`,
		"  a  ":                 `"a"`,
		".bashrc":               `".bashrc"`,
	} {
		if got := disposition(false, name); got != "attachment; filename="+want {
			t.Errorf("%q: %s\nwant %s", name, got, want)
		}
		if got := disposition(true, name); got != "inline; filename="+want {
			t.Errorf("%q: %s", name, got)
		}
	}
	for name, want := range map[string]int{
		strings.Repeat("a", 255): 255, strings.Repeat("a", 300) + ".csv": 255, wide: 252, wide + ".tar.gz": 255,
		strings.Repeat("a", 300) + "." + strings.Repeat("b", 100): 255,
	} {
		got := savedName(name)
		if len(got) != want || !utf8.ValidString(got) || strings.HasSuffix(name, ".csv") && !strings.HasSuffix(got, "a.csv") ||
			strings.HasSuffix(name, ".gz") && !strings.HasSuffix(got, ".gz") {
			t.Errorf("%q becomes %q of %d bytes", name, got, len(got))
		}
		if header := disposition(false, name); len(header) > 1200 {
			t.Errorf("a header of %d bytes", len(header))
		}
	}
}

// FuzzDisposition: whatever a file is called, its header is one line of visible ASCII and names no folder.
func FuzzDisposition(f *testing.F) {
	f.Add("a\"; b=\\\r\n/../\u202e\xff")
	f.Fuzz(func(t *testing.T, name string) {
		got := disposition(false, name)
		ascii, _, found := strings.Cut(strings.TrimPrefix(got, `attachment; filename="`), `"`)
		if !found || strings.ContainsFunc(got, func(r rune) bool { return r < ' ' || r > '~' }) || strings.ContainsAny(ascii, `/\%`) || strings.Trim(ascii, ".") == "" {
			t.Errorf("%q gives %s", name, got)
		}
	})
}

// pipes is a listener of connections within the test's own time.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.done); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// serveFile serves a content as the ingress does, and gives a client's connection that has asked for it, and when the server was done.
func serveFile(t *testing.T, all *transfers, content []byte, may httpx.Permit) (client net.Conn, took chan time.Duration) {
	t.Helper()
	gin.SetMode(gin.ReleaseMode)
	began := time.Now()
	took = make(chan time.Duration, 1)
	e := gin.New()
	e.GET("/", func(c *gin.Context) {
		place, err := all.enter(reader(1, 0), http.NewResponseController(c.Writer))
		if err != nil {
			t.Error(err)
			return
		}
		sendFile(c, domain.File{Name: "x", MIMEType: "text/plain", SHA256: "aa", Bytes: int64(len(content))}, fileCaching, bytes.NewReader(content), place, may)
		all.leave(place)
		took <- time.Since(began)
	})
	server := &http.Server{Handler: e, ReadTimeout: 30 * time.Second, ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 90 * time.Second}
	listener := &pipes{make(chan net.Conn), make(chan struct{})}
	go func() { _ = server.Serve(listener) }()
	near, far := net.Pipe()
	listener.conns <- far
	t.Cleanup(func() { _, _ = near.Close(), server.Close() })
	_, err := io.WriteString(near, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	must(t, err)
	return near, took
}

// reader is who reads files with a key of an organization.
func reader(org, key int) transferrer {
	name := strconv.Itoa(org)
	return transferrer{organization: "org_" + name, credential: "key_" + name + "_" + strconv.Itoa(key), client: "client_" + name}
}

// transferrerFor is a caller without an address as the one who a transfer counts for.
func transferrerFor(who domain.Caller) transferrer {
	return transferrer{organization: who.OrganizationID, credential: who.Credential}
}

// stall has a transfer wait for its client for longer than the pace allows.
func (p *place) stall() {
	p.all.mu.Lock()
	defer p.all.mu.Unlock()
	p.waiting = time.Now().Add(-2 * paceTime)
}

// A client on a slow line gets all of a file, however long that takes; one that takes less is left when its time is used
// up, and one that takes nothing after a minute.
func TestDownloadsEndWithTheirProgress(t *testing.T) {
	t.Parallel()
	content := numbers(4 << 20)
	for name, tc := range map[string]struct {
		piece int           // that is read at a time
		every time.Duration // and then nothing for so long
		whole bool
		least time.Duration
		most  time.Duration
	}{
		"16 KiB a second":       {32 << 10, 2 * time.Second, true, 250 * time.Second, 256 * time.Second},
		"8 KiB a second":        {16 << 10, 2 * time.Second, false, 110 * time.Second, 130 * time.Second},
		"a drain once a minute": {256 << 10, 59 * time.Second, false, 75 * time.Second, 95 * time.Second},
		"bytes":                 {1, time.Second, false, time.Minute, 65 * time.Second},
		"nothing":               {0, time.Hour, false, time.Minute, time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			client, took := serveFile(t, &transfers{traffic: outgoing}, content, httpx.Permit{})
			var got bytes.Buffer
			for piece := make([]byte, tc.piece); len(took) == 0; <-time.After(tc.every) {
				n, _ := io.ReadFull(client, piece)
				got.Write(piece[:n])
			}
			if d := <-took; d < tc.least || d > tc.most {
				t.Errorf("%s took %s", name, d)
			}
			if !tc.whole {
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

// A download ends with the credential that it was begun with.
func TestDownloadsEndWithTheirPermit(t *testing.T) {
	t.Parallel()
	content := numbers(1 << 20)
	synctest.Test(t, func(t *testing.T) {
		began, looks := time.Now(), 0
		client, took := serveFile(t, &transfers{traffic: outgoing}, content, httpx.Permit{
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

// broken is a content that cannot be read.
type broken struct {
	*bytes.Reader
	seeks, reads error
}

func (b *broken) Seek(offset int64, whence int) (int64, error) {
	if b.seeks != nil {
		return 0, b.seeks
	}
	return b.Reader.Seek(offset, whence)
}

func (b *broken) Read([]byte) (int, error) { return 0, b.reads }

func TestContentsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	away := apierr.New(apierr.Unavailable, "the database cannot be reached")
	for name, tc := range map[string]struct {
		content broken
		status  int
	}{
		"read":         {broken{reads: away}, 503},
		"sought":       {broken{seeks: away}, 503},
		"for no cause": {broken{reads: errors.New("secret cause")}, 500},
	} {
		tc.content.Reader = bytes.NewReader(numbers(100))
		rec := httptest.NewRecorder()
		c, _ := gin.CreateTestContext(rec)
		c.Request = httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		c.Header("Cache-Control", "no-store")
		c.Header(headerRequestID, "r")
		sendFile(c, domain.File{Name: "x", MIMEType: "image/png", SHA256: "aa", Bytes: 100}, fileCaching, &tc.content, placeOf(t, &transfers{traffic: outgoing}, rec, reader(1, 1)), httpx.Permit{})
		got := answer{rec.Code, rec.Header(), rec.Body.Bytes()}
		saysNothingOfFiles(t, name, got)
		if got.status != tc.status || got.header.Get("Content-Type") != "application/problem+json" || got.header.Get("Content-Length") != strconv.Itoa(len(got.body)) ||
			got.requestID() != "r" || strings.Contains(string(got.body), "secret") {
			t.Errorf("%s: %d %v %s", name, got.status, got.header, got.body)
		}
	}
}

// placeOf is a new place of somebody who gets one.
func placeOf(t *testing.T, all *transfers, w http.ResponseWriter, who transferrer) *place {
	t.Helper()
	p, err := all.enter(who, http.NewResponseController(w))
	must(t, err)
	return p
}

func TestDownloadsAreCounted(t *testing.T) {
	t.Parallel()
	all := transfers{traffic: outgoing}
	refused := func(who transferrer, code apierr.Code, says string) {
		t.Helper()
		var coded *apierr.Error
		if _, err := all.enter(who, http.NewResponseController(httptest.NewRecorder())); !errors.As(err, &coded) || coded.Code != code ||
			coded.RetryAfter <= 0 || !strings.Contains(coded.Detail, says) {
			t.Errorf("one download more of %s gave %v", who.credential, err)
		}
	}
	var first *place
	for org := 1; len(all.open) < filesAtOnce; org++ {
		for n := range filesPerOrganization {
			if n == filesPerCredential {
				refused(reader(org, 0), apierr.RateLimited, "credential")
			}
			p := placeOf(t, &all, httptest.NewRecorder(), reader(org, n/filesPerCredential))
			if first == nil {
				first = p
			}
		}
		refused(reader(org, 9), apierr.RateLimited, "organization")
	}
	all.leave(first)
	placeOf(t, &all, httptest.NewRecorder(), reader(1, 0))
	refused(reader(1, 9), apierr.RateLimited, "organization")

	// While all keep the pace, a newcomer waits. Of slow ones it gets an equal share, and no more. When all have one, an
	// organization that has none gets one.
	newcomer := filesAtOnce/filesPerOrganization + 1
	refused(reader(newcomer, 0), apierr.Overloaded, "too many files")
	for _, p := range all.open {
		p.stall()
	}
	for n := range filesAtOnce / newcomer {
		placeOf(t, &all, httptest.NewRecorder(), reader(newcomer, n/filesPerCredential))
	}
	refused(reader(newcomer, 9), apierr.Overloaded, "too many files")
	refused(reader(1, 9), apierr.Overloaded, "too many files")
	all.open = nil
	for org := range filesAtOnce {
		first = placeOf(t, &all, httptest.NewRecorder(), reader(org, 1))
		first.stall()
	}
	placeOf(t, &all, httptest.NewRecorder(), reader(filesAtOnce, 1))
	refused(reader(filesAtOnce, 2), apierr.Overloaded, "too many files")
	if len(all.open) != filesAtOnce || first.cut || first.extend(0) != nil || all.open[0].organization != "org_1" {
		t.Errorf("%d downloads, the oldest of %s", len(all.open), all.open[0].organization)
	}
}

// However slowly a few organizations read, whoever has fewer downloads than they have gets a place at once: the oldest of theirs ends.
func TestNobodyIsShutOutBySlowReaders(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := transfers{traffic: outgoing}
		client, took := serveFile(t, &all, numbers(1<<20), httpx.Permit{})
		_, err := io.ReadFull(client, make([]byte, 100<<10))
		must(t, err)
		for n := 1; n < filesAtOnce; n++ {
			placeOf(t, &all, httptest.NewRecorder(), reader(1+n/filesPerOrganization, n/filesPerCredential))
		}
		<-time.After(10 * time.Second)
		newcomer := filesAtOnce/filesPerOrganization + 1
		p := placeOf(t, &all, httptest.NewRecorder(), reader(newcomer, 0))
		if d := <-took; d != 10*time.Second || p.cut {
			t.Errorf("the oldest download was left after %s", d)
		}
		if rest, err := io.Copy(io.Discard, client); rest > 64<<10 || err != nil {
			t.Errorf("then came %d bytes: %v", rest, err)
		}
	})
}
