package httpapi

import (
	"io"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley/ingress/internal/httpapi/hook"
)

// A delivery of the largest size is taken, without its payload; one byte more is not.
func TestLargeDeliveries(t *testing.T) {
	t.Parallel()
	a := newArena(t)
	h := a.newHouse("home")
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

// junk is a body of which is counted how many are in memory at a time.
type junk struct {
	left  int
	begun bool
	open  *atomic.Int64
	most  *atomic.Int64
}

func (j *junk) Read(p []byte) (int, error) {
	if !j.begun {
		j.begun = true
		if n := j.open.Add(1); n > j.most.Load() {
			j.most.Store(n)
		}
	}
	if j.left == 0 {
		j.open.Add(-1)
		return 0, io.EOF
	}
	n := min(len(p), j.left)
	j.left -= n
	return n, nil
}

// Large bodies that nobody has signed are few in memory at a time, however many come at once.
func TestJunkIsBounded(t *testing.T) {
	t.Parallel()
	a := newArena(t)
	h := a.newHouse("home")
	hookIDs := []string{a.newHook(h, "github"), a.newHook(h, "github"), a.newHook(h, "github")}
	var open, most, busy atomic.Int64
	var wg sync.WaitGroup
	for i := range 60 {
		wg.Go(func() {
			body := &junk{left: 2 << 20, open: &open, most: &most}
			req := httptest.NewRequestWithContext(t.Context(), "POST", hook.ReceivePath+hookIDs[i%3], body)
			req.ContentLength = -1
			signAs(req.Header, "github", "d", "push", "", time.Now())
			req.Header.Set("X-Hub-Signature-256", "sha256="+strings.Repeat("0", 64))
			rec := httptest.NewRecorder()
			a.handler.ServeHTTP(rec, req)
			switch rec.Code {
			case 401:
			case 429, 503:
				busy.Add(1)
				if body.begun {
					t.Error("a body was read of a delivery that found no place")
				}
			default:
				t.Errorf("%d %s", rec.Code, rec.Body)
			}
		})
	}
	wg.Wait()
	if most.Load() > hook.DeliveriesPerOrganization {
		t.Errorf("%d bodies were read at once", most.Load())
	}
	t.Logf("at most %d at once; %d of 60 found no place in time", most.Load(), busy.Load())
}
