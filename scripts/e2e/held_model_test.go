package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	quick      = "quick"          // prefix of the messages that a heldModel answers at once
	pieceEvery = 10 * time.Second // less than the maximum silence of a model, which is 30 s
)

// The events of an answer: each piece, and the end.
var (
	heldPiece = heldEvent(`{"role":"assistant","content":"piece "},"finish_reason":null`)
	heldEnd   = heldEvent(`{},"finish_reason":"stop"`) + "data: [DONE]\n\n"
)

func heldEvent(choice string) string {
	return `data: {"id":"chatcmpl-held","object":"chat.completion.chunk","created":1750000000,"model":"held","choices":[{"index":0,"delta":` +
		choice + "}]}\n\n"
}

// heldModel is a model provider that begins each answer at once, and completes it only when the
// test releases it. It records the calls of each message.
type heldModel struct {
	url string // for OPENAI_BASE_URL

	mu       sync.Mutex
	calls    map[string]*heldCalls
	order    []string // messages in the order of their first calls
	open     int      // number of answers in progress
	last     time.Time
	released chan struct{} // closed when all answers are released
}

// heldCalls contains the calls with one message.
type heldCalls struct {
	began, answered int
	released        chan struct{} // closed when the answers are released
}

func newHeldModel(t *testing.T) *heldModel {
	t.Helper()
	m := &heldModel{calls: map[string]*heldCalls{}, released: make(chan struct{})}
	server := httptest.NewServer(m)
	t.Cleanup(server.Close)
	t.Cleanup(m.releaseAll) // before Close, which waits for the calls
	m.url = server.URL + "/v1"
	return m
}

// ServeHTTP answers one call.
func (m *heldModel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var request struct {
		Messages []struct {
			Role    string `json:"role"`
			Content string `json:"content"`
		} `json:"messages"`
	}
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil || len(request.Messages) == 0 {
		http.Error(w, fmt.Sprint("cannot read the request: ", err), http.StatusBadRequest)
		return
	}
	message := request.Messages[len(request.Messages)-1].Content

	w.Header().Set("Content-Type", "text/event-stream")
	if strings.HasPrefix(message, quick) {
		_, _ = io.WriteString(w, heldPiece+heldEnd) // without a reader, there is nothing to do
		return
	}
	of := m.begin(message)
	complete := m.hold(w, r, of)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open--
	if complete {
		of.answered++
	}
}

// begin records a call and returns all calls with the same message.
func (m *heldModel) begin(message string) *heldCalls {
	m.mu.Lock()
	defer m.mu.Unlock()
	of := m.calls[message]
	if of == nil {
		of = &heldCalls{released: make(chan struct{})}
		m.calls[message] = of
		m.order = append(m.order, message)
	}
	of.began++
	m.open++
	m.last = time.Now()
	return of
}

// hold sends pieces of an answer until the answer is released, and then the answer's end. It
// returns false if the worker closes the connection before the release.
func (m *heldModel) hold(w http.ResponseWriter, r *http.Request, of *heldCalls) bool {
	flush := http.NewResponseController(w).Flush
	tick := time.NewTicker(pieceEvery)
	defer tick.Stop()
	for {
		_, _ = io.WriteString(w, heldPiece) // a broken connection ends the request's context
		_ = flush()
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return false
		case <-m.released:
			return writeEnd(w)
		case <-of.released:
			return writeEnd(w)
		}
	}
}

func writeEnd(w io.Writer) bool {
	_, err := io.WriteString(w, heldEnd)
	return err == nil
}

// release completes the answers to messages.
func (m *heldModel) release(messages ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, message := range messages {
		close(m.calls[message].released)
	}
}

// releaseAll completes all answers, and holds no later ones. It may be called more than once.
func (m *heldModel) releaseAll() {
	m.mu.Lock()
	defer m.mu.Unlock()
	select {
	case <-m.released:
	default:
		close(m.released)
	}
}

// inProgress returns the number of answers in progress.
func (m *heldModel) inProgress() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.open
}

// called returns the number of messages with at least n calls, and the time of the last call of any
// message.
func (m *heldModel) called(n int) (messages int, last time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, of := range m.calls {
		if of.began >= n {
			messages++
		}
	}
	return messages, m.last
}

// since returns the messages in the order of their first calls, without the first n messages.
func (m *heldModel) since(n int) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]string(nil), m.order[n:]...)
}

// check reports each message that does not have exactly the given number of calls and one complete
// answer.
func (m *heldModel) check(t *testing.T, calls int) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	for message, of := range m.calls {
		if of.began != calls || of.answered != 1 {
			t.Errorf("%d model calls of %q with %d complete answers, want %d and 1", of.began, message, of.answered, calls)
		}
	}
}
