package faultproxy

import (
	"io"
	"maps"
	"math/rand/v2"
	"mime"
	"net/http"
	"sync"
)

// cut says where an answer ends.
type cut struct {
	at    int // bytes of the body that pass at most; 0: nothing, not even the headers; below 0: all
	reset bool
	name  string
	spare func() // called when the answer was over before
}

var everything = cut{at: -1}

// refusal is an answer of the proxy itself.
type refusal struct {
	status int
	header http.Header
	body   string
}

func (f refusal) write(w http.ResponseWriter) {
	maps.Copy(w.Header(), f.header)
	w.WriteHeader(f.status)
	_, _ = io.WriteString(w, f.body) // the client may be gone
}

// pass lets everything through.
type pass struct{}

func (pass) before() *refusal                        { return nil }
func (pass) after(*http.Request, *http.Response) cut { return everything }

// dropFirst loses the first answer to every distinct POST.
type dropFirst struct {
	pass

	mu      sync.Mutex
	dropped map[string]bool
}

func (f *dropFirst) after(r *http.Request, _ *http.Response) cut {
	if f.first(r) {
		return cut{name: "dropped"}
	}
	return everything
}

// first reports whether a request is a POST of which there was none before.
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

// dropWhen gives up every distinct POST while the service works on it.
type dropWhen struct {
	dropFirst

	ready func() bool
}

func (f *dropWhen) after(*http.Request, *http.Response) cut { return everything }

// cutStreams breaks event streams off.
type cutStreams struct {
	pass

	mu     sync.Mutex
	left   int
	least  int
	random *rand.Rand
}

func newCutStreams(n, least int, seed uint64) *cutStreams {
	return &cutStreams{left: n, least: max(1, least), random: rand.New(rand.NewPCG(seed, seed))} //nolint:gosec // G404: repeatable on purpose
}

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

// spare keeps a cut for the next stream.
func (f *cutStreams) spare() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.left++
}

// refuse answers the first requests itself.
type refuse struct {
	pass

	mu   sync.Mutex
	left int
	with refusal
}

func (f *refuse) before() *refusal {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.left == 0 {
		return nil
	}
	f.left--
	return &f.with
}
