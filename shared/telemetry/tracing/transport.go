package tracing

import (
	"net/http"
	"strconv"
)

// Transport has requests to the outside traced, where their contexts carry a span: method, host and status, never the path or the
// query, which may hold secrets. Nothing of the trace leaves with them. A span ends when the answer's headers are there.
func Transport(next http.RoundTripper) http.RoundTripper { return &transport{next} }

type transport struct{ next http.RoundTripper }

// RoundTrip sends a request.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, span := Child(req.Context(), Client, req.Method, "")
	if !span.On() {
		return t.next.RoundTrip(req)
	}
	defer span.End()
	span.Str("http.request.method", req.Method)
	span.Str("server.address", req.URL.Hostname())
	span.Str("server.port", req.URL.Port())
	resp, err := t.next.RoundTrip(req.WithContext(ctx))
	if err != nil {
		span.Fail("not answered")
		return nil, err
	}
	span.Int("http.response.status_code", int64(resp.StatusCode))
	if resp.StatusCode >= http.StatusBadRequest {
		span.Fail(strconv.Itoa(resp.StatusCode))
	}
	return resp, nil
}

// CloseIdleConnections is called by the method of the same name of http.Client.
func (t *transport) CloseIdleConnections() {
	if closer, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		closer.CloseIdleConnections()
	}
}
