package scripted

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"parley/workers/internal/llm"
)

// ErrOver is the error of a call after the end of the script.
var ErrOver = errors.New("the script has no more answers")

// Call is the outcome of one model call in a script.
type Call struct {
	Deltas    []string // emitted in order; concatenated, they are the text of the answer
	ToolCalls []llm.ToolCall
	Usage     llm.Usage
	Stop      llm.StopReason // default: StopToolCalls if there are tool calls, otherwise StopEnd
	Err       error          // error that the call returns after the deltas, instead of an answer
	Hang      bool           // if true, the call waits after the deltas until the context ends
}

// Model follows its script: each call has the next outcome. After the last outcome, every call
// fails with ErrOver, unless the function Forever has created the model. It is safe for concurrent
// use.
type Model struct {
	name     string
	mu       sync.Mutex
	calls    []Call
	requests []llm.Request
	// last is true if the last outcome repeats forever.
	last bool
}

// New returns a model with a script of these outcomes, in order.
func New(name string, calls ...Call) *Model { return &Model{name: name, calls: calls} }

// Forever returns a model whose calls all have the same outcome.
func Forever(name string, call Call) *Model {
	return &Model{name: name, calls: []Call{call}, last: true}
}

// Info returns the model's name and a context size of 100,000 tokens.
func (m *Model) Info() llm.Info { return llm.Info{Name: m.name, ContextTokens: 100_000} }

// Requests returns the requests of all calls so far, in the order of the calls.
func (m *Model) Requests() []llm.Request {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.requests)
}

// Stream emits and returns the next outcome of the script; see [llm.Model].
func (m *Model) Stream(ctx context.Context, req llm.Request, emit func(llm.Delta)) (llm.Response, error) {
	if err := ctx.Err(); err != nil {
		return llm.Response{}, fmt.Errorf("playing script: %w", err)
	}
	call, err := m.next(req)
	if err != nil {
		return llm.Response{}, err
	}

	res := llm.Response{ToolCalls: slices.Clone(call.ToolCalls), Usage: call.Usage, Model: m.name, StopReason: call.Stop}
	for _, text := range call.Deltas {
		if err := ctx.Err(); err != nil {
			return llm.Response{}, fmt.Errorf("playing script: %w", err)
		}
		res.Text += text
		emit(llm.Delta{Text: text})
	}

	// Emit the deltas even if the call then waits or fails.
	switch {
	case call.Hang:
		<-ctx.Done()
		return llm.Response{}, fmt.Errorf("playing script: %w", ctx.Err())
	case call.Err != nil:
		return llm.Response{}, call.Err
	case res.StopReason == "" && len(res.ToolCalls) > 0:
		res.StopReason = llm.StopToolCalls
	case res.StopReason == "":
		res.StopReason = llm.StopEnd
	}
	return res, nil
}

// next stores a request and returns the outcome of its call. It copies the messages, because the
// caller may change them after the call.
func (m *Model) next(req llm.Request) (Call, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	req.Messages = slices.Clone(req.Messages)
	m.requests = append(m.requests, req)
	if len(m.calls) == 0 {
		return Call{}, ErrOver
	}
	call := m.calls[0]
	if !m.last {
		m.calls = m.calls[1:]
	}
	return call, nil
}
