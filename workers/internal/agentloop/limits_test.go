package agentloop_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"parley/shared/domain"
	"parley/workers/internal/agentloop"
	"parley/workers/internal/llm"
	"parley/workers/internal/llm/scripted"
	"parley/workers/internal/tool"
)

// TestCallsOfATurn: what one turn asks for beyond 32 calls is told to the model as failed, also by another attempt.
func TestCallsOfATurn(t *testing.T) {
	t.Parallel()
	for _, effect := range []domain.SideEffect{domain.SideEffectNone, domain.SideEffectUnsafe} {
		t.Run(string(effect), func(t *testing.T) {
			t.Parallel()
			f := counting()
			f.spec.SideEffect = effect
			model := scripted.New("scripted", asking(slices.Repeat([]string{"count"}, 40)...), done)
			journal := &memory{left: 1 + 35} // the turn and some of its calls
			run := func() (agentloop.Output, error) {
				return newLoop().Run(t.Context(), agentloop.Input{Model: model, Tools: registry(t, f)}, journal, nil)
			}
			if _, err := run(); !errors.Is(err, errLost) {
				t.Fatalf("got %v", err)
			}
			journal.left = -1
			out, err := run()
			if err != nil || out.Text != "done" || f.n != 32 || len(out.ToolCalls) != 40 {
				t.Fatalf("%d calls made of %d: %v", f.n, len(out.ToolCalls), err)
			}
			told := model.Requests()[1].Messages
			for i, m := range told[len(told)-40:] {
				text := llm.RenderToolResult(*m.Result)
				if m.Result.Failed != (i >= 32) || strings.Contains(text, "Too many calls in one turn; at most 32 are made.") != m.Result.Failed {
					t.Errorf("call %d: told %s", i+1, text)
				}
			}
		})
	}
}

// TestCallsOfARun: a run makes 128 calls, and ends at the turn that asks for more; what is too many for a turn, or was
// cut off, counts for none.
func TestCallsOfARun(t *testing.T) {
	t.Parallel()
	full, one := asking(slices.Repeat([]string{"count"}, 40)...), asking("count")
	cutOff := full
	cutOff.Stop = llm.StopLength
	for name, tt := range map[string]struct {
		limit int
		turns []scripted.Call
		made  int
		ok    bool
	}{
		"as many as it may":       {0, []scripted.Call{full, full, cutOff, full, full, done}, 128, true},
		"one more":                {0, []scripted.Call{full, full, full, full, one, done}, 128, false},
		"a turn that goes beyond": {0, []scripted.Call{one, full, full, full, full, done}, 97, false},
		"another limit":           {33, []scripted.Call{full, one, one, done}, 33, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, journal := counting(), newMemory()
			in := agentloop.Input{Model: scripted.New("scripted", tt.turns...), Tools: registry(t, f), Limits: agentloop.Limits{MaxToolCalls: tt.limit}}
			for range 2 { // the second takes the steps of the first over
				out, err := newLoop().Run(t.Context(), in, journal, nil)
				if f.n != tt.made || (err == nil) != tt.ok {
					t.Errorf("%d calls made: %v", f.n, err)
				}
				if tt.ok {
					return
				}
				if e := codeOf(t, err); e.Code != "tool_call_limit" || e.Message != "The run made more tool calls than it may." || e.Retryable || out.Text != "" {
					t.Errorf("got %+v, %q", e, out.Text)
				}
			}
		})
	}
}

// TestToolsThatPanic: a call has a goroutine of its own, and what panics there is a failed call like any other. When it may
// have had a side effect, the attempt ends, as it would with the process.
func TestToolsThatPanic(t *testing.T) {
	t.Parallel()
	var logged atomic.Int32
	loop := agentloop.New(agentloop.Config{Panicked: func(name string, err error) {
		if name != "read" && name != "pay" || !strings.Contains(err.Error(), "limits_test.go") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: told of %v", name, err)
		}
		logged.Add(1)
	}})
	do := func(_ context.Context, c tool.Call) (tool.Result, error) {
		if c.ID == "2" {
			return tool.Result{Output: json.RawMessage(`"fine"`)}, nil
		}
		panic(fmt.Sprint("secret of ", c.ID))
	}
	tools := registry(t, &fake{name: "read", do: do}, &fake{name: "pay", do: do, spec: tool.Spec{SideEffect: domain.SideEffectUnsafe}})
	in := agentloop.Input{Model: scripted.New("scripted", asking("read", "read", "read"), done), Tools: tools}
	out, err := loop.Run(t.Context(), in, newMemory(), nil)
	if err != nil || out.Text != "done" || len(out.ToolCalls) != 3 || logged.Load() != 2 {
		t.Fatalf("got %+v, %v; told %d times", out, err, logged.Load())
	}
	for i, want := range []string{`{"error":"The tool failed."}`, `"fine"`, `{"error":"The tool failed."}`} {
		if got := string(out.ToolCalls[i].Output); got != want {
			t.Errorf("call %d: %s", i+1, got)
		}
	}

	journal := newMemory()
	in.Model = scripted.New("scripted", asking("pay"), done)
	_, err = loop.Run(t.Context(), in, journal, nil)
	if e := codeOf(t, err); e.Code != agentloop.CodeToolUnavailable || !e.Retryable || len(journal.steps) != 1 {
		t.Errorf("got %+v after %d steps", e, len(journal.steps))
	}
}
