package browser

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// slowModel is the model of agents that answer slowly. It repeats the message word by word.
const slowModel = "openai/stub"

// pause is the slow model's pause before each word.
const pause = 120 * time.Millisecond

// paused wraps a stub model. It pauses after each piece of an answer if the request's body contains
// the word "slowly".
func paused(model http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := bodyOf(r)
		if err != nil {
			return
		}
		if strings.Contains(body, "slowly") {
			w = &pausing{w, r.Context()}
		}
		model.ServeHTTP(w, r)
	})
}

// bodyOf reads a request's body, and restores it so that a handler can read it again.
func bodyOf(r *http.Request) (string, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return "", fmt.Errorf("reading the request: %w", err)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return string(body), nil
}

// pausing pauses after each flushed piece.
type pausing struct {
	http.ResponseWriter

	ctx context.Context //nolint:containedctx // of the request
}

// Flush sends a piece and pauses.
func (w *pausing) Flush() {
	_ = http.NewResponseController(w.ResponseWriter).Flush() // an error means that the client has disconnected
	select {
	case <-time.After(pause):
	case <-w.ctx.Done():
	}
}
