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
	"parley/ingress/internal/httpapi/transfer"
	"parley/shared/apierr"
)

// at has a request come from a client address, by way of a trusted proxy.
func at(req *http.Request, client string) *http.Request {
	req.RemoteAddr = "10.0.0.1:1"
	req.Header.Set("X-Forwarded-For", client)
	return req
}

// One client address has at most half of the slots, whatever organizations and credentials it brings.
func TestTransfersAreBoundedByAddress(t *testing.T) {
	t.Parallel()
	a, h := knowledgeWorld(t)
	const attacker, victim = "198.51.100.1", "203.0.113.1"
	var places []*transfer.Slot
	for n := range transfer.UploadsAtOnce / transfer.AddressShare {
		who := reader(n, 0)
		who.Client = attacker
		places = append(places, placeOf(t, &a.api.knowledge.Uploads, httptest.NewRecorder(), who))
	}
	send := func(client string) answer {
		body, contentType := formOf(t, filePart{name: "file", content: client})
		req := httptest.NewRequestWithContext(t.Context(), "POST", "/api/knowledge", strings.NewReader(string(body)))
		req.Header.Set("Content-Type", contentType)
		return a.send(at(with(req, h.key), client))
	}
	got := send(attacker).want(t, "one more of the same address", 429, "rate_limited")
	if got.header.Get("Retry-After") == "" || !strings.Contains(got.text(t, "detail"), "client address") {
		t.Errorf("%v %s", got.header, got.body)
	}
	send(victim).want(t, "of another address", 202, "")
	if places[0].Cut {
		t.Error("an upload at the pace was cut")
	}
}

// An upload goes on while strangers, who have none, ask for slots.
func TestNewcomersEndNobodysUpload(t *testing.T) {
	t.Parallel()
	a, h := knowledgeWorld(t)
	strangers := []*house{a.newHouse("one"), a.newHouse("two"), a.newHouse("three")}
	body, contentType := formOf(t, filePart{name: "file", file: "a", content: string(numbers(2 << 20))})
	came := 0
	from := &pausing{from: strings.NewReader(string(body)), every: 1 << 20, pause: func() {
		for org := 0; len(a.api.knowledge.Uploads.Open) < transfer.UploadsAtOnce; org++ {
			placeOf(t, &a.api.knowledge.Uploads, httptest.NewRecorder(), reader(org, 0))
		}
		for _, s := range strangers {
			came++
			a.form("POST", "/api/knowledge", []filePart{{name: "file", content: "x"}}, s.key).want(t, "a stranger's", 503, "overloaded")
		}
	}}
	req := httptest.NewRequestWithContext(t.Context(), "POST", "/api/knowledge", from)
	req.ContentLength = int64(len(body))
	req.Header.Set("Content-Type", contentType)
	a.send(with(req, h.key)).want(t, "the upload", 202, "")
	if came == 0 {
		t.Error("no stranger came")
	}
}

// Fourteen strangers send large bodies with wrong signatures to hooks of their own without a pause. None of a victim's
// large signed deliveries is refused, though each waits until all of the strangers have come again.
func TestUnsignedFloodsRefuseNoSignedDelivery(t *testing.T) {
	t.Parallel()
	a := newArena(t)
	const strangers = 14
	home := a.newHook(a.newHouse("home"), "github")
	var came atomic.Int64
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for n := range strangers {
		hookID := a.newHook(a.newHouse("stranger"+strconv.Itoa(n)), "github")
		client := "198.51.100." + strconv.Itoa(n)
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				req := httptest.NewRequestWithContext(t.Context(), "POST", hook.ReceivePath+hookID, io.LimitReader(zeros{}, 1<<20))
				req.ContentLength = -1
				signAs(req.Header, "github", "d", "push", "another body", time.Now())
				rec := httptest.NewRecorder()
				a.handler.ServeHTTP(rec, at(req, client))
				came.Add(1)
				if rec.Code != 401 && rec.Code != 429 && rec.Code != 503 {
					t.Errorf("a stranger's delivery: %d %s", rec.Code, rec.Body)
				}
			}
		})
	}
	payload := `{"a":1,"b":"` + strings.Repeat("x", 6<<20) + `"}`
	for n := range 10 {
		req := a.delivery(home, "github", a.fresh(), "push", payload)
		req.Body = io.NopCloser(&pausing{from: strings.NewReader(payload), every: 4 << 20, pause: func() {
			for until := came.Load() + strangers; came.Load() < until; {
				<-time.After(time.Millisecond)
			}
		}})
		a.send(at(req, "203.0.113.1")).want(t, "signed delivery "+strconv.Itoa(n), 202, "")
	}
	close(stop)
	wg.Wait()
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// A delivery without a good header of its source is refused before its body comes, and counts.
func TestDeliveriesWithoutSignatureAreNotRead(t *testing.T) {
	t.Parallel()
	a := newArena(t)
	h := a.newHouse("home")
	for source, change := range map[string]func(http.Header){
		"github": func(header http.Header) { header.Del("X-Hub-Signature-256") },
		"token":  func(header http.Header) { header.Set("X-Token", "wrong") },
	} {
		hookID := a.newHook(h, source)
		req := a.delivery(hookID, source, "d", "push", "{}")
		change(req.Header)
		req.Body, req.ContentLength = io.NopCloser(&meanwhile{strings.NewReader(""), func(int) { t.Errorf("%s: the body was read", source) }}), 20<<20
		a.send(req).want(t, source, 401, "unauthenticated")
	}
}

// Large deliveries of senders that are not verified yet are bounded by address and by hook, apart from verified ones.
func TestUnverifiedDeliveriesAreBounded(t *testing.T) {
	t.Parallel()
	all := &transfer.Limiter{Policy: impatient(hook.IncomingDeliveries)}
	enter := func(hook, client string, stranger bool) error {
		_, err := all.Enter(transfer.Owner{Organization: "org_" + hook, Credential: hook, Client: client, Stranger: stranger},
			http.NewResponseController(httptest.NewRecorder()))
		return err
	}
	for n, tc := range []struct {
		hook, client string
		stranger     bool
		code         apierr.Code
	}{
		{"a", "1", true, ""},
		{"a", "2", true, apierr.RateLimited}, // by hook
		{"b", "1", true, ""},
		{"c", "1", true, apierr.RateLimited}, // by address
		{"c", "2", true, ""},
		{"d", "3", true, ""},
		{"e", "4", true, apierr.Overloaded}, // together
		{"a", "5", false, ""},
		{"a", "5", false, ""},
		{"a", "5", false, apierr.RateLimited},
		{"f", "6", false, ""},
		{"g", "6", false, ""},
		{"h", "7", false, apierr.Overloaded},
	} {
		if err := enter(tc.hook, tc.client, tc.stranger); (err == nil) != (tc.code == "") || err != nil && apierr.CodeOf(err) != tc.code {
			t.Errorf("%d: %v, want %q", n, err, tc.code)
		}
	}
	for _, p := range all.Open {
		if !p.Stranger {
			p.Wait()
		}
	}
	if err := enter("i", "8", true); apierr.CodeOf(err) != apierr.Overloaded {
		t.Errorf("a stranger took the slot of a verified sender: %v", err)
	}
}

// impatient is a policy that judges a transfer's pace as soon as the transfer waits for its client.
func impatient(policy *transfer.Policy) *transfer.Policy {
	soon := *policy
	soon.Patience = time.Nanosecond
	return &soon
}
