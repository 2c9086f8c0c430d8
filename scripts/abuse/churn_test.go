package abuse

import (
	"bufio"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/shared/lifecycle"
)

const (
	// idleConnections is the number of connections that an attacker opens. It exceeds the limit
	// CONNECTIONS_PER_ADDRESS.
	idleConnections = 1200
	idleTogether    = 10 // number of connections that are opened at the same time
	hookBodies      = 12 // number of simultaneous bodies of 25 MiB
	uploaders       = 8  // number of organizations that upload slowly
	uploadsEach     = 8  // maximum number of an organization's uploads at one ingress; together the uploaders fill all slots
)

// churn is an attack by strangers without privileges. They create accounts, organizations and
// invitations, abort uploads, upload slowly, keep connections idle, and send large bodies to hooks
// whose URLs they know.
type churn struct {
	stranger  *person
	uploaders []uploader
	senders   []*client // clients that send large bodies, each from a separate address
	idler     *client
	hooks     []*hook
	sent      tally
	idling    chan struct{} // receives a value when all idle connections are open
}

// uploader is an organization with two keys. Half of its uploads use the second key.
type uploader struct {
	*person

	other string
}

func newChurn(t *testing.T, s *service, victims ...*hook) *churn {
	t.Helper()
	c := &churn{
		stranger: s.signUp(t, s.stranger()).withKey(t).withAgent(t), idler: s.from(t, s.stranger()), hooks: victims,
		idling: make(chan struct{}, 1),
	}

	for range hookBodies {
		c.senders = append(c.senders, s.from(t, s.stranger()))
	}

	for range uploaders {
		p := s.signUp(t, s.stranger()).withKey(t)
		c.uploaders = append(c.uploaders, uploader{p, p.newKey(t, "organization")})
	}

	for n := range 4 {
		c.hooks = append(c.hooks, c.stranger.newHook(t, fmt.Sprint("own ", n), "github"))
	}
	return c
}

func (c *churn) run(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()

	every := func(d time.Duration, callers int, f func(ctx context.Context, n int)) {
		all.Go(func() { paced(ctx, pace(d), callers, f) })
	}

	every(500*time.Millisecond, 2, c.signUp)
	every(150*time.Millisecond, 2, c.organization)
	every(150*time.Millisecond, 2, c.invitation)
	every(100*time.Millisecond, 4, c.upload)
	every(50*time.Millisecond, hookBodies, c.body)
	for n := range uploaders * uploadsEach {
		all.Go(func() { c.trickle(ctx, n) })
	}

	all.Go(func() { c.idle(ctx) })
}

func (c *churn) signUp(ctx context.Context, _ int) {
	c.sent.add(ctx, "sign-up", c.stranger.post(ctx, "/api/auth/signup", nil, map[string]any{
		"email": rand.Text() + "@example.test", "password": rand.Text(),
	}))
}

func (c *churn) organization(ctx context.Context, n int) {
	c.sent.add(ctx, "organization", c.stranger.post(ctx, "/api/organizations", c.stranger.bearer(), map[string]any{"name": fmt.Sprint("One more ", n)}))
}

func (c *churn) invitation(ctx context.Context, _ int) {
	c.sent.add(ctx, "invitation", c.stranger.post(ctx, "/api/organizations/members", c.stranger.bearer(),
		map[string]any{"email": rand.Text() + "@example.test", "role": "member"}))
}

// upload announces a document of 20 MB, sends a small part of it, and aborts the request.
func (c *churn) upload(ctx context.Context, _ int) {
	ctx, cut := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cut()
	by := c.stranger.byKey()
	by["Content-Type"] = "multipart/form-data; boundary=b"
	a := c.stranger.post(ctx, "/api/knowledge", by, &inPieces{
		ctx: ctx, rest: beginning, piece: 4 << 10, pause: time.Second, announced: true,
	})
	if a.Err != nil {
		c.sent.count("upload cut off")
		return
	}
	c.sent.add(ctx, "upload", a)
}

// trickle uploads documents of 20 MB at 20 KiB/s, somewhat faster than the slowest allowed rate of
// 16 KiB/s. If an upload is rejected or cut off, it starts another.
func (c *churn) trickle(ctx context.Context, n int) {
	from := c.uploaders[n%len(c.uploaders)]
	by := header{"X-Api-Key": from.key, "Content-Type": "multipart/form-data; boundary=b"}
	if n/len(c.uploaders)%2 == 1 {
		by["X-Api-Key"] = from.other
	}

	for ctx.Err() == nil {
		a := from.post(ctx, "/api/knowledge", by, &inPieces{ctx: ctx, rest: beginning, piece: 4 << 10, pause: 200 * time.Millisecond, announced: true})
		if a.Err != nil {
			c.sent.count("slow upload cut off")
			continue
		}
		c.sent.add(ctx, "slow upload", a)
		_ = lifecycle.Sleep(ctx, piecePause)
	}
}

// body sends 25 MiB with a wrong signature at 640 KiB/s, which is fast enough to keep an upload
// slot. Half of the bodies have a Content-Length header.
func (c *churn) body(ctx context.Context, n int) {
	to := c.hooks[n%len(c.hooks)]
	a := to.send(ctx, c.senders[n%len(c.senders)], strconv.Itoa(n), wrongSignature, &inPieces{
		ctx: ctx, rest: zeros[:], piece: 64 << 10, pause: piecePause, announced: n%2 == 0,
	})
	if a.Err != nil {
		c.sent.count("large body cut off")
		return
	}
	c.sent.add(ctx, "large body", a)
}

var (
	zeros [25 << 20]byte
	// beginning is the first part of the body of a multipart form that contains a file of 20 MB.
	beginning = append([]byte("--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\n\r\n"), zeros[:20<<20]...)
)

// idle opens more connections than one address may have, and keeps them open without requests.
func (c *churn) idle(ctx context.Context) {
	var mu sync.Mutex
	var open []net.Conn
	defer func() {
		for _, conn := range open {
			_ = conn.Close() // the error does not matter, because the connection was idle
		}
	}()

	var all sync.WaitGroup
	for range idleTogether {
		all.Go(func() {
			for range idleConnections / idleTogether {
				conn, status := c.connect(ctx)
				if conn == nil {
					return
				}
				c.sent.count("idle connection " + status)
				mu.Lock()
				open = append(open, conn)
				mu.Unlock()
			}
		})
	}

	all.Wait()
	c.idling <- struct{}{}
	<-ctx.Done()
}

// begun waits until the idle connections are open, because they are a part of the attack.
func (c *churn) begun(ctx context.Context) {
	select {
	case <-c.idling:
	case <-ctx.Done():
	}
}

// connect opens a connection and sends one request. The result status is the status code of the
// response, "closed" if the service sent no response, or empty if the connection could not be
// opened.
func (c *churn) connect(ctx context.Context) (conn net.Conn, status string) {
	conn, err := c.idler.dial.DialContext(ctx, "tcp", strings.TrimPrefix(c.idler.url, "http://"))
	if err != nil {
		return nil, ""
	}
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second)) // an error means that the connection is already closed
	_, _ = io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: parley.test\r\n\r\n")
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return conn, "closed"
	}
	_ = res.Body.Close() // the body is short and not used
	return conn, strconv.Itoa(res.StatusCode)
}

func strangersChurn(t *testing.T, s *service) { //nolint:thelper // a subtest, not a helper
	home := s.signUp(t, victimAddress).withKey(t).withAgent(t)
	small, large := home.newHook(t, "small", "hmac"), home.newHook(t, "large", "github")
	c := newChurn(t, s, large)
	v := &victim{probes: []probe{
		home.logins(pace(500 * time.Millisecond)),
		small.firstDeliveries(t, s, "small delivery", pace(100*time.Millisecond), 100),
		large.firstDeliveries(t, s, "large delivery", pace(400*time.Millisecond), 512<<10),
		home.documents(pace(600 * time.Millisecond)),
	}}

	s.judge(t, formPlan(plan{rounds: 3, each: 1500 * time.Millisecond, again: refill}), v, attack{
		run: c.run, begun: c.begun, sent: &c.sent, shows: map[string]int{
			"upload cut off":      10,
			"slow upload cut off": uploaders * uploadsEach / 2,
			"large body cut off":  10,
			"idle connection 200": 500,
			"idle connection 429": 100,
			"sign-up 201":         5,
			"organization 201":    5,
			"invitation 201":      5,
		},
	})
}
