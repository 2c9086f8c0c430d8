package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"

	"parley/shared/outbound"
	"parley/workers/internal/tool/redact"
)

// maxRequests bounds what a session asks of HTTP: a server can have its client answer as many requests as it sends.
const maxRequests = 100

var (
	errTwice    = errors.New("the call would be sent twice")
	errRequests = errors.New("the session has made too many requests")
)

// wire carries the requests of one session.
type wire struct {
	over    context.Context //nolint:containedctx // of the session: some requests have one that never ends
	origin  string
	headers map[string]string // unsealed; for the origin only
	kept    http.RoundTripper // with connections that are used again
	fresh   http.RoundTripper // with one connection for each request: for calls
	made    atomic.Int64

	mu      sync.Mutex
	trouble error // of the newest request, nil when it went well
}

// statusError is an answer whose status says that it is none.
type statusError int

// Error names the status.
func (s statusError) Error() string { return fmt.Sprintf("status %d", int(s)) }

// RoundTrip sends one request, as http.RoundTripper has it.
func (w *wire) RoundTrip(req *http.Request) (*http.Response, error) {
	if w.made.Add(1) > maxRequests {
		if req.Body != nil {
			_ = req.Body.Close() // which a round trip always does
		}
		return nil, &outbound.Error{Message: "The server's requests exceeded the limit.", Err: errRequests}
	}
	method := methodFor(req)
	ctx, release := w.bound(req, method)
	out := req.Clone(ctx)
	if originFor(out.URL) == w.origin {
		for name, value := range w.headers {
			if out.Header.Get(name) == "" { // the protocol's own stay as they are
				out.Header.Set(name, value)
			}
		}
	}
	resp, err := w.send(out, method)
	if err != nil {
		release()
		return nil, err
	}
	resp.Body = &released{resp.Body, release}
	return resp, nil
}

func (w *wire) send(req *http.Request, method string) (*http.Response, error) {
	if d := deliveryFor(req); d != nil && method == "tools/call" {
		return d.send(w.fresh, req)
	}
	resp, err := w.kept.RoundTrip(req)
	w.note(req, resp, err)
	return resp, err
}

// bound gives the context of a request, which ends with the session; release is for when its answer was read. Only
// farewells come after a session, and the library bounds them.
func (w *wire) bound(req *http.Request, method string) (ctx context.Context, release func()) {
	if req.Method == http.MethodDelete || method == "notifications/cancelled" {
		return req.Context(), func() {}
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	stop := context.AfterFunc(w.over, func() { cancel(context.Cause(w.over)) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// released is an answer that says when it was read.
type released struct {
	io.ReadCloser

	release func()
}

// Close ends the reading.
func (r *released) Close() error {
	err := r.ReadCloser.Close()
	r.release()
	return err //nolint:wrapcheck // the body's own
}

// note remembers how the newest message to the server fared, for the library's errors do not tell.
func (w *wire) note(req *http.Request, resp *http.Response, err error) {
	if req.Method != http.MethodPost {
		return
	}
	if err == nil && resp.StatusCode >= http.StatusMultipleChoices {
		err = statusError(resp.StatusCode)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trouble = err
}

func (w *wire) lastTrouble() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.trouble
}

// methodFor tells the request tools/call from others that may be made on its way, such as one that cancels it.
func methodFor(req *http.Request) string {
	if req.Method != http.MethodPost || req.GetBody == nil {
		return ""
	}
	body, err := req.GetBody()
	if err != nil {
		return ""
	}
	defer body.Close()
	var message struct {
		Method string `json:"method"`
	}
	if json.NewDecoder(body).Decode(&message) != nil {
		return ""
	}
	return message.Method
}

type deliveryKey struct{}

func deliveryFor(req *http.Request) *delivery {
	d, _ := req.Context().Value(deliveryKey{}).(*delivery)
	return d
}

// delivery is the one request tools/call of a call, and what became of it.
type delivery struct {
	sending func(ctx context.Context) error // nil: nobody needs to know
	key     string                          // "" none
	hide    *redact.Redactor

	mu     sync.Mutex
	begun  bool
	status int
	err    error // why there was no answer, or no whole one
}

// send sends the request, unless it was sent before.
func (d *delivery) send(through http.RoundTripper, req *http.Request) (*http.Response, error) {
	if !d.begin() {
		_ = req.Body.Close()
		return nil, errTwice
	}
	ctx := req.Context()
	if d.sending != nil {
		ctx = outbound.WithSending(ctx, func(ctx context.Context) error {
			return guard(ctx, func() error { return d.sending(ctx) })
		})
	}
	if d.key != "" {
		req.Header.Set("Idempotency-Key", d.key)
	}
	resp, err := through.RoundTrip(req.WithContext(ctx))
	if err != nil {
		d.fail(err)
		return nil, err //nolint:wrapcheck // a round trip's error is the client's to wrap
	}
	d.mu.Lock()
	d.status = resp.StatusCode
	d.mu.Unlock()
	resp.Body = &watched{resp.Body, d}
	return resp, nil
}

func (d *delivery) begin() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	first := !d.begun
	d.begun = true
	return first
}

func (d *delivery) fail(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err == nil {
		d.err = err
	}
}

// watched notes why reading an answer ended early.
type watched struct {
	io.ReadCloser

	of *delivery
}

// Read reads on.
func (w *watched) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		w.of.fail(err)
	}
	return n, err //nolint:wrapcheck // io.EOF must stay what it is
}
