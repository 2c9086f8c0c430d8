package agentloop_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"parley/shared/domain"
	"parley/workers/internal/agentloop"
	"parley/workers/internal/llm"
	"parley/workers/internal/llm/scripted"
	"parley/workers/internal/tool"
)

// asking returns a model turn that calls the named tools in the order of the names. The ids of the
// calls are 1, 2, 3 and so on.
func asking(names ...string) scripted.Call {
	var call scripted.Call
	for i, name := range names {
		call.ToolCalls = append(call.ToolCalls, llm.ToolCall{ID: fmt.Sprint(i + 1), Name: name, Arguments: json.RawMessage(`{}`)})
	}
	return call
}

var done = scripted.Call{Deltas: []string{"done"}}

// TestCallsBesideEachOther checks which calls of a turn run concurrently. It measures the duration
// of the run in a synctest bubble. The first call takes three seconds, and every other call takes
// one second.
func TestCallsBesideEachOther(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		calls   []string
		took    time.Duration
		maximum int32 // maximum number of concurrent calls
	}{
		"without side effects":        {[]string{"read", "none", "read"}, 3 * time.Second, 3},
		"at most eight":               {slices.Repeat([]string{"read"}, 10), 4 * time.Second, 8},
		"with a side effect":          {[]string{"write", "write"}, 4 * time.Second, 1},
		"one that can be repeated":    {[]string{"repeat", "repeat"}, 4 * time.Second, 1},
		"alone":                       {[]string{"alone", "alone", "read"}, 5 * time.Second, 1},
		"around one with side effect": {[]string{"read", "read", "write", "read", "read"}, 5 * time.Second, 2},
		"unknown tools":               {[]string{"read", "what", "read"}, 3 * time.Second, 2},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var working, maximum atomic.Int32
				do := func(_ context.Context, c tool.Call) (tool.Result, error) {
					n := working.Add(1)
					maximum.Store(max(n, maximum.Load()))
					if c.ID == "1" {
						<-time.After(2 * time.Second)
					}
					<-time.After(time.Second)
					working.Add(-1)
					return tool.Result{Output: json.RawMessage(c.ID), Sources: []domain.Citation{{Type: "web", URL: c.ID, CitedText: "text"}}}, nil
				}
				tools := registry(t,
					&fake{name: "read", do: do}, &fake{name: "none", do: do, spec: tool.Spec{SideEffect: domain.SideEffectNone}},
					&fake{name: "write", do: do, spec: tool.Spec{SideEffect: domain.SideEffectUnsafe}},
					&fake{name: "repeat", do: do, spec: tool.Spec{SideEffect: domain.SideEffectIdempotent}},
					&fake{name: "alone", do: do, spec: tool.Spec{Alone: true}})
				var h eventLog
				began := time.Now()
				journal := newMemory()
				in := agentloop.Input{Model: scripted.New("scripted", asking(tt.calls...), done), Tools: tools}
				out, err := agentloop.New(agentloop.Config{}).Run(t.Context(), in, journal, h.add)
				if err != nil || time.Since(began) != tt.took || maximum.Load() != tt.maximum {
					t.Errorf("took %v, %d at once: %v", time.Since(began), maximum.Load(), err)
				}
				// The calls are recorded, numbered and reported in the order of the model's
				// requests, regardless of the order in which they finished.
				for i, c := range out.ToolCalls {
					want := fmt.Sprintf(`"call":{"id":"%d"`, i+1)
					if c.ID != fmt.Sprint(i+1) || !strings.Contains(journal.steps[i+1], want) || c.Name != tt.calls[i] {
						t.Errorf("call %d is %s; step %s", i, c.ID, journal.steps[i+1])
					}
				}
				if out.ToolCalls[0].DurationMS != 3000 || out.ToolCalls[len(out.ToolCalls)-1].DurationMS != 1000 {
					t.Errorf("durations %+v", out.ToolCalls)
				}
				wantOrder(t, &h, len(tt.calls))
			})
		})
	}
}

// wantOrder checks that the starts of calls are reported in the order of the calls, and that the
// ends are reported in the same order. The start of each call must precede its end.
func wantOrder(t *testing.T, h *eventLog, calls int) {
	t.Helper()
	var started, ended []string
	for _, line := range h.lines {
		step, what, _ := strings.Cut(line, " ")
		switch {
		case strings.HasPrefix(what, "tool.started"):
			started = append(started, step)
		case strings.HasPrefix(what, "tool.completed"):
			if ended = append(ended, step); len(started) < len(ended) {
				t.Errorf("%s ended before it started", line)
			}
		}
	}
	var want []string
	for i := range calls {
		want = append(want, fmt.Sprint(i+2))
	}
	if !slices.Equal(started, want) || !slices.Equal(ended, want) {
		t.Errorf("events %q", h.lines)
	}
}

// TestFatalCallEndsTheOthers checks that an error of one call cancels the other running calls.
// Finished calls are recorded, and Run waits until the cancelled calls have ended.
func TestFatalCallEndsTheOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var cancelled atomic.Int32
		do := func(ctx context.Context, c tool.Call) (tool.Result, error) {
			switch c.ID {
			case "1":
				return tool.Result{Output: json.RawMessage(`1`)}, nil
			case "3":
				<-time.After(time.Second)
				return tool.Result{}, &tool.Error{Message: "lost", Retryable: true}
			default:
				<-ctx.Done()
				<-time.After(time.Second)
				cancelled.Add(1)
				return tool.Result{}, ctx.Err()
			}
		}
		journal := newMemory()
		began := time.Now()
		in := agentloop.Input{Model: scripted.New("scripted", asking("read", "read", "read", "read")), Tools: registry(t, &fake{name: "read", do: do})}
		out, err := newLoop().Run(t.Context(), in, journal, nil)
		if e := codeFor(t, err); e.Code != agentloop.CodeToolUnavailable || !e.Retryable {
			t.Errorf("got %+v", e)
		}
		if cancelled.Load() != 2 || time.Since(began) != 2*time.Second || len(out.ToolCalls) != 1 || len(journal.steps) != 2 {
			t.Errorf("%d cancelled after %v; %d steps", cancelled.Load(), time.Since(began), len(journal.steps))
		}
	})
}

// TestParked parks a run at a call that has a call before it and a call after it. The run continues
// after the decision.
func TestParked(t *testing.T) {
	t.Parallel()
	decided := false
	read := counting()
	pay := &fake{name: "pay", spec: tool.Spec{Alone: true, SideEffect: domain.SideEffectUnsafe}}
	pay.do = func(_ context.Context, c tool.Call) (tool.Result, error) {
		if !decided {
			return tool.Result{}, fmt.Errorf("calling: %w", &tool.ActionRequired{Kind: domain.ActionApproval, Call: c})
		}
		return tool.Result{Output: json.RawMessage(`"paid"`)}, nil
	}
	ask := asking("count", "pay", "count")
	ask.ToolCalls[1].Arguments = json.RawMessage(`{"amount":7}`)
	model := scripted.New("scripted", ask, done)
	journal := newMemory()
	run := func(h *eventLog) (agentloop.Output, error) {
		return newLoop().Run(t.Context(), agentloop.Input{Model: model, Tools: registry(t, read, pay)}, journal, h.add)
	}
	var first eventLog
	for range 2 { // without a decision, the second attempt parks the run again
		out, err := run(&first)
		var parked *agentloop.Parked
		if !errors.As(err, &parked) || parked.Kind != domain.ActionApproval || out.Turns != 1 || len(out.ToolCalls) != 1 {
			t.Fatalf("got %+v, %v", out, err)
		}
		want := tool.Call{ID: "2", Name: "pay", Arguments: json.RawMessage(`{"amount":7}`)}
		if !reflect.DeepEqual(parked.Call, want) || !strings.Contains(parked.Error(), "approval") {
			t.Errorf("got %+v", parked)
		}
		if len(journal.steps) != 2 || read.n != 1 {
			t.Fatalf("%d steps, %d other calls", len(journal.steps), read.n)
		}
	}
	decided = true
	var second eventLog
	out, err := run(&second)
	if err != nil || out.Text != "done" || len(out.ToolCalls) != 3 || string(out.ToolCalls[1].Output) != `"paid"` || read.n != 2 || pay.n != 3 {
		t.Errorf("got %+v, %v; %d calls and %d", out, err, read.n, pay.n)
	}
	wantOrder(t, &second, 3)
}

// TestParkedBesideOthers checks that the results of the calls before the parked call are recorded.
func TestParkedBesideOthers(t *testing.T) {
	t.Parallel()
	slow := make(chan struct{})
	do := func(_ context.Context, c tool.Call) (tool.Result, error) {
		switch c.ID {
		case "1":
			<-slow
			return tool.Result{}, nil
		case "2":
			defer close(slow)
			return tool.Result{}, &tool.ActionRequired{Kind: domain.ActionUnknownOutcome, Call: c}
		default:
			return tool.Result{}, nil
		}
	}
	journal := newMemory()
	in := agentloop.Input{Model: scripted.New("scripted", asking("read", "read", "read")), Tools: registry(t, &fake{name: "read", do: do})}
	_, err := newLoop().Run(t.Context(), in, journal, nil)
	var parked *agentloop.Parked
	if !errors.As(err, &parked) || parked.Call.ID != "2" || parked.Kind != domain.ActionUnknownOutcome || len(journal.steps) != 2 {
		t.Errorf("got %v, %d steps", err, len(journal.steps))
	}
}

// TestCallsThatAreNotMade checks that a truncated call never reaches a tool, in any attempt.
func TestCallsThatAreNotMade(t *testing.T) {
	t.Parallel()
	call := func(arguments string) llm.ToolCall {
		return llm.ToolCall{ID: "1", Name: "count", Arguments: json.RawMessage(arguments)}
	}
	cutOff := scripted.Call{ToolCalls: []llm.ToolCall{call(`{"a":1}`), call(`{}`)}, Stop: llm.StopLength}
	tests := map[string]struct {
		turn     scripted.Call
		reported string
	}{
		"malformed":     {scripted.Call{ToolCalls: []llm.ToolCall{{Name: "count", Malformed: `{"a":`}}}, "not a single JSON object"},
		"cut off":       {cutOff, "length limit"},
		"half a JSON":   {scripted.Call{ToolCalls: []llm.ToolCall{call(`{"a":`)}}, "not a single JSON object"},
		"no object":     {scripted.Call{ToolCalls: []llm.ToolCall{call(`[1]`)}}, "not a single JSON object"},
		"two documents": {scripted.Call{ToolCalls: []llm.ToolCall{call(`{} {}`)}}, "not a single JSON object"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := counting()
			journal := &memory{left: 1}
			model := scripted.New("scripted", tt.turn, done)
			run := func() (agentloop.Output, error) {
				return newLoop().Run(t.Context(), agentloop.Input{Model: model, Tools: registry(t, f)}, journal, nil)
			}
			if _, err := run(); !errors.Is(err, errLost) {
				t.Fatalf("got %v", err)
			}
			journal.left = -1
			out, err := run()
			if err != nil || f.n != 0 || len(out.ToolCalls) != len(tt.turn.ToolCalls) {
				t.Fatalf("%d calls made: %+v, %v", f.n, out.ToolCalls, err)
			}
			for _, c := range out.ToolCalls {
				if c.Status != "failed" || !strings.Contains(string(c.Output), tt.reported) {
					t.Errorf("got %+v", c)
				}
			}
		})
	}
}

// TestHowResultsAreReported checks that a failed result is marked as failed in the prompt and in
// events. A truncated result must stay marked as truncated.
func TestHowResultsAreReported(t *testing.T) {
	t.Parallel()
	capped := `{"truncated":true,"totalBytes":70000,"text":"first part"}`
	do := func(_ context.Context, c tool.Call) (tool.Result, error) {
		if c.ID == "1" {
			return tool.Result{Output: json.RawMessage(capped)}, nil
		}
		return tool.Result{}, &tool.Error{Message: "The arguments do not fit the tool: at /query: missing."}
	}
	var h eventLog
	model := scripted.New("scripted", asking("read", "read"), done)
	out, err := newLoop().Run(t.Context(), agentloop.Input{Model: model, Tools: registry(t, &fake{name: "read", do: do})}, newMemory(), h.add)
	if err != nil || string(out.ToolCalls[0].Output) != capped || out.ToolCalls[1].Status != "failed" {
		t.Fatalf("got %+v, %v", out.ToolCalls, err)
	}
	reported := model.Requests()[1].Messages
	cut, failed := reported[len(reported)-2].Result, reported[len(reported)-1].Result
	if text := llm.RenderToolResult(*cut); cut.Failed || !strings.Contains(text, `"truncated":true`) || !strings.Contains(text, `"untrusted":true`) {
		t.Errorf("model received %s", text)
	}
	if text := llm.RenderToolResult(*failed); !failed.Failed || !strings.Contains(text, `"failed":true`) || !strings.Contains(text, "at /query: missing") {
		t.Errorf("model received %s", text)
	}
	if last := h.lines[4]; last != "3 tool.completed read failed" && h.lines[3] != "3 tool.completed read failed" {
		t.Errorf("events %q", h.lines)
	}
}

// TestAFailedCallIsShown checks that the output of a failed call is in the run object, in the
// events and in the prompt.
func TestAFailedCallIsShown(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ output, want string }{
		"as it is":       {`{"error":"no","stdout":"1","files":[]}`, `{"error":"no","stdout":"1","files":[]}`},
		"cleaned":        {`{"error":"no","stdout":"a\u0000b"}`, `{"error":"no","stdout":"ab"}`},
		"nothing":        {``, `{"error":"the note"}`},
		"no error in it": {`{"stdout":"1"}`, `{"error":"the note"}`},
		"an empty error": {`{"error":"","stdout":"1"}`, `{"error":"the note"}`},
		"no object":      {`"no"`, `{"error":"the note"}`},
		"no JSON":        {`{"error":`, `{"error":"the note"}`},
		"out of range":   {`{"error":"no","n":1e99999}`, `{"error":"the note"}`},
	} {
		do := func(context.Context, tool.Call) (tool.Result, error) {
			return tool.Result{}, fmt.Errorf("wrapped: %w", &tool.Error{Message: "the note", Output: json.RawMessage(c.output)})
		}
		var reported []string
		add := func(e agentloop.Event) {
			if e.Type == agentloop.EventToolCompleted {
				reported = append(reported, e.Tool.Status+" "+string(e.Tool.Output))
			}
		}
		model, journal := scripted.New("scripted", asking("code"), done), newMemory()
		in := agentloop.Input{Model: model, Tools: registry(t, &fake{name: "code", do: do})}
		out, err := newLoop().Run(t.Context(), in, journal, add)
		if err != nil || out.Text != "done" {
			t.Fatalf("%s: the run does not go on: %q, %v", name, out.Text, err)
		}
		if got := out.ToolCalls[0]; got.Status != "failed" || string(got.Output) != c.want {
			t.Errorf("%s: trace %s %s", name, got.Status, got.Output)
		}
		if len(reported) != 1 || reported[0] != "failed "+c.want || !strings.Contains(journal.steps[1], `"output":`+c.want) {
			t.Errorf("%s: events %q; step %s", name, reported, journal.steps[1])
		}
		messages := model.Requests()[1].Messages
		if r := messages[len(messages)-1].Result; r == nil || !r.Failed || string(r.Output) != c.want {
			t.Errorf("%s: model received %+v", name, r)
		}
	}
}
