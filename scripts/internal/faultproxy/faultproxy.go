// Package faultproxy is an HTTP proxy for tests of clients. It runs on loopback and breaks
// connections at chosen points: after the service has executed a request but before its response
// arrives, or in the middle of an event stream.
//
//	client ──▶ http://127.0.0.1:port/<door> ──▶ proxy ──▶ service
//	client ◀──────── what the door lets through ──────────┘
//
// A door is a base URL with its own fault rule. It records the requests that it receives.
package faultproxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Proxy is a fault proxy for one service. It is safe for concurrent use.
type Proxy struct {
	tb     testing.TB
	target *url.URL
	server *httptest.Server
	client *http.Transport

	mu    sync.Mutex
	doors map[string]*Door
}

// Door is a base URL of the proxy with a fault rule. Each client of a test gets its own door, so
// that faults and records are separate.
type Door struct {
	URL string // base URL for a client, without a trailing slash

	proxy *Proxy
	rule  rule

	mu     sync.Mutex
	asked  []Request
	faults int
}

// Request is a request that a client sent through a door.
type Request struct {
	Method, Path   string // path with query, without the door's prefix
	IdempotencyKey string
	LastEventID    string
	Fault          string // name of the fault that was applied, or ""
}

// rule selects the fault for a request.
type rule interface {
	// before returns a response that the door sends without calling the service, or nil.
	before() *refusal
	// after decides how much of the service's response the client receives.
	after(r *http.Request, answer *http.Response) cut
}

// Start starts a proxy for the service at a base URL. The proxy stops when the test ends.
func Start(tb testing.TB, target string) *Proxy {
	tb.Helper()
	to, err := url.Parse(target)
	if err != nil || to.Host == "" {
		tb.Fatalf("faultproxy: %q is not a base URL: %v", target, err)
	}

	// Each request to the service uses its own connection, so that a fault affects no other
	// request. Compression is off, because a chosen byte of the text has no position in a
	// compressed body.
	p := &Proxy{tb: tb, target: to, client: &http.Transport{DisableKeepAlives: true, DisableCompression: true}, doors: map[string]*Door{}}
	p.server = httptest.NewServer(p)
	tb.Cleanup(func() {
		p.server.CloseClientConnections()
		p.server.Close()
	})
	return p
}

// Pass returns a door that only records requests.
func (p *Proxy) Pass() *Door { return p.door(pass{}) }

// DropFirst returns a door that loses the first response to every distinct POST (by method, path
// and Idempotency-Key). It closes the connection after the service has responded and before it
// sends any byte to the client. It passes on all later responses.
func (p *Proxy) DropFirst() *Door { return p.door(&dropFirst{dropped: map[string]bool{}}) }

// DropWhen returns a door that, like DropFirst, closes the connection of every distinct POST once,
// but before the service has responded. While the service handles the request, the door calls ready
// every few milliseconds. It closes the connection when ready returns true.
func (p *Proxy) DropWhen(ready func() bool) *Door {
	return p.door(&dropWhen{dropFirst: dropFirst{dropped: map[string]bool{}}, ready: ready})
}

// CutStreams returns a door that cuts the first n event streams in the middle of a frame. The seed
// selects the position of each cut, in bytes. The position is at least the argument after and less
// than twice as much. Half of the cuts close the connection gracefully, and the other half reset
// it.
func (p *Proxy) CutStreams(n, after int, seed uint64) *Door {
	return p.door(newCutStreams(n, after, seed))
}

// Refuse returns a door that answers the first n requests itself, with the given status, header and
// body. The service does not receive these requests.
func (p *Proxy) Refuse(n, status int, header http.Header, body string) *Door {
	return p.door(&refuse{left: n, with: refusal{status: status, header: header, body: body}})
}

// door adds a door with a rule. Its URL stays valid until the proxy stops.
func (p *Proxy) door(with rule) *Door {
	p.mu.Lock()
	defer p.mu.Unlock()
	name := "door-" + strconv.Itoa(len(p.doors)+1)
	d := &Door{URL: p.server.URL + "/" + name, proxy: p, rule: with}
	p.doors[name] = d
	return d
}

// Faults returns the number of requests to which the door applied a fault.
func (d *Door) Faults() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.faults
}

// Requests returns the requests that the door has received, in the order of their arrival.
func (d *Door) Requests() []Request {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.asked)
}

// Sent returns the requests with the given method and path, and any query.
func (d *Door) Sent(method, path string) []Request {
	return slices.DeleteFunc(d.Requests(), func(r Request) bool {
		bare, _, _ := strings.Cut(r.Path, "?")
		return r.Method != method || bare != path
	})
}

// ServeHTTP finds the door in the request's path and applies the door's rule.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.EscapedPath(), "/"), "/")
	p.mu.Lock()
	d := p.doors[name]
	p.mu.Unlock()
	if d == nil {
		http.Error(w, "faultproxy: no such listener: "+name, http.StatusNotFound)
		return
	}
	d.serve(w, r, "/"+rest)
}

// serve passes a request on to the service and the response to the client, as far as the door's
// rule allows. It records the fault before the client can notice it.
func (d *Door) serve(w http.ResponseWriter, r *http.Request, path string) {
	if r.URL.RawQuery != "" {
		path += "?" + r.URL.RawQuery
	}

	// Otherwise the server closes the request's body at the first write of the response. The client
	// that forwards the request may still be looking for the end of the body, and would then close
	// its connection to the service.
	if err := http.NewResponseController(w).EnableFullDuplex(); err != nil {
		d.proxy.tb.Errorf("faultproxy: %v", err)
	}

	n := d.record(r, path)
	if refused := d.rule.before(); refused != nil {
		d.fault(n, "refused")
		refused.write(w)
		return
	}

	r, unwatch := d.watch(r)
	answer, err := d.forward(r, path)
	if unwatch() {
		if err == nil {
			_ = answer.Body.Close() // the response arrived just as the request was canceled
		}
		d.fault(n, "dropped")
		hangUp(w, false)
		return
	}
	if err != nil {
		if r.Context().Err() == nil { // otherwise the client has left
			d.proxy.tb.Logf("faultproxy: %s %s: %v", r.Method, path, err)
			http.Error(w, "faultproxy: "+err.Error(), http.StatusBadGateway)
		}
		return
	}
	defer answer.Body.Close()

	made := d.rule.after(r, answer)
	broken := func(err error) {
		if r.Context().Err() == nil { // otherwise the client has left
			d.proxy.tb.Logf("faultproxy: the service broke off its response to %s %s: %v", r.Method, path, err)
		}
	}

	strikes := func() { d.fault(n, made.name) } // records the fault before the client can notice it
	if !deliver(w, answer, made, strikes, broken) && made.spare != nil {
		made.spare()
	}
}

// watch cancels a request while the service handles it, if the door's rule requires that. The
// returned function unwatch ends the watch and reports whether watch has canceled the request.
func (d *Door) watch(r *http.Request) (watched *http.Request, unwatch func() bool) {
	rule, ok := d.rule.(*dropWhen)
	if !ok || !rule.first(r) {
		return r, func() bool { return false }
	}

	ctx, giveUp := context.WithCancel(r.Context())
	stop, gaveUp := make(chan struct{}), make(chan bool, 1)
	go func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for !rule.ready() {
			select {
			case <-stop:
				gaveUp <- false
				return
			case <-tick.C:
			}
		}
		giveUp()
		gaveUp <- true
	}()

	return r.WithContext(ctx), func() bool {
		close(stop)
		return <-gaveUp
	}
}

// record records a request and returns its number.
func (d *Door) record(r *http.Request, path string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked = append(d.asked, Request{
		Method: r.Method, Path: path, IdempotencyKey: r.Header.Get("Idempotency-Key"), LastEventID: r.Header.Get("Last-Event-ID"),
	})
	return len(d.asked) - 1
}

// fault records the fault that was applied to request n.
func (d *Door) fault(n int, name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked[n].Fault = name
	d.faults++
}

// forward sends the request to the service and returns the response, whose body is not read yet.
func (d *Door) forward(r *http.Request, path string) (*http.Response, error) {
	address := d.proxy.target.String() + path
	out, err := http.NewRequestWithContext(r.Context(), r.Method, address, r.Body) //nolint:gosec // G704: a test's own service
	if err != nil {
		return nil, fmt.Errorf("creating request: %w", err)
	}

	out.Header = r.Header.Clone()
	out.Header.Del("Connection")
	out.ContentLength = r.ContentLength
	if r.ContentLength == 0 {
		out.Body = nil
	}

	answer, err := d.proxy.client.RoundTrip(out)
	if err != nil {
		return nil, fmt.Errorf("calling the service: %w", err)
	}
	return answer, nil
}

// deliver sends the part of the response that the cut allows, and reports whether it cut the
// response. It calls strikes immediately before a cut. It calls broken if the service itself breaks
// off the response.
func deliver(w http.ResponseWriter, answer *http.Response, made cut, strikes func(), broken func(error)) (struck bool) {
	if made.at == 0 {
		strikes()
		hangUp(w, made.reset)
		return true
	}

	for name, values := range answer.Header {
		if name != "Connection" && name != "Transfer-Encoding" {
			w.Header()[name] = values
		}
	}

	w.WriteHeader(answer.StatusCode)
	flush(w)
	passed, last := 0, byte(0)
	buffer := make([]byte, 4<<10)
	for {
		n, err := answer.Body.Read(buffer)
		piece := buffer[:n]
		strike := made.at > 0 && passed+n >= made.at // decided before the bytes are sent, because sent bytes cannot be withdrawn
		if strike {
			piece = inFrame(piece[:made.at-passed], last)
		}
		if _, gone := w.Write(piece); gone != nil {
			return false
		}
		flush(w)
		switch {
		case strike:
			strikes()
			hangUp(w, made.reset)
			return true
		case errors.Is(err, io.EOF):
			return false
		case err != nil:
			broken(fmt.Errorf("the connection broke after %d bytes: %w", passed+n, err))
			hangUp(w, false) // the service broke off the response, so the proxy breaks it off, too
			return false
		}
		passed += n
		if n > 0 {
			last = piece[n-1]
		}
	}
}

// inFrame returns a piece without its final newlines if the piece would otherwise end with a
// complete frame.
func inFrame(piece []byte, before byte) []byte {
	for len(piece) > 0 && piece[len(piece)-1] == '\n' && (len(piece) > 1 && piece[len(piece)-2] == '\n' || len(piece) == 1 && before == '\n') {
		piece = piece[:len(piece)-1]
	}
	return piece
}

// flush sends the part of the response that was written so far.
func flush(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() } // an error means that the client has left

// hangUp closes the client's connection gracefully or with a reset, even in the middle of a
// response.
func hangUp(w http.ResponseWriter, reset bool) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // for a connection that cannot be hijacked
	}
	if tcp, ok := conn.(*net.TCPConn); ok && reset {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}
