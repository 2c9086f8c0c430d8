package httpapi

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/rs/zerolog"

	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/httpapi/openai"
	"parley/shared/apierr"
	"parley/shared/telemetry/tracing"
)

const (
	headerRequestID = "X-Request-Id" // in net/http's canonical form
	maxLoggedPath   = 200            // maximum bytes of a logged path

	statusClientClosed = 499 // logged, but never sent, if the client disconnected before the response; nginx uses the same number
)

// nosniff and noStore are header values that all responses share. They must never be changed.
// Header.Set replaces the slice, and Header.Add copies it because it has no spare capacity.
var nosniff, noStore = []string{"nosniff"}, []string{"no-store"}

// observe returns the middleware for every request. It sets the request id, recovers from panics,
// counts the request and writes its log line. It runs before the routes are selected, so it also
// covers requests without a route.
func (a *api) observe(m *metrics) gin.HandlerFunc {
	return func(c *gin.Context) {
		began := time.Now()
		m.inFlight.Inc()
		st := a.begin(c)

		// The deferred function runs after catch, so the status is that of the final response.
		defer func() {
			took := time.Since(began)
			m.inFlight.Dec()
			status := loggedStatus(c, st)
			m.count(c, status, took)
			m.countDelivery(st, status)
			m.countCut(c, st)
			annotate(c, st, status)
			a.log(c, st, status, took)
		}()
		defer catch(c)
		c.Next()
	}
}

// begin sets the request's id and trace, and the headers of every response. It also selects the
// format of errors. It is a separate function, so that its variables are not on the stack while the
// request waits. The connection is closed after the response to a chunked request and, while the
// ingress stops, after any response.
func (a *api) begin(c *gin.Context) *httpx.State {
	st := httpx.StateFor(c)
	if openai.OfV1(c) {
		st.Render = openai.FailV1
	}
	st.RequestID = requestIDFor(c.Request)
	st.Traceparent = cmp.Or(tracing.Traceparent(c.Request.Context()), traceparent(c.Request))

	header := c.Writer.Header()
	header[headerRequestID] = []string{st.RequestID}
	header["X-Content-Type-Options"], header["Cache-Control"] = nosniff, noStore
	if len(c.Request.TransferEncoding) > 0 || a.stopping() {
		// A request with both a Content-Length and chunks must be the last request of its
		// connection (RFC 9112, section 6.1). A proxy may have used the length, and would then find
		// the next request at another position. net/http drops the length, so such requests cannot
		// be recognized. The connection is therefore closed after every chunked request. While the
		// ingress stops, the connection is closed after every request, so that clients connect to
		// another ingress.
		header.Set("Connection", "close")
	}
	return st
}

// catch recovers from a panic and responds with 500 and without details. If the response has
// already begun, it closes the connection, so that the client does not take a partial response for
// a complete one. catch must be deferred directly, because it calls recover. Panics with
// http.ErrAbortHandler are passed on to net/http, which closes the connection.
func catch(c *gin.Context) {
	reason := recover()
	if reason == nil {
		return
	}
	if err, ok := reason.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(http.ErrAbortHandler)
	}

	begun := c.Writer.Written()
	httpx.StateFor(c).Panicked = true
	httpx.Fail(c, fmt.Errorf("panic: %v\n%s", reason, debug.Stack()))
	if begun {
		panic(http.ErrAbortHandler)
	}
}

// loggedStatus returns the status for the log and the metrics: the status of the response, or
// statusClientClosed if an error occurred because the client disconnected. Such an error, for
// example of a cancelled database call, is not a failure of the service. A stream that its client
// has closed has no error. A panic is always a failure of the service.
func loggedStatus(c *gin.Context, st *httpx.State) int {
	if st.Err == nil || st.Panicked || c.Request.Context().Err() == nil || stoppedByService(st.Err) {
		return c.Writer.Status()
	}
	return statusClientClosed
}

// stoppedByService reports whether an error means that the service itself has stopped reading from
// the client. The context of such a request is cancelled as if the client had disconnected. Such
// errors have a status of their own, which must be counted.
func stoppedByService(err error) bool {
	code := apierr.CodeFor(err)
	return code == apierr.Overloaded || code == apierr.RateLimited || errors.Is(err, os.ErrDeadlineExceeded)
}

// requestIDFor returns the caller's request id if it has 1 to 128 visible ASCII characters.
// Otherwise it returns a new id. The id appears in the response and in the log, so a client can
// find the log line by its own id.
func requestIDFor(req *http.Request) string {
	given := req.Header[headerRequestID]
	if len(given) == 1 && len(given[0]) >= 1 && len(given[0]) <= 128 && httpx.IsVisible(given[0]) {
		return given[0]
	}
	return rand.Text()
}

// traceparent returns the request's W3C traceparent header, or "" if the header is missing or
// malformed. Only version 00 is accepted: 00-<32 hex>-<16 hex>-<2 hex>. The result is used only if
// tracing is off; otherwise the tracer reads the header.
func traceparent(req *http.Request) string {
	given := req.Header["Traceparent"]
	if len(given) != 1 || len(given[0]) != 55 {
		return ""
	}

	parts := strings.Split(given[0], "-")
	if len(parts) != 4 || parts[0] != "00" || len(parts[1]) != 32 || len(parts[2]) != 16 {
		return ""
	}

	for _, part := range parts[1:] {
		if strings.Trim(part, "0123456789abcdef") != "" {
			return ""
		}
	}

	// The specification forbids ids that consist only of zeros.
	if strings.Trim(parts[1], "0") == "" || strings.Trim(parts[2], "0") == "" {
		return ""
	}
	return given[0]
}

// log writes a line with fixed keys for a request. The line contains no header, query or body of
// the request. If the response is an error with a code, the line contains the code and the cause,
// but not the message to the caller. Successful requests for health and metrics are logged at debug
// level. log is called once, at the end of the request.
func (a *api) log(c *gin.Context, st *httpx.State, status int, took time.Duration) {
	level := zerolog.InfoLevel
	switch {
	case status >= http.StatusInternalServerError:
		level = zerolog.ErrorLevel
	case isOperational(c.FullPath()):
		level = zerolog.DebugLevel
	}

	path := c.Request.URL.Path
	e := a.Log.WithLevel(level).Str("request_id", st.RequestID).Str("method", c.Request.Method).
		Str("path", path[:min(len(path), maxLoggedPath)]).Int("status", status).
		Int("bytes", max(0, c.Writer.Size())).Dur("took_ms", took)

	// Leave out ids that are not known, which keeps the line short.
	for _, id := range [...][2]string{
		{"org_id", st.Ident.Caller.OrganizationID},
		{"agent_id", st.AgentID},
		{"run_id", st.RunID},
		{"session_id", st.SessionID},
	} {
		if id[1] != "" {
			e = e.Str(id[0], id[1])
		}
	}

	if coded, ok := errors.AsType[*apierr.Error](st.Err); ok {
		e = e.Str("code", string(coded.Code)).AnErr("error", coded.Err)
	} else {
		e = e.AnErr("error", st.Err)
	}

	e.Msg("request")
}

// isOperational reports whether a path is for probes and monitoring. Such paths are requested
// often, and their lines would otherwise dominate the log.
func isOperational(path string) bool {
	return path == "/healthz" || path == "/readyz" || path == "/metrics"
}
