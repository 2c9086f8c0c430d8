package openapitest

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
)

// recordedBody is a request body that records the part that was read. A client may still be sending
// the request while its response is read. A recordedBody is safe for concurrent use.
type recordedBody struct {
	io.ReadCloser
	mu   sync.Mutex
	read bytes.Buffer
}

// Read reads from the body and records the bytes.
func (r *recordedBody) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.read.Write(p[:n])
	return n, err
}

// soFar returns the recorded part. The result is a copy.
func (r *recordedBody) soFar() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return bytes.Clone(r.read.Bytes())
}

// Serve passes a request to a handler and checks the exchange. The response is recorded completely
// before it is checked.
func Serve(tb testing.TB, h http.Handler, req *http.Request) *httptest.ResponseRecorder {
	tb.Helper()
	sent := &recordedBody{ReadCloser: http.NoBody}
	if req.Body != nil && req.Body != http.NoBody { // a wrapped empty body would be sent with an unknown length
		sent.ReadCloser = req.Body
		req.Body = sent
	}
	target, header := *req.URL, req.Header.Clone() // copied, because handlers may modify them

	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, req)
	got := rec.Body.Bytes()
	if req.Method == http.MethodHead {
		got = nil // the response to HEAD has no body
	}

	Check(tb, Exchange{
		Method: req.Method, URL: &target, RequestHeader: header, RequestBody: sent.soFar(),
		Status: rec.Code, Header: rec.Header(), Body: got,
	})
	return rec
}

// Do sends a request. It checks the exchange when the response is read to its end or closed. For a
// stream that is closed early it checks the complete events. The caller must close the response's
// body, as usual. An error of the client is returned unchecked.
func Do(tb testing.TB, client *http.Client, req *http.Request) (*http.Response, error) {
	tb.Helper()
	sent := &recordedBody{ReadCloser: http.NoBody}
	if req.Body != nil && req.Body != http.NoBody { // a wrapped empty body would be sent with an unknown length
		sent.ReadCloser = req.Body
		req.Body = sent
	}

	res, err := client.Do(req) //nolint:gosec // G704: tests call only their own server
	if err != nil {
		return nil, err
	}

	res.Body = &checkedBody{recordedBody: recordedBody{ReadCloser: res.Body}, check: func(got []byte, whole bool) {
		if !whole {
			got = wholeEvents(got)
		}
		Check(tb, Exchange{
			Method: req.Method, URL: withoutHost(req.URL), RequestHeader: req.Header, RequestBody: sent.soFar(),
			Status: res.StatusCode, Header: res.Header, Body: got,
		})
	}, stream: res.Header.Get("Content-Type") == "text/event-stream"}
	return res, nil
}

// wholeEvents removes an incomplete event at the end of a stream. It returns nil if there is no
// complete event.
func wholeEvents(stream []byte) []byte {
	const end = "\n\n"
	last := bytes.LastIndex(stream, []byte(end))
	if last < 0 {
		return nil
	}
	return stream[:last+len(end)]
}

// withoutHost returns a URL as the server sees it.
func withoutHost(u *url.URL) *url.URL {
	return &url.URL{Path: u.Path, RawPath: u.RawPath, RawQuery: u.RawQuery}
}

// checkedBody is a response body. When it ends or is closed, the exchange is checked. The exchange
// is checked at most once.
type checkedBody struct {
	recordedBody
	once sync.Once
	// Whether an early end is permitted.
	stream bool
	// Checks the exchange; whole is false if the body was not read to its end.
	check func(got []byte, whole bool)
}

// Read reads from the body, and checks the exchange at its end.
func (c *checkedBody) Read(p []byte) (int, error) {
	n, err := c.recordedBody.Read(p)
	if errors.Is(err, io.EOF) {
		c.once.Do(func() { c.check(c.soFar(), true) })
	}
	return n, err
}

// Close closes the body. A stream that was not read to its end is checked up to the last complete
// event.
func (c *checkedBody) Close() error {
	if c.stream {
		c.once.Do(func() { c.check(c.soFar(), false) })
	}
	return c.ReadCloser.Close()
}
