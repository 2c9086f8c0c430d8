package httpapi

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
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

// at returns the request as if a trusted proxy had forwarded it from the client address.
func at(req *http.Request, client string) *http.Request {
	req.RemoteAddr = "10.0.0.1:1"
	req.Header.Set("X-Forwarded-For", client)
	return req
}

// One client address may take at most half of the slots, whatever organizations and credentials it
// uses.
func TestTransfersAreBoundedByAddress(t *testing.T) {
	t.Parallel()
	a, h := knowledgeEnv(t)
	const attacker, victim = "198.51.100.1", "203.0.113.1"
	var slots []*transfer.Slot
	for n := range transfer.UploadsAtOnce / transfer.AddressShare {
		who := reader(n, 0)
		who.Client = attacker
		slots = append(slots, takeSlot(t, &a.api.knowledge.Uploads, httptest.NewRecorder(), who))
	}
	send := func(client string) answer {
		body, contentType := formFor(t, largeForm...)
		req := httptest.NewRequestWithContext(t.Context(), "POST", "/api/knowledge", strings.NewReader(string(body)))
		req.Header.Set("Content-Type", contentType)
		return a.send(at(with(req, h.key), client))
	}
	got := send(attacker).want(t, "one more of the same address", 429, "rate_limited")
	if got.header.Get("Retry-After") == "" || !strings.Contains(got.text(t, "detail"), "client address") {
		t.Errorf("%v %s", got.header, got.body)
	}
	send(victim).want(t, "of another address", 202, "")
	if slots[0].Cut {
		t.Error("an upload at the pace was cut")
	}
}

// sendForm sends a form from a client address, either with a declared length or in chunks.
func (a *runEnv) sendForm(client, key string, chunked bool, form ...filePart) answer {
	a.t.Helper()
	body, contentType := formFor(a.t, form...)
	req := httptest.NewRequestWithContext(a.t.Context(), "POST", "/api/knowledge", strings.NewReader(string(body)))
	if req.Header.Set("Content-Type", contentType); chunked {
		req.ContentLength = -1
	}
	return a.send(at(with(req, key), client))
}

// Fast uploads of eight organizations take all slots except those reserved for newcomers, which are
// organizations without an upload. A newcomer's small and large forms are accepted. When newcomers
// have taken the last slots, small forms are still accepted. No upload is aborted.
func TestNewcomersDoNotEndUploads(t *testing.T) {
	t.Parallel()
	a, h := knowledgeEnv(t)
	newcomers := []*testOrg{a.newTestOrg("one"), a.newTestOrg("two"), a.newTestOrg("three")}
	a.api.knowledge.Uploads.Policy = tireless(transfer.Documents)
	uploads := &a.api.knowledge.Uploads
	body, contentType := formFor(t, filePart{name: "file", file: "a", content: string(numbers(3 << 19))})
	came := 0
	from := &pausingBody{from: strings.NewReader(string(body)), every: 1 << 20, pause: func() {
		for n := 0; len(uploads.Open) < transfer.UploadsAtOnce-transfer.UploadsAtOnce/transfer.NewcomerShare; n++ {
			takeSlot(t, uploads, httptest.NewRecorder(), reader(n%8, n/8))
		}
		for n, s := range newcomers {
			came++
			a.sendForm("203.0.113."+strconv.Itoa(n), s.key, false, largeForm...).want(t, "a newcomer's", 202, "")
		}
		for n := 8; len(uploads.Open) < transfer.UploadsAtOnce; n++ {
			takeSlot(t, uploads, httptest.NewRecorder(), reader(n, 0))
		}
		for n, s := range newcomers {
			small := filePart{name: "file", content: "small " + strconv.Itoa(came)}
			a.sendForm("203.0.113."+strconv.Itoa(n), s.key, n%2 == 0, small).want(t, "a newcomer's small one", 202, "")
			a.sendForm("203.0.113."+strconv.Itoa(n), s.key, true, largeForm...).want(t, "a large one beside 64 that keep the pace", 503, "overloaded")
		}
		for _, p := range slices.Clone(uploads.Open) {
			if p.Organization != h.org {
				uploads.Leave(p)
			}
		}
	}}
	req := httptest.NewRequestWithContext(t.Context(), "POST", "/api/knowledge", from)
	req.ContentLength = int64(len(body))
	req.Header.Set("Content-Type", contentType)
	a.send(with(req, h.key)).want(t, "the upload", 202, "")
	if came == 0 {
		t.Error("no newcomer came")
	}
}

// All slots are occupied by one upload that is too slow, at 20 KiB per second, and by uploads that
// are fast enough. A large form from another organization is accepted, because the slow upload is
// aborted. The error of the aborted upload states the minimum speed, and the metrics count the
// upload.
func TestSlowUploadsGiveWay(t *testing.T) {
	t.Parallel()
	a, h := knowledgeEnv(t)
	server := httptest.NewServer(a.handler)
	t.Cleanup(server.Close)
	attacker := a.newTestOrg("attacker")
	quick := *transfer.Documents
	quick.Patience = 200 * time.Millisecond
	a.api.knowledge.Uploads.Policy = &quick
	uploads := &a.api.knowledge.Uploads
	body := &slowBody{pace: 20 << 10, left: 20 << 20, stop: make(chan struct{})}
	t.Cleanup(func() { close(body.stop) })
	answered := make(chan answer, 1)
	go func() {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/api/knowledge", io.MultiReader(strings.NewReader(fileHead), body))
		req.ContentLength = int64(len(fileHead)) + body.left
		req.Header.Set("Content-Type", "multipart/form-data; boundary=b")
		res, err := server.Client().Do(with(req, attacker.key))
		if err != nil {
			t.Error(err)
			answered <- answer{}
			return
		}
		defer res.Body.Close()
		said, _ := io.ReadAll(res.Body)
		answered <- answer{status: res.StatusCode, header: res.Header, body: said}
	}()
	eventually(t, "the upload has a slot", func() bool {
		uploads.Mu.Lock()
		defer uploads.Mu.Unlock()
		return len(uploads.Open) == 1
	})
	for n := 0; len(uploads.Open) < transfer.UploadsAtOnce; n++ { // adds uploads that are fast enough
		takeSlot(t, uploads, httptest.NewRecorder(), reader(n, 0))
	}
	a.sendForm("203.0.113.1", h.key, false, largeForm...).want(t, "a newcomer's", 202, "")
	got := <-answered
	got.want(t, "the upload that trickled", 503, "overloaded")
	if got.header.Get("Retry-After") == "" || !strings.Contains(got.text(t, "detail"), "64 KiB a second") {
		t.Errorf("%v %s", got.header, got.body)
	}
	if got := a.metric(t, `parley_uploads_cut_total{route="/api/knowledge",sender="verified"}`); got != 1 {
		t.Errorf("%v uploads are counted as cut", got)
	}
}

// slowBody is a body that arrives at the given pace, in bytes per second.
type slowBody struct {
	pace int
	left int64
	stop chan struct{}
}

func (b *slowBody) Read(p []byte) (int, error) {
	select {
	case <-time.After(100 * time.Millisecond):
	case <-b.stop:
		return 0, io.ErrUnexpectedEOF
	}
	n := min(len(p), b.pace/10, int(b.left))
	if b.left -= int64(n); n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// metric returns the value of a metric in /metrics, or 0 if it is missing.
func (a *runEnv) metric(t *testing.T, name string) float64 {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil)
	req.RemoteAddr, req.Host = "127.0.0.1:1", "localhost"
	rec := httptest.NewRecorder()
	a.handler.ServeHTTP(rec, req)
	if rec.Code != http.StatusOK {
		t.Fatalf("/metrics: %d", rec.Code)
	}
	_, line, _ := strings.Cut(rec.Body.String(), name+" ")
	line, _, _ = strings.Cut(line, "\n")
	value, _ := strconv.ParseFloat(line, 64)
	return value
}

// Fourteen clients in different networks continuously send large bodies with wrong signatures to
// their own hooks. All large signed deliveries to a victim's hook are accepted, although each of
// them pauses within its body until 14 further deliveries with wrong signatures have arrived.
func TestUnsignedFloodsDoNotBlockSignedDeliveries(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	const strangers = 14
	home := a.newHook(a.newTestOrg("home"), "github")
	var came atomic.Int64
	var wg sync.WaitGroup
	stop := make(chan struct{})
	hooks := make([]string, strangers)
	for n := range hooks { // create the hooks before the floods, which slow down all requests
		hooks[n] = a.newHook(a.newTestOrg("stranger"+strconv.Itoa(n)), "github")
	}
	for n, hookID := range hooks {
		wg.Go(func() {
			for sent := 0; ; sent++ {
				client := "198.51." + strconv.Itoa(n) + "." + strconv.Itoa(sent/100%200) // no address sends enough deliveries to be blocked
				select {
				case <-stop:
					return
				default:
				}
				req := httptest.NewRequestWithContext(t.Context(), "POST", hook.ReceivePath+hookID, io.LimitReader(zeros{}, 1<<20+1))
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
	for n := range 4 {
		req := a.delivery(home, "github", a.fresh(), "push", payload)
		req.Body = io.NopCloser(&pausingBody{from: strings.NewReader(payload), every: 4 << 20, pause: func() {
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

// A delivery without a valid signature header is rejected before its body is read.
func TestDeliveriesWithoutSignatureAreNotRead(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	for source, change := range map[string]func(http.Header){
		"github": func(header http.Header) { header.Del("X-Hub-Signature-256") },
		"token":  func(header http.Header) { header.Set("X-Token", "wrong") },
	} {
		hookID := a.newHook(h, source)
		req := a.delivery(hookID, source, "d", "push", "{}")
		change(req.Header)
		req.Body, req.ContentLength = io.NopCloser(&callbackBody{strings.NewReader(""), func(int) { t.Errorf("%s: the body was read", source) }}), 20<<20
		a.send(req).want(t, source, 401, "unauthenticated")
	}
}

// Large deliveries of unverified senders are limited by address and by hook. Deliveries of verified
// senders are counted separately.
func TestUnverifiedDeliveriesAreBounded(t *testing.T) {
	t.Parallel()
	all := &transfer.Limiter{Policy: impatient(hook.LargeDeliveries)}
	enter := func(hook, client string, stranger bool) error {
		_, err := all.Enter(transfer.Owner{Organization: "org_" + hook, Credential: hook, Client: client, Unverified: stranger},
			http.NewResponseController(httptest.NewRecorder()))
		return err
	}
	for n, tc := range []struct {
		hook, client string
		stranger     bool
		code         apierr.Code
	}{
		{"a", "1", true, ""},
		{"a", "2", true, apierr.RateLimited}, // limit per hook
		{"b", "1", true, ""},
		{"c", "1", true, apierr.RateLimited}, // limit per address
		{"c", "2", true, ""},
		{"d", "2", true, apierr.Overloaded}, // the last slot is for newcomers
		{"d", "3", true, ""},
		{"e", "4", true, apierr.Overloaded}, // limit for all senders together
		{"a", "5", false, ""},
		{"a", "5", false, ""},
		{"a", "5", false, apierr.RateLimited},
		{"f", "6", false, ""},
		{"g", "6", false, apierr.Overloaded}, // the last slots are for newcomers
		{"g", "7", false, ""},
		{"h", "8", false, apierr.Overloaded},
	} {
		if err := enter(tc.hook, tc.client, tc.stranger); (err == nil) != (tc.code == "") || err != nil && apierr.CodeFor(err) != tc.code {
			t.Errorf("%d: %v, want %q", n, err, tc.code)
		}
	}
	for _, p := range all.Open {
		if !p.Unverified {
			p.Wait()
		}
	}
	if err := enter("i", "8", true); apierr.CodeFor(err) != apierr.Overloaded {
		t.Errorf("a stranger took the slot of a verified sender: %v", err)
	}
}

// Strangers who know a hook's URL take all of the hook's slots for unverified senders. If their
// uploads are slow, a sender in another network still gets a slot.
func TestAHooksSlotsAreShared(t *testing.T) {
	t.Parallel()
	for _, policy := range []*transfer.Policy{hook.SmallDeliveries, hook.MediumDeliveries, hook.LargeDeliveries} {
		all := &transfer.Limiter{Policy: impatient(policy)}
		enter := func(n int) (*transfer.Slot, error) {
			return all.Enter(transfer.Owner{Organization: "org", Credential: "hook", Client: "192.0." + strconv.Itoa(n) + ".1", Unverified: true},
				http.NewResponseController(httptest.NewRecorder()))
		}
		for n := range policy.Unverified.PerCredential {
			_, err := enter(n % 100)
			must(t, err)
		}
		if _, err := enter(200); apierr.CodeFor(err) != apierr.RateLimited {
			t.Errorf("while strangers keep the pace: %v", err)
		}
		for _, p := range all.Open {
			p.Wait()
		}
		if _, err := enter(0); apierr.CodeFor(err) != apierr.RateLimited {
			t.Errorf("one more of a stranger's: %v", err)
		}
		if _, err := enter(200); err != nil {
			t.Errorf("during slow uploads of strangers: %v", err)
		}
	}
}

// tireless returns a variant of the policy that aborts no slow transfers. A transfer without a free
// slot is rejected immediately.
func tireless(policy *transfer.Policy) *transfer.Policy {
	soon := *policy
	soon.Patience, soon.Queue = time.Hour, 0
	return &soon
}

// impatient returns a variant of the policy that judges the pace of a transfer immediately and in
// which no transfer waits for a slot.
func impatient(policy *transfer.Policy) *transfer.Policy {
	soon := *policy
	soon.Patience, soon.Queue = time.Nanosecond, 0
	return &soon
}
