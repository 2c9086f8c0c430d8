package e2e

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/shared/testkit/openaistub"
)

// modelName is the name of the model whose calls the ledger answers.
const modelName = "openai/ledger"

// headerCall is a request header with the index of a call in the ledger. ServeHTTP sets it. The
// stub then calls the method (*ledger).name, which reads the header from the prompt.
const headerCall = "X-Ledger-Call"

// ledger is the model provider of a cluster. It records every call.
type ledger struct {
	stub *openaistub.Server
	url  string // for OPENAI_BASE_URL

	mu      sync.Mutex
	calls   []call
	delays  map[string][]time.Duration
	scripts []func(openaistub.Request) (openaistub.Reply, bool)
}

// call is one model call. The field ended is zero while the call is in progress. Afterwards, it is
// the time of the last piece of the answer or, without an answer, the time at which the call was
// aborted. If the worker closed the connection during the call, the field closed is the time at
// which the call ended; otherwise it is zero.
type call struct {
	prompt               string
	began, ended, closed time.Time
}

func newLedger(t *testing.T) *ledger {
	t.Helper()
	l := &ledger{stub: openaistub.New(), delays: map[string][]time.Duration{}}
	l.stub.Respond(l.name)
	server := httptest.NewServer(l)
	t.Cleanup(server.Close)
	l.url = server.URL + "/v1"
	return l
}

// ServeHTTP records the beginning and the end of a call. The stub answers the call.
func (l *ledger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	n := len(l.calls)
	l.calls = append(l.calls, call{began: time.Now()})
	l.mu.Unlock()
	answer := &timedWriter{ResponseWriter: w}
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.calls[n].ended = answer.last
		if answer.last.IsZero() {
			l.calls[n].ended = time.Now() // the call was aborted without an answer
		}
		if r.Context().Err() != nil {
			l.calls[n].closed = time.Now()
		}
	}()

	r.Header.Set(headerCall, strconv.Itoa(n))
	l.stub.ServeHTTP(answer, r)
}

// timedWriter records the time just before each piece of an answer is sent. A time after the send
// would be too late, because the client may act on a piece before the sending call returns.
type timedWriter struct {
	http.ResponseWriter

	last time.Time
}

// Write sends a piece.
func (w *timedWriter) Write(piece []byte) (int, error) {
	w.last = time.Now()
	return w.ResponseWriter.Write(piece)
}

// Flush sends buffered data.
func (w *timedWriter) Flush() {
	w.last = time.Now()
	_ = http.NewResponseController(w.ResponseWriter).Flush() // the client may have disconnected
}

// answerAfter sets the answers to the next calls with a prompt: "answer 1" after the first delay,
// "answer 2" after the second, and so on. Later calls follow the stub's rules.
func (l *ledger) answerAfter(prompt string, delays ...time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delays[prompt] = delays
}

// follow installs a script, a function that is called first to answer each call. If the script
// returns false, the other rules apply.
func (l *ledger) follow(script func(openaistub.Request) (openaistub.Reply, bool)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.scripts = append(l.scripts, script)
}

// name records a call's prompt, and returns the answer that a test has set for the call. If no test
// has set an answer, it returns false, and the stub's rules apply.
func (l *ledger) name(req openaistub.Request) (openaistub.Reply, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()

	nth := 1
	for _, c := range l.calls {
		if c.prompt == req.Prompt() {
			nth++
		}
	}

	if n, err := strconv.Atoi(req.Header[headerCall]); err == nil && n < len(l.calls) {
		l.calls[n].prompt = req.Prompt()
	}

	for _, script := range l.scripts {
		if reply, ok := script(req); ok {
			return reply, true
		}
	}

	delays := l.delays[req.Prompt()]
	if nth > len(delays) {
		return openaistub.Reply{}, false
	}
	return openaistub.Reply{Text: "answer " + strconv.Itoa(nth), Delay: delays[nth-1]}, true
}

// of returns the calls with any of the given prompts, in the order in which they began.
func (l *ledger) of(prompts ...string) []call {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []call
	for _, c := range l.calls {
		if slices.Contains(prompts, c.prompt) {
			found = append(found, c)
		}
	}
	return found
}

// count returns the number of calls with a prompt.
func (l *ledger) count(prompt string) int { return len(l.of(prompt)) }

// awaitCalls waits until there have been n calls with a prompt.
func (l *ledger) awaitCalls(t *testing.T, prompt string, n int) {
	t.Helper()
	eventually(t, 30*time.Second, strconv.Itoa(n)+" model calls of "+strconv.Quote(prompt), func() bool { return l.count(prompt) >= n })
}

// countBeyond returns the number of calls that began while at least window other calls were in
// progress.
func countBeyond(calls []call, window int) int {
	over := 0
	for _, c := range calls {
		open := 0 // number of calls in progress, including the call itself
		for _, other := range calls {
			if !other.began.After(c.began) && (other.ended.IsZero() || other.ended.After(c.began)) {
				open++
			}
		}
		if open > window {
			over++
		}
	}
	return over
}

// historyFor returns all messages that the latest call with a prompt contained.
func (l *ledger) historyFor(prompt string) string {
	requests := l.stub.Requests()
	for _, req := range slices.Backward(requests) {
		if req.Prompt() == prompt {
			var text strings.Builder
			for _, m := range req.Messages {
				text.WriteString(m.Role + ": " + m.Content + "\n")
			}
			return text.String()
		}
	}
	return ""
}
