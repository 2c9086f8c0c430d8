package llmtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/workers/internal/llm"
)

// promptly is the time within which a cancelled call must return, even on a slow machine.
const promptly = 5 * time.Second

// Subject is an implementation of llm.Model under test.
type Subject struct {
	// New returns a model that answers any question with text and without tool calls.
	New func(t *testing.T) llm.Model
	// Deterministic reports whether equal requests always have equal answers.
	Deterministic bool
	// NewSlow returns a model that emits some text and then waits until it is cancelled. NewSlow is
	// nil if the implementation has no such model.
	NewSlow func(t *testing.T) llm.Model
}

// Run tests an implementation against the contract of [llm.Model].
func Run(t *testing.T, s Subject) {
	t.Helper()
	t.Run("the concatenated deltas are the text", s.deltas)
	t.Run("info and usage", s.infoAndUsage)
	t.Run("a cancelled context ends the call", s.doneContext)
	t.Run("cancelling while streaming", s.cancelStreaming)
	t.Run("cancelling while waiting", s.cancelWaiting)
	t.Run("the same request twice", s.deterministic)
	t.Run("many simultaneous calls", s.concurrent)
	t.Run("the request is unchanged", s.requestUntouched)
}

// Request returns a prompt with every kind of content that a model must support: history, tool
// results and data.
func Request() llm.Request {
	return llm.Request{
		System: "You answer briefly.",
		Messages: []llm.Message{
			{Role: llm.RoleUser, Text: "What is the height of the tower?"},
			{Role: llm.RoleAssistant, ToolCalls: []llm.ToolCall{
				{ID: "c1", Name: "webSearch", Arguments: []byte(`{"query":"tower height"}`)},
				{ID: "c2", Name: "webSearch", Malformed: `{"query":`},
			}},
			{Role: llm.RoleTool, Result: &llm.ToolResult{CallID: "c1", Name: "webSearch", Output: []byte(`"330 m"`)}},
			{Role: llm.RoleTool, Result: &llm.ToolResult{CallID: "c2", Name: "webSearch", Output: []byte(`"bad"`), Failed: true}},
			{Role: llm.RoleAssistant, Text: "It is 330 m high."},
			{Role: llm.RoleUser, Text: "Thank you. And in feet?", Data: []byte(`{"unit":"feet"}`)},
		},
	}
}

// outcome is the result of one call, together with the deltas that the call has emitted.
type outcome struct {
	res    llm.Response
	err    error
	deltas []string
}

// call makes a call with the prompt of Request. If the function each is not nil, it is called after
// every delta with the number of deltas so far.
func call(ctx context.Context, m llm.Model, each func(n int)) outcome {
	var out outcome
	out.res, out.err = m.Stream(ctx, Request(), func(d llm.Delta) {
		out.deltas = append(out.deltas, d.Text)
		if each != nil {
			each(len(out.deltas))
		}
	})
	return out
}

// deltas checks that the concatenated deltas are the text of the answer, and that no delta is
// empty.
func (s Subject) deltas(t *testing.T) {
	t.Parallel()
	out := call(t.Context(), s.New(t), nil)
	if out.err != nil {
		t.Fatal(out.err)
	}
	if out.res.Text == "" || strings.Join(out.deltas, "") != out.res.Text {
		t.Errorf("the deltas are %q, but the text is %q", out.deltas, out.res.Text)
	}
	for _, d := range out.deltas {
		if d == "" {
			t.Error("an empty delta")
		}
	}
}

// infoAndUsage checks that the response names the model, and that the token counts are valid.
func (s Subject) infoAndUsage(t *testing.T) {
	t.Parallel()
	m := s.New(t)
	out := call(t.Context(), m, nil)
	info, u := m.Info(), out.res.Usage
	if info.Name == "" || info.ContextTokens <= 0 || out.res.Model != info.Name {
		t.Errorf("the model describes itself as %+v, but its response names the model %q", info, out.res.Model)
	}
	if u.InputTokens < 0 || u.OutputTokens < 0 {
		t.Errorf("the usage has a negative number of tokens: %+v", u)
	}
	if out.res.StopReason != llm.StopEnd {
		t.Errorf("the stop reason is %q, want %q", out.res.StopReason, llm.StopEnd)
	}
}

// doneContext checks that a call with a cancelled context fails and emits nothing.
func (s Subject) doneContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if out := call(ctx, s.New(t), nil); !errors.Is(out.err, context.Canceled) || len(out.deltas) > 0 {
		t.Errorf("the call returned the error %v after %d deltas, want context.Canceled and no deltas", out.err, len(out.deltas))
	}
}

// cancelStreaming cancels a call after its first delta.
func (s Subject) cancelStreaming(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := call(ctx, s.New(t), func(int) { cancel() })
	// A cancelled call may return the complete answer, but never a part of the answer.
	if out.err == nil && strings.Join(out.deltas, "") != out.res.Text {
		t.Errorf("the call returned the answer %[2]q, but emitted only %[1]q", out.deltas, out.res.Text)
	}
	if out.err != nil && !errors.Is(out.err, context.Canceled) {
		t.Errorf("got %v", out.err)
	}
}

// cancelWaiting cancels a call that has emitted text and then waits. The call must return promptly.
func (s Subject) cancelWaiting(t *testing.T) {
	t.Parallel()
	if s.NewSlow == nil {
		return // not applicable, because the implementation has no model that waits
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	cause := errors.New("lease lost")
	began := time.Now()
	out := call(ctx, s.NewSlow(t), func(int) { cancel(cause) })
	if !errors.Is(out.err, context.Canceled) {
		t.Errorf("got %v", out.err)
	}
	if took := time.Since(began); took > promptly {
		t.Errorf("took %v", took)
	}
}

// deterministic checks that equal requests have equal answers, if Subject.Deterministic is true.
func (s Subject) deterministic(t *testing.T) {
	t.Parallel()
	if !s.Deterministic {
		return // the model need not give equal answers
	}
	m := s.New(t)
	first, second := call(t.Context(), m, nil), call(t.Context(), m, nil)
	if fmt.Sprint(first) != fmt.Sprint(second) {
		t.Errorf("the same request returned %+v, then %+v", first, second)
	}
}

// concurrent checks that a model can be called by several goroutines at the same time.
func (s Subject) concurrent(t *testing.T) {
	t.Parallel()
	m := s.New(t)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if out := call(t.Context(), m, nil); out.err != nil || strings.Join(out.deltas, "") != out.res.Text {
				t.Errorf("got %+v", out)
			}
		})
	}
	group.Wait()
}

// requestUntouched checks that a call does not change the request that it receives.
func (s Subject) requestUntouched(t *testing.T) {
	t.Parallel()
	req := Request()
	if _, err := s.New(t).Stream(t.Context(), req, func(llm.Delta) {}); err != nil {
		t.Fatal(err)
	}
	if render(req) != render(Request()) {
		t.Error("the request was changed")
	}
}

// render formats the messages of a request and the values to which they point, so that a test can
// detect changes.
func render(req llm.Request) string {
	var b strings.Builder
	for _, m := range req.Messages {
		fmt.Fprintf(&b, "%s %q %s", m.Role, m.Text, m.Data)
		for _, c := range m.ToolCalls {
			fmt.Fprintf(&b, " %+v", c)
		}
		if m.Result != nil {
			fmt.Fprintf(&b, " %+v", *m.Result)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
