package model

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// Models of a PacedProvider. All of them stream the same answer of 50 pieces.
const (
	Paced     = "paced"     // takes 1.1 s, unless the provider has another pace
	Slow      = "slow"      // takes 90 s
	Suspended = "suspended" // while the provider holds its answers, stops after half of the pieces
)

// OpenAI is the prefix of these models' names in the configuration of an agent.
const OpenAI = "openai/"

const (
	pieceCount = 50
	thinking   = 100 * time.Millisecond // delay before the first piece
	slowEvery  = 1800 * time.Millisecond
	maxRequest = 1 << 20
)

// Answer is the answer that a PacedProvider streams.
var Answer = func() string {
	var b strings.Builder
	for n := range pieceCount {
		b.WriteString(pieceText(n))
	}
	return b.String()
}()

// pieceText returns the text of a piece. All pieces have the same length.
func pieceText(n int) string { return fmt.Sprintf(" word%02d", n) }

// frames are the bytes that a PacedProvider sends: one element per piece, then the end of the
// answer.
var frames = func() (out [pieceCount + 1]string) {
	const chunk = `data: {"id":"chatcmpl-bench","object":"chat.completion.chunk","created":1750000000,"model":"bench","choices":[%s],"usage":%s}` + "\n\n"
	for n := range pieceCount {
		out[n] = fmt.Sprintf(chunk, fmt.Sprintf(`{"index":0,"delta":{"role":"assistant","content":%q},"finish_reason":null}`, pieceText(n)), "null")
	}
	out[pieceCount] = fmt.Sprintf(chunk, `{"index":0,"delta":{},"finish_reason":"stop"}`, "null") +
		fmt.Sprintf(chunk, "", fmt.Sprintf(`{"prompt_tokens":20,"completion_tokens":%d,"total_tokens":%d}`, pieceCount, 20+pieceCount)) +
		"data: [DONE]\n\n"
	return out
}()

// PacedProvider is a model provider. The model in the request determines how fast the provider
// streams the answer. The provider writes prepared bytes, which takes little CPU time.
type PacedProvider struct {
	provider

	pace   map[string]time.Duration // time between two pieces, by model
	active atomic.Int64
}

// PieceEvery is the time between two pieces in an answer that takes 1.1 s.
const PieceEvery = 20 * time.Millisecond

// AnswerTime returns the duration of an answer. The argument every is the time between two pieces.
func AnswerTime(every time.Duration) time.Duration { return thinking + pieceCount*every }

// StartPaced starts a provider that does not hold its answers. The parameter every is the time
// between two pieces of the model Paced.
func StartPaced(every time.Duration) *PacedProvider {
	p := &PacedProvider{
		provider: provider{gate: newGate()},
		pace:     map[string]time.Duration{Paced: every, Slow: slowEvery, Suspended: PieceEvery},
	}
	p.server = serve(p)
	return p
}

// Active returns the number of slow and suspended answers in progress.
func (p *PacedProvider) Active() int { return int(p.active.Load()) }

// ServeHTTP streams an answer to a request to OpenAI's Chat Completions API.
func (p *PacedProvider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var request struct {
		Model string `json:"model"`
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err == nil {
		err = json.Unmarshal(body, &request)
	}
	every, known := p.pace[request.Model]
	if err != nil || !known {
		http.Error(w, fmt.Sprintf("model %q: %v", request.Model, err), http.StatusBadRequest)
		return
	}
	if request.Model != Paced {
		p.active.Add(1)
		defer p.active.Add(-1)
	}

	w.Header().Set("Content-Type", "text/event-stream")
	p.stream(w, r, request.Model, every)
}

// stream sends each piece when it is due. After Release, the remaining pieces of slow and suspended
// answers follow without a pause.
func (p *PacedProvider) stream(w http.ResponseWriter, r *http.Request, model string, every time.Duration) {
	released := p.opened()
	if model == Paced {
		released = nil // the model Paced ignores Release
	}
	flush := http.NewResponseController(w).Flush
	due := time.Now().Add(thinking)
	timer := time.NewTimer(thinking)
	defer timer.Stop()
	for n, frame := range frames {
		wait := timer.C
		if model == Suspended && n >= pieceCount/2 {
			wait = nil // the answer continues only after Release
		}
		select {
		case <-wait:
		case <-released:
		case <-r.Context().Done():
			return
		}

		// If the client disconnects, the request's context ends, so errors of writes need no check.
		_, _ = io.WriteString(w, frame)
		_ = flush()
		if n+2 < len(frames) { // the end of the answer follows the last piece without a pause
			due = due.Add(every)
		}
		timer.Reset(time.Until(due))
	}
}
