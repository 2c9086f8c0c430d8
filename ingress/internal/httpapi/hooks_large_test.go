package httpapi

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley/ingress/internal/httpapi/hook"
	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/httpapi/transfer"
)

// A delivery of the maximum size is accepted, but its payload is not stored. A delivery with one
// more byte is rejected.
func TestLargeDeliveries(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	hookID := a.newHook(h, "token", `"deliveryIdHeader":"X-Id"`)
	body := `{"a":1,"b":"` + strings.Repeat("x", hook.MaxDelivery-14) + `"}`
	got := a.deliver(hookID, "token", "d1", "", body).want(t, "25 MiB", 202, "")
	_, data := a.input(t, got.text(t, "runId"))
	if _, passed := data["payload"]; passed || data["payloadBytes"] != float64(hook.MaxDelivery) {
		t.Errorf("the run was given %.200v", data)
	}
	if log := a.ok("GET", "/api/hooks/deliveries?id=d1&hookId="+hookID, "", h.key); log.json(t, "body") != nil || log.json(t, "kept") != false {
		t.Errorf("the log: %.300s", log.body)
	}
	a.from("POST", "/api/hooks/deliveries?action=redeliver&id=d1&hookId="+hookID, "", h.key).want(t, "what was not kept", 400, "invalid_request id:invalid_value")
	a.deliver(hookID, "token", "d2", "", body+" ").want(t, "one byte more", 413, "payload_too_large")
	req := a.delivery(hookID, "token", "d3", "", "")
	req.Body, req.ContentLength = io.NopCloser(io.MultiReader(strings.NewReader(body), strings.NewReader(" "))), -1
	a.send(req).want(t, "one byte more, in chunks", 413, "payload_too_large")
	req = a.delivery(hookID, "token", "d4", "", `{"a":1}`)
	req.Body, req.ContentLength = io.NopCloser(io.MultiReader(strings.NewReader(`{"a"`), brokenReader{})), 100
	a.send(req).want(t, "half a body", 400, "invalid_request")
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// junkBody is a body of arbitrary bytes. Read adds the number of bytes that it returns to the field
// held. The field atMost is the highest value that held has had.
type junkBody struct {
	left, read   int
	held, atMost *atomic.Int64
}

func (j *junkBody) Read(p []byte) (int, error) {
	if j.left == 0 {
		return 0, io.EOF
	}
	n := min(len(p), j.left)
	j.left -= n
	j.read += n
	if held := j.held.Add(int64(n)); held > j.atMost.Load() {
		j.atMost.Store(held)
	}
	return n, nil
}

// The number of large unsigned bodies in memory is limited, even if many arrive at the same time.
func TestUnsignedBodiesInMemoryAreLimited(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	hookIDs := []string{a.newHook(h, "github"), a.newHook(h, "github"), a.newHook(h, "github")}
	var held, maximum, busy atomic.Int64
	var wg sync.WaitGroup
	const senders = 60
	for i := range senders {
		wg.Go(func() {
			body := &junkBody{left: 2 << 20, held: &held, atMost: &maximum}
			req := httptest.NewRequestWithContext(t.Context(), "POST", hook.ReceivePath+hookIDs[i%3], body)
			req.ContentLength = -1
			signAs(req.Header, "github", "d", "push", "", time.Now())
			req.Header.Set("X-Hub-Signature-256", "sha256="+strings.Repeat("0", 64))
			rec := httptest.NewRecorder()
			a.handler.ServeHTTP(rec, req)
			held.Add(-int64(body.read))
			switch rec.Code {
			case 401:
			case 429, 503:
				busy.Add(1)
			default:
				t.Errorf("%d %s", rec.Code, rec.Body)
			}
		})
	}
	wg.Wait()
	if bound := int64(senders*transfer.SmallBody + 4*transfer.MediumBody + 4*(2<<20)); maximum.Load() > bound {
		t.Errorf("%d bytes were in memory simultaneously, want at most %d", maximum.Load(), bound)
	}
	t.Logf("at most %d KiB at once; %d of %d found no slot in time", maximum.Load()>>10, busy.Load(), senders)
}

// Four unverified senders (strangers) send bodies of the maximum size at 320 KiB per second. The
// service still accepts the first deliveries from other addresses: medium ones immediately, and
// large ones as soon as the uploads of the strangers count as slow. It then aborts these uploads,
// and the metrics count them.
func TestFirstDeliveriesDuringUnsignedFloods(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	quick := *hook.LargeDeliveries
	quick.Patience = 200 * time.Millisecond
	a.api.hooks.Large.Policy = &quick
	home := a.newTestOrg("home")
	stop := make(chan struct{})
	var strangers sync.WaitGroup
	for n := range 4 {
		hookID := a.newHook(a.newTestOrg("stranger"+strconv.Itoa(n)), "github")
		strangers.Go(func() {
			for again := true; again; {
				body := &slowBody{pace: 320 << 10, left: hook.MaxDelivery, stop: stop}
				req := httptest.NewRequestWithContext(t.Context(), "POST", hook.ReceivePath+hookID, body)
				req.ContentLength = hook.MaxDelivery
				signAs(req.Header, "github", "d", "push", "another body", time.Now())
				a.handler.ServeHTTP(httptest.NewRecorder(), at(req, "198.51."+strconv.Itoa(n)+".1"))
				select {
				case <-stop:
					again = false
				default:
				}
			}
		})
	}
	large := &a.api.hooks.Large
	eventually(t, "the strangers hold the slots", func() bool {
		large.Mu.Lock()
		defer large.Mu.Unlock()
		return len(large.Open) == 4
	})
	for n, size := range []int{512 << 10, 512 << 10, 2 << 20, 2 << 20} {
		body := `{"a":1,"b":"` + strings.Repeat("x", size) + `"}`
		req := a.delivery(a.newHook(home, "github"), "github", a.fresh(), "push", body)
		a.send(at(req, "203.0.113."+strconv.Itoa(n))).want(t, "a first delivery", 202, "")
	}
	close(stop)
	strangers.Wait()
	// One of the two large deliveries may have found a free slot, so perhaps only one upload was
	// aborted.
	if got := a.metric(t, `parley_uploads_cut_total{route="/api/hooks/receive/:id",sender="unverified"}`); got < 1 {
		t.Errorf("%v unverified bodies are counted as cut", got)
	}
}

// A verified sender stays verified after a restart of the ingress and at other ingress processes,
// until the hook is deleted.
func TestVerifiedSendersOutliveARestart(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	home := a.newTestOrg("home")
	hookID := a.newHook(home, "github")
	large := `{"a":1,"b":"` + strings.Repeat("x", 2<<20) + `"}`
	send := func(client, body string) answer {
		return a.send(at(a.delivery(hookID, "github", a.fresh(), "push", body), client))
	}
	send("203.0.113.1", `{"a":1}`).want(t, "the first delivery", 202, "")
	a.rebuild(func(*Deps) {})
	a.api.hooks.Large.Policy = tireless(hook.LargeDeliveries)
	for n := range 4 {
		who := reader(n, 0)
		who.Unverified = true
		takeSlot(t, &a.api.hooks.Large, httptest.NewRecorder(), who)
	}
	send("203.0.113.1", large).want(t, "a large one of the verified sender", 202, "")
	send("203.0.113.2", large).want(t, "one of another sender", 503, "overloaded")
	a.ok("DELETE", "/api/hooks?id="+hookID, "", home.key)
	var left int
	must(t, a.sql.QueryRowContext(t.Context(), `SELECT count(*) FROM hook_senders WHERE hook_id = $1`, hookID).Scan(&left))
	if left != 0 {
		t.Errorf("%d senders of a deleted hook are left", left)
	}
}

// Before the service reads the body of a large delivery from the database, it reserves capacity for
// the response.
func TestLargeDeliveriesAreCountedBeforeTheyAreRead(t *testing.T) { //nolint:paralleltest // measures the allocations of the whole process
	a := newWaitingRunEnv(t, unlimited)
	const size, refusals = 900 << 10, 3
	h := a.newTestOrg("home")
	a.newAgent(h)
	hookID, large := a.newHook(h, "hmac", `"deliveryIdHeader":"X-Id"`), strings.Repeat("x", size)
	if got := a.deliver(hookID, "hmac", "d1", "", `{"a":"`+large+`"}`); got.status/100 != 2 {
		t.Fatalf("a delivery: %d: %.300s", got.status, got.body)
	}
	path := "/api/hooks/deliveries?id=d1&hookId=" + hookID
	other, err := a.api.large.Enter(h.org, httpx.AnswersPerOrganization, http.NewResponseController(httptest.NewRecorder()))
	must(t, err)
	cost := allocated(func() {
		for range refusals {
			if got := a.from("GET", path, "", h.key); got.status != http.StatusTooManyRequests || got.header.Get("Retry-After") == "" {
				t.Errorf("without room: %d, Retry-After %q: %.300s", got.status, got.header.Get("Retry-After"), got.body)
			}
		}
	})
	if cost > refusals*size {
		t.Errorf("%d refused answers allocated %d bytes", refusals, cost)
	}
	other.Leave()
	if got := a.ok("GET", path, "", h.key); !strings.Contains(string(got.body), large) || a.api.large.Bytes() != 0 {
		t.Errorf("with room: %d bytes; %d bytes are still counted", len(got.body), a.api.large.Bytes())
	}
}
