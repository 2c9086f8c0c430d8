package browser

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"time"
)

// slowModel is the model of slow agents. It repeats the message word by word.
const slowModel = "openai/stub"

// pause is the slow model's pause before each word.
const pause = 120 * time.Millisecond

// paused makes a stub pause after each piece of an answer if the prompt contains the word "slowly".
func paused(model http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if strings.Contains(string(body), "slowly") {
			w = &pausing{w, r.Context()}
		}
		model.ServeHTTP(w, r)
	})
}

// pausing pauses after each flushed piece.
type pausing struct {
	http.ResponseWriter

	ctx context.Context //nolint:containedctx // of the request
}

// Flush sends a piece and pauses.
func (w *pausing) Flush() {
	_ = http.NewResponseController(w.ResponseWriter).Flush() // the client may have disconnected
	select {
	case <-time.After(pause):
	case <-w.ctx.Done():
	}
}
