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

// maxRequests limits the HTTP requests of a session, because a server can cause its client to send
// any number of requests.
const maxRequests = 100

var (
	// errTwice is the error of a repeated tools/call request, which could cause a second side
	// effect.
	errTwice = errors.New("the call would be sent twice")
	// errRequests is the error of a request beyond maxRequests.
	errRequests = errors.New("the session has made too many requests")
)

// wire is the HTTP transport of one session. It adds the headers of the server, counts the
// requests, and sends tools/call at most once. It is safe for concurrent use.
type wire struct {
	sessionCtx context.Context //nolint:containedctx // the session's context; some requests have a context that never ends
	origin     string
	headers    map[string]string // decrypted headers, which are sent only to the configured origin
	kept       http.RoundTripper // transport that reuses connections
	fresh      http.RoundTripper // transport that opens a new connection for each request; used for calls
	// made is the number of requests so far.
	made atomic.Int64

	mu      sync.Mutex
	httpErr error // error of the latest request, or nil
}

// statusError is a response with an error status.
type statusError int

// Error returns the status as text.
func (s statusError) Error() string { return fmt.Sprintf("status %d", int(s)) }

// RoundTrip sends a request; see http.RoundTripper. It fails beyond maxRequests. Most requests also
// end when the session's context ends; see bound.
func (w *wire) RoundTrip(req *http.Request) (*http.Response, error) {
	if w.made.Add(1) > maxRequests {
		if req.Body != nil {
			_ = req.Body.Close() // a RoundTripper must close the body
		}
		return nil, &outbound.Error{Message: "The server's requests exceeded the limit.", Err: errRequests}
	}

	// The JSON-RPC method determines which context ends the request and which connection it uses.
	method := methodFor(req)
	ctx, release := w.bound(req, method)

	// Secrets are sent only to the configured origin, even if the library requests another address.
	out := req.Clone(ctx)
	if originFor(out.URL) == w.origin {
		for name, value := range w.headers {
			if out.Header.Get(name) == "" { // headers that the protocol sets are kept
				out.Header.Set(name, value)
			}
		}
	}

	resp, err := w.send(out, method)
	if err != nil {
		release()
		return nil, err
	}
	// The context must live until the body has been read.
	resp.Body = &releasingBody{resp.Body, release}
	return resp, nil
}

// send uses a new connection for the tool call. For any other request, it records the outcome.
func (w *wire) send(req *http.Request, method string) (*http.Response, error) {
	if d := deliveryFor(req); d != nil && method == "tools/call" {
		return d.send(w.fresh, req)
	}
	resp, err := w.kept.RoundTrip(req)
	w.note(req, resp, err)
	return resp, err
}

// bound returns the context for sending a request. This context also ends when the session ends,
// except for a request that closes the session or cancels a call. The library limits the time of
// these requests. release must be called when the response has been read.
func (w *wire) bound(req *http.Request, method string) (ctx context.Context, release func()) {
	// A request that ends the session or cancels a call must not be cancelled together with the
	// session.
	if req.Method == http.MethodDelete || method == "notifications/cancelled" {
		return req.Context(), func() {}
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	stop := context.AfterFunc(w.sessionCtx, func() { cancel(context.Cause(w.sessionCtx)) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// releasingBody is a response body that calls release when it is closed.
type releasingBody struct {
	io.ReadCloser

	release func()
}

// Close closes the body and calls release.
func (r *releasingBody) Close() error {
	err := r.ReadCloser.Close()
	r.release()
	return err //nolint:wrapcheck // the body's own error
}

// note records the outcome of the latest request, because the errors of the library do not contain
// it.
func (w *wire) note(req *http.Request, resp *http.Response, err error) {
	// Only POST requests carry messages.
	if req.Method != http.MethodPost {
		return
	}
	if err == nil && resp.StatusCode >= http.StatusMultipleChoices {
		err = statusError(resp.StatusCode)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.httpErr = err
}

// lastHTTPErr returns the error of the latest POST request, or nil.
func (w *wire) lastHTTPErr() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.httpErr
}

// methodFor returns the JSON-RPC method of a request, or "". During a call, requests with other
// methods than tools/call are sent, too, for example to cancel the call.
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

// deliveryKey is the context key for the delivery of a call.
type deliveryKey struct{}

// deliveryFor returns the delivery of the call to which a request belongs, or nil.
func deliveryFor(req *http.Request) *delivery {
	d, _ := req.Context().Value(deliveryKey{}).(*delivery)
	return d
}

// delivery is the HTTP request that contains tools/call, and its outcome. It belongs to one call of
// the tool. The transport sets the outcome, and explain reads it in another goroutine.
type delivery struct {
	sending  func(ctx context.Context) error // nil if the call has no entry in the effect ledger
	key      string                          // effect key; "": none
	redactor *redact.Redactor

	mu sync.Mutex
	// True if the request was passed to the transport.
	begun bool
	// Status of the response, or 0 if there is none.
	status int
	err    error // reason why the response is missing or incomplete
}

// send sends the request through the given transport. A second call fails with errTwice, so the
// tool is never called twice. An error of the function sending means that nothing was sent.
func (d *delivery) send(through http.RoundTripper, req *http.Request) (*http.Response, error) {
	if !d.begin() {
		_ = req.Body.Close()
		return nil, errTwice
	}

	// The function sending runs just before the first byte is sent. If it fails, nothing is sent.
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
		return nil, err //nolint:wrapcheck // the HTTP client wraps a round trip's error
	}

	d.mu.Lock()
	// The lock is needed because explain runs in another goroutine.
	d.status = resp.StatusCode
	d.mu.Unlock()
	resp.Body = &watchedBody{resp.Body, d}
	return resp, nil
}

// begin returns true only for its first call.
func (d *delivery) begin() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	first := !d.begun
	d.begun = true
	return first
}

// fail records the first error.
func (d *delivery) fail(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err == nil {
		d.err = err
	}
}

// watchedBody is a response body that records an error of Read.
type watchedBody struct {
	io.ReadCloser

	of *delivery
}

// Read reads from the body.
func (w *watchedBody) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		w.of.fail(err)
	}
	return n, err //nolint:wrapcheck // callers compare with io.EOF, which must not be wrapped
}
