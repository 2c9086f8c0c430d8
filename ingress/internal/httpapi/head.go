package httpapi

import (
	"net/http"
	"slices"
	"strconv"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/httpapi/httpx"
)

// withHead adds a route with the method HEAD for every route with GET, except for streams. The
// handler is the same: answerHead discards the body.
func withHead(routes []httpx.Route) []httpx.Route {
	out := slices.Clone(routes)
	for _, r := range routes {
		if r.Method == http.MethodGet && !r.Stream {
			r.Method = http.MethodHead
			out = append(out, r)
		}
	}
	return out
}

// answerHead responds to a HEAD request as to a GET request, but without the body. The headers are
// those of the response to GET.
func answerHead(c *gin.Context) {
	if c.Request.Method != http.MethodHead {
		return
	}

	w := &headWriter{ResponseWriter: c.Writer}
	c.Writer = w
	c.Next()
	c.Writer = w.ResponseWriter
	w.end()
}

// headWriter counts the bytes of a body instead of sending it. It is used by one goroutine.
type headWriter struct {
	gin.ResponseWriter
	length int  // number of bytes of the body
	wrote  bool // the handler has begun its response
}

// Write counts p and discards it.
func (w *headWriter) Write(p []byte) (int, error) {
	w.wrote = true
	w.length += len(p)
	return len(p), nil
}

// WriteString counts s and discards it.
func (w *headWriter) WriteString(s string) (int, error) { return w.Write([]byte(s)) }

// WriteHeaderNow sends nothing. The headers are sent at the end, when the length of the body is
// known.
func (w *headWriter) WriteHeaderNow() { w.wrote = true }

// Written reports whether the handler has written anything, although nothing was sent.
func (w *headWriter) Written() bool { return w.wrote || w.ResponseWriter.Written() }

// Flush sends nothing; see WriteHeaderNow.
func (w *headWriter) Flush() {}

// Unwrap returns the underlying writer, for http.ResponseController.
func (w *headWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// end sends the headers, with the length of the body unless the handler has set a length. end is
// called after all handlers.
func (w *headWriter) end() {
	header := w.Header()
	if header.Get("Content-Length") == "" && w.length > 0 {
		header.Set("Content-Length", strconv.Itoa(w.length))
	}
	w.ResponseWriter.WriteHeaderNow()
}
