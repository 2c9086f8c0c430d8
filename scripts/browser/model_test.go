package browser

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"time"
)

// slowModel is the model of agents whose answers are to take seconds: it repeats the message word by word.
const slowModel = "openai/stub"

// pause is how long the slow model thinks about each word.
const pause = 120 * time.Millisecond

// paused has a model's stub pause after each piece of an answer whose prompt has the word "slowly".
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

// pausing waits with each piece that is sent on.
type pausing struct {
	http.ResponseWriter

	ctx context.Context //nolint:containedctx // of the request that is answered
}

// Flush sends a piece on, and pauses.
func (w *pausing) Flush() {
	_ = http.NewResponseController(w.ResponseWriter).Flush() // a client that has left needs nothing
	select {
	case <-time.After(pause):
	case <-w.ctx.Done():
	}
}
