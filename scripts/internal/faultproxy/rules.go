package faultproxy

import (
	"io"
	"maps"
	"math/rand/v2"
	"mime"
	"net/http"
	"sync"
)

// cut describes how much of a response is passed on and how the connection is closed afterwards.
type cut struct {
	at    int // maximum number of body bytes to pass on; 0: nothing, not even the headers; negative: the whole response
	reset bool
	name  string
	spare func() // called if the response ends before the cut
}

// everything is the cut that passes on the whole response.
var everything = cut{at: -1}

// refusal is a response that the proxy sends itself.
type refusal struct {
	status int
	header http.Header
	body   string
}

// write sends the refusal.
func (f refusal) write(w http.ResponseWriter) {
	maps.Copy(w.Header(), f.header)
	w.WriteHeader(f.status)
	_, _ = io.WriteString(w, f.body) // an error means that the client has left
}

// pass is the rule that passes on every request and response.
type pass struct{}

func (pass) before() *refusal                        { return nil }
func (pass) after(*http.Request, *http.Response) cut { return everything }

// dropFirst is the rule of Proxy.DropFirst: it drops the first response to every distinct POST.
type dropFirst struct {
	pass

	mu      sync.Mutex
	dropped map[string]bool
}

// after drops the response to a POST that has not been dropped before.
func (f *dropFirst) after(r *http.Request, _ *http.Response) cut {
	if f.first(r) {
		return cut{name: "dropped"}
	}
	return everything
}

// first reports whether a POST is the first with its URL and Idempotency-Key. It records the POST.
func (f *dropFirst) first(r *http.Request) bool {
	if r.Method != http.MethodPost {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	request := r.URL.String() + " " + r.Header.Get("Idempotency-Key")
	before := f.dropped[request]
	f.dropped[request] = true
	return !before
}

// dropWhen is the rule of Proxy.DropWhen: it cancels every distinct POST once, during its handling.
type dropWhen struct {
	dropFirst

	ready func() bool
}

// after passes on every response. Requests that are to be dropped get no response.
func (f *dropWhen) after(*http.Request, *http.Response) cut { return everything }

// cutStreams is the rule of Proxy.CutStreams: it cuts the first event streams.
type cutStreams struct {
	pass

	mu     sync.Mutex
	left   int
	least  int
	random *rand.Rand
}

// newCutStreams returns the rule for n cuts. The same seed gives the same positions.
func newCutStreams(n, least int, seed uint64) *cutStreams {
	random := rand.New(rand.NewPCG(seed, seed)) //nolint:gosec // G404: repeatable
	return &cutStreams{left: n, least: max(1, least), random: random}
}

// after cuts the response if it is an event stream and cuts are left.
func (f *cutStreams) after(_ *http.Request, answer *http.Response) cut {
	kind, _, err := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	if err != nil || kind != "text/event-stream" {
		return everything
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.left == 0 {
		return everything
	}
	f.left--
	return cut{at: f.least + f.random.IntN(f.least), reset: f.random.IntN(2) == 0, name: "cut", spare: f.spare}
}

// spare makes an unused cut apply to the next stream.
func (f *cutStreams) spare() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.left++
}

// refuse is the rule of Proxy.Refuse: it answers the first requests without calling the service.
type refuse struct {
	pass

	mu   sync.Mutex
	left int
	with refusal
}

// before returns the refusal while refusals are left.
func (f *refuse) before() *refusal {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.left == 0 {
		return nil
	}
	f.left--
	return &f.with
}
