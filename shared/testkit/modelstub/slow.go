package modelstub

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"time"

	"parley/shared/lifecycle"
)

// Slow wraps a stub. It pauses after each piece of an answer if the request's body contains the
// word "slowly".
func Slow(stub http.Handler, pause time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := ReadBody(r)
		if err != nil {
			return // the request is incomplete
		}
		if strings.Contains(body, "slowly") {
			w = &pausingWriter{w, r.Context(), pause}
		}
		stub.ServeHTTP(w, r)
	})
}

// ReadBody reads a request's body, and restores it so that a handler can read it again.
func ReadBody(r *http.Request) (string, error) {
	body, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	return string(body), err
}

// pausingWriter pauses after each flushed piece.
type pausingWriter struct {
	http.ResponseWriter

	ctx   context.Context //nolint:containedctx // of the request
	pause time.Duration
}

// Flush sends a piece and pauses.
func (w *pausingWriter) Flush() {
	_ = http.NewResponseController(w.ResponseWriter).Flush() // an error means that the client has disconnected
	_ = lifecycle.Sleep(w.ctx, w.pause)                      // an error means that the client has disconnected
}
