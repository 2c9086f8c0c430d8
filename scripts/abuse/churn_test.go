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
)

const (
	// idleConnections is how many an attacker opens: more than CONNECTIONS_PER_ADDRESS.
	idleConnections = 1200
	idleTogether    = 10 // that are opened at a time
	hookBodies      = 12 // bodies of 26 MB that come at a time
)

// churn is what strangers do who have no right to anything: they make accounts, organizations and invitations, cut uploads off, keep
// connections idle, and send large bodies to hooks that they know.
type churn struct {
	stranger *person
	senders  []*client // of large bodies, each of an address of its own
	idler    *client
	hooks    []*hook
	sent     tally
	idling   chan struct{} // has an entry once all idle connections stand
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

// upload announces 20 MB, sends a little and breaks off.
func (c *churn) upload(ctx context.Context, _ int) {
	ctx, cut := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cut()
	by := c.stranger.byKey()
	by["Content-Type"] = "multipart/form-data; boundary=b"
	a := c.stranger.post(ctx, "/api/knowledge", by, &inPieces{
		ctx: ctx, rest: beginning, piece: 4 << 10, pause: time.Second, announced: true,
	})
	if a.err != nil {
		c.sent.count("upload cut off")
		return
	}
	c.sent.add(ctx, "upload", a)
}

// body sends 26 MB without a good signature at a pace that keeps its slot, if it gets one.
func (c *churn) body(ctx context.Context, n int) {
	to := c.hooks[n%len(c.hooks)]
	a := to.send(ctx, c.senders[n%len(c.senders)], strconv.Itoa(n), wrongSignature, &inPieces{
		ctx: ctx, rest: zeros[:], piece: 32 << 10, pause: piecePause,
	})
	if a.err != nil {
		c.sent.count("large body cut off")
		return
	}
	c.sent.add(ctx, "large body", a)
}

var (
	zeros [26 << 20]byte
	// beginning is that of a form whose file has 20 MB.
	beginning = append([]byte("--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\n\r\n"), zeros[:20<<20]...)
)

// idle opens more connections from one address than it may, and keeps them.
func (c *churn) idle(ctx context.Context) {
	var mu sync.Mutex
	var open []net.Conn
	defer func() {
		for _, conn := range open {
			_ = conn.Close() // it was idle
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

// begun waits until the idle connections stand: opening them is a moment's work, keeping them is the attack.
func (c *churn) begun(ctx context.Context) {
	select {
	case <-c.idling:
	case <-ctx.Done():
	}
}

// connect opens a connection and makes one request, so that it is known whether it was let in.
func (c *churn) connect(ctx context.Context) (conn net.Conn, status string) {
	conn, err := c.idler.dial.DialContext(ctx, "tcp", strings.TrimPrefix(c.idler.url, "http://"))
	if err != nil {
		return nil, ""
	}
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second)) // it can only be closed already
	_, _ = io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: parley.test\r\n\r\n")
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return conn, "closed"
	}
	_ = res.Body.Close() // it was short
	return conn, strconv.Itoa(res.StatusCode)
}

func strangersChurn(t *testing.T, s *service) { //nolint:thelper // a test, not a part of one
	home := s.signUp(t, victimAddress).withKey(t).withAgent(t)
	small, large := home.newHook(t, "small", "hmac"), home.newHook(t, "large", "github")
	for _, h := range []*hook{small, large} { // the service knows the victim's source
		h.deliver(t.Context(), home.client, "first", 1).want(t, http.StatusAccepted)
	}
	c := newChurn(t, s, large)
	v := &victim{probes: []probe{
		home.logins(pace(500 * time.Millisecond)),
		small.deliveries("small delivery", pace(100*time.Millisecond), 100),
		large.deliveries("large delivery", pace(400*time.Millisecond), 512<<10),
		home.documents(pace(600 * time.Millisecond)),
	}}
	s.judge(t, planned(plan{rounds: 3, each: 1500 * time.Millisecond}), v, attack{
		run: c.run, begun: c.begun, sent: &c.sent, shows: map[string]int{
			"upload cut off":      10,
			"large body cut off":  10,
			"idle connection 200": 500,
			"idle connection 429": 100,
			"sign-up 201":         5,
			"organization 201":    5,
			"invitation 201":      5,
		},
	})
}
