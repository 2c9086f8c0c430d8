package auth

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alexedwards/argon2id"

	"parley/shared/apierr"
)

func TestClientAddr(t *testing.T) {
	t.Parallel()
	proxies := Proxies{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	for name, c := range map[string]struct {
		remote    string
		forwarded []string
		want      string
		client    string
	}{
		"direct":                     {"192.0.2.1:99", nil, "192.0.2.1", "192.0.2.1"},
		"direct, made-up header":     {"192.0.2.1:99", []string{"198.51.100.7"}, "192.0.2.1", "192.0.2.1"},
		"one proxy":                  {"10.0.0.1:99", []string{"198.51.100.7"}, "198.51.100.7", "198.51.100.7"},
		"two proxies":                {"10.0.0.1:99", []string{"198.51.100.7, 10.0.0.2"}, "198.51.100.7", "198.51.100.7"},
		"client lies":                {"10.0.0.1:99", []string{"203.0.113.9, 198.51.100.7"}, "198.51.100.7", "198.51.100.7"},
		"two headers":                {"10.0.0.1:99", []string{"203.0.113.9", "198.51.100.7"}, "198.51.100.7", "198.51.100.7"},
		"proxy says nothing":         {"10.0.0.1:99", nil, "10.0.0.1", "10.0.0.1"},
		"nonsense":                   {"10.0.0.1:99", []string{"198.51.100.7, what"}, "10.0.0.1", "10.0.0.1"},
		"with port":                  {"10.0.0.1:99", []string{"198.51.100.7:1234"}, "198.51.100.7", "198.51.100.7"},
		"IPv6":                       {"[2001:db8:1:2:3::1]:99", nil, "2001:db8:1:2:3::1", "2001:db8:1:2::/64"},
		"IPv6 behind proxy":          {"[fd00::1]:99", []string{"[2001:db8:1:2:3::1]:99"}, "2001:db8:1:2:3::1", "2001:db8:1:2::/64"},
		"IPv4 in IPv6":               {"[::ffff:192.0.2.1]:99", nil, "192.0.2.1", "192.0.2.1"},
		"link-local with its zone":   {"[fe80::1%eth0]:99", nil, "fe80::1", "fe80::/64"},
		"everybody is a proxy":       {"10.0.0.1:99", []string{"10.0.0.3, 10.0.0.2"}, "10.0.0.3", "10.0.0.3"},
		"unix socket":                {"@", nil, "invalid IP", "local"},
		"IPv4 in IPv6, proxy's hint": {"10.0.0.1:99", []string{"::ffff:198.51.100.7"}, "198.51.100.7", "198.51.100.7"},
	} {
		req := &http.Request{RemoteAddr: c.remote, Header: http.Header{}}
		for _, v := range c.forwarded {
			req.Header.Add("X-Forwarded-For", v)
		}
		if got := proxies.ClientAddr(req); got.String() != c.want || ClientName(got) != c.client {
			t.Errorf("%s: address %s, rate limited as %s; want %s and %s", name, got, ClientName(got), c.want, c.client)
		}
	}
}

func TestSecure(t *testing.T) {
	t.Parallel()
	proxies := Proxies{netip.MustParsePrefix("10.0.0.0/8")}
	req := func(remote, proto string, over *tls.ConnectionState) *http.Request {
		return &http.Request{RemoteAddr: remote, TLS: over, Header: http.Header{"X-Forwarded-Proto": {proto}}}
	}
	for name, c := range map[string]struct {
		req  *http.Request
		want bool
	}{
		"plain":          {req("192.0.2.1:9", "http", nil), false},
		"TLS":            {req("192.0.2.1:9", "http", &tls.ConnectionState{}), true},
		"proxy says so":  {req("10.0.0.1:9", "https", nil), true},
		"client says so": {req("192.0.2.1:9", "https", nil), false},
	} {
		if got := proxies.Secure(c.req); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestCookie(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	SetCookie(w, "ps_x", time.Now().Add(SessionLife), true)
	ClearCookie(w, false)
	got := w.Result().Header["Set-Cookie"]
	for _, part := range []string{CookieName + "=ps_x", "HttpOnly", "SameSite=Lax", "Secure", "Path=/", "Max-Age=2592000"} {
		if !strings.Contains(got[0], part) {
			t.Errorf("%s lacks %s", got[0], part)
		}
	}
	if strings.Contains(got[1], "Secure") || !strings.Contains(got[1], "Max-Age=0") {
		t.Errorf("clearing: %s", got[1])
	}
}

func TestPasswords(t *testing.T) {
	t.Parallel()
	p := NewPasswords(0, PasswordCost)
	stored := func(password string, schemes ...string) string {
		hash, err := p.Hash(t.Context(), "", password, schemes)
		if err != nil || !strings.HasPrefix(hash, "$argon2id$v=19$m=19456,t=2,p=1$") {
			t.Fatalf("hash %q, %v", hash, err)
		}
		return hash
	}
	scheme := func(hash string) string { return hash[:strings.LastIndexByte(hash, '$')] }
	first := stored("correct horse")
	second := stored("battery staple", "$argon2id$v=19$m=64,t=1,p=1$c2FsdHNhbHRzYWx0c2FsdA", scheme(first))
	if scheme(first) != scheme(second) || first == second {
		t.Errorf("%s and %s", first, second)
	}
	if other := stored("correct horse"); scheme(other) == scheme(first) {
		t.Errorf("without a scheme, %s has the salt of %s", other, first)
	}
	for password, want := range map[string]bool{"correct horse": true, "correct horses": false} {
		hashes, err := p.Hashes(t.Context(), "", password, []string{scheme(first)})
		if err != nil || slices.Contains(hashes, first) != want {
			t.Errorf("%s: %q, %v", password, hashes, err)
		}
	}
	if hashes, err := p.Hashes(t.Context(), "", "no account", nil); err != nil || len(hashes) > 0 {
		t.Errorf("no account: %q, %v", hashes, err)
	}
	if same, err := argon2id.ComparePasswordAndHash("battery staple", second); err != nil || !same {
		t.Errorf("the library rejects %s: %v", second, err)
	}
}

// TestPasswordsAreBounded lets many callers wait for a single slot, which is occupied at first.
// Then waitersPerSlot callers wait, and all others are rejected immediately. When the slot becomes
// free, the waiting callers take it one after the other.
func TestPasswordsAreBounded(t *testing.T) {
	t.Parallel()
	const callers = 200
	q := occupiedQueue(t)
	refused, entered := make(chan error, callers), make(chan struct{}, callers)
	var inside, limit atomic.Int32
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			if err := q.enter(t.Context(), "client"); err != nil {
				refused <- err
				return
			}
			limit.Store(max(limit.Load(), inside.Add(1)))
			inside.Add(-1)
			entered <- struct{}{}
			q.leave()
		})
	}
	for range callers - waitersPerSlot { // these callers are rejected while the slot is occupied
		var coded *apierr.Error
		if err := <-refused; !errors.As(err, &coded) || coded.Code != apierr.Overloaded || coded.RetryAfter < time.Second {
			t.Errorf("beyond the queue: %v", err)
		}
	}
	q.leave() // frees the slot
	wg.Wait()
	if len(entered) != waitersPerSlot || len(refused) != 0 || limit.Load() != 1 {
		t.Errorf("%d entered, %d refused late, %d at a time", len(entered), len(refused), limit.Load())
	}
	wantIdle(t, q)
}

// TestPasswordClientsTakeTurns lets one client fill the queue. A request of another client then
// replaces one of the first client's requests, and is next. Two clients get at most half of the
// queue each.
func TestPasswordClientsTakeTurns(t *testing.T) {
	t.Parallel()
	q := occupiedQueue(t)
	flood := waitFor(t, q, "flood", waitersPerSlot)
	if _, waits, err := q.add("flood"); waits || err == nil {
		t.Errorf("one more of the same client: %t, %v", waits, err)
	}
	first := waitFor(t, q, "other", 1)
	if admitted := <-flood[waitersPerSlot-1].admitted; admitted {
		t.Error("the newest request was admitted")
	}
	q.leave() // the turn of the first client, which waited earlier
	q.leave()
	if !<-flood[0].admitted || !<-first[0].admitted {
		t.Error("the clients do not take turns")
	}

	waitFor(t, q, "flood", 2)
	waitFor(t, q, "other", waitersPerSlot/2)
	if _, waits, err := q.add("other"); waits || err == nil {
		t.Errorf("more than half of the queue: %t, %v", waits, err)
	}
	for range waitersPerSlot + 1 {
		q.leave()
	}
	wantIdle(t, q)
}

// TestPasswordsWaitersLeave cancels waiting requests. The slot then goes to the other requests.
func TestPasswordsWaitersLeave(t *testing.T) {
	t.Parallel()
	q := occupiedQueue(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 2 * waitersPerSlot {
		if err := q.enter(ctx, "gone"); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
	}
	list := waitFor(t, q, "here", 3)
	if !q.remove("here", list[1]) || q.remove("here", list[1]) {
		t.Error("a request is not removed once")
	}
	for range 3 {
		q.leave()
	}
	if !<-list[0].admitted || !<-list[2].admitted || len(list[1].admitted) != 0 {
		t.Error("the others are not admitted")
	}
	wantIdle(t, q)
}

// TestPasswordSlotsAreNotLost cancels a waiting request while the slot becomes free. The request gets
// the slot and passes it on, or does not get it.
func TestPasswordSlotsAreNotLost(t *testing.T) {
	t.Parallel()
	for range 2000 {
		q := occupiedQueue(t)
		ctx, cancel := context.WithCancel(t.Context())
		var both sync.WaitGroup
		both.Go(func() {
			if err := q.enter(ctx, "waiter"); err == nil {
				q.leave()
			}
		})
		both.Go(cancel)
		q.leave()
		both.Wait()
		wantIdle(t, q)
	}
}

// occupiedQueue returns a queue with one slot, which is in use.
func occupiedQueue(t *testing.T) *passwordQueue {
	t.Helper()
	q := newPasswordQueue(1)
	if err := q.enter(t.Context(), "occupant"); err != nil {
		t.Fatal(err)
	}
	return q
}

// waitFor adds waiting requests of a client.
func waitFor(t *testing.T, q *passwordQueue, client string, requests int) (added []*passwordWaiter) {
	t.Helper()
	for range requests {
		w, waits, err := q.add(client)
		if !waits {
			t.Fatalf("%s does not wait: %v", client, err)
		}
		added = append(added, w)
	}
	return added
}

// wantIdle checks that the slot is free and that nothing of the requests is left.
func wantIdle(t *testing.T, q *passwordQueue) {
	t.Helper()
	if q.free != 1 || q.waiting != 0 || len(q.clients) != 0 || len(q.turns) != 0 {
		t.Errorf("%d free, %d waiting, clients %v, turns %v", q.free, q.waiting, q.clients, q.turns)
	}
}
