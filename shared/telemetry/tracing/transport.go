package tracing

import (
	"net/http"
	"strconv"
)

// Transport traces outbound requests whose contexts have a span. The trace contains a request's
// method, host and status, but not its path or query, which may contain secrets. No trace context
// is sent to the host. A span ends when the response headers have arrived.
func Transport(next http.RoundTripper) http.RoundTripper { return &transport{next} }

// transport implements Transport.
type transport struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
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

// CloseIdleConnections is called by the method of http.Client that has the same name.
func (t *transport) CloseIdleConnections() {
	if closer, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		closer.CloseIdleConnections()
	}
}
