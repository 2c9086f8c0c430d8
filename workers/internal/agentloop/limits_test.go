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
	"parley/shared/testkit/modelstub"
	"parley/workers/internal/agentloop"
	"parley/workers/internal/llm"
	"parley/workers/internal/llm/scripted"
	"parley/workers/internal/tool"
)

// TestCallsOfATurn checks that at most 32 calls of a turn are made. Further calls fail, and the
// model receives the failure as their result. The same holds if a later attempt continues the run.
func TestCallsOfATurn(t *testing.T) {
	t.Parallel()
	for _, effect := range []domain.SideEffect{domain.SideEffectNone, domain.SideEffectUnsafe} {
		t.Run(string(effect), func(t *testing.T) {
			t.Parallel()
			f := counting()
			f.spec.SideEffect = effect
			model := scripted.New("scripted", asking(slices.Repeat([]string{"count"}, 40)...), done)
			journal := &memory{left: 1 + 35} // the journal fails after the turn and 35 of its 40 calls
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
			reported := model.Requests()[1].Messages
			for i, m := range reported[len(reported)-40:] {
				text := llm.RenderToolResult(*m.Result)
				if m.Result.Failed != (i >= 32) || strings.Contains(text, "Too many calls in one turn; at most 32 are made.") != m.Result.Failed {
					t.Errorf("call %d: model received %s", i+1, text)
				}
			}
		})
	}
}

// TestCallsOfARun checks that a run makes at most 128 calls, and that it fails at a turn that would
// exceed this number. Calls beyond a turn's limit and truncated calls are not counted.
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
			for range 2 { // the second attempt continues after the steps of the first attempt
				out, err := newLoop().Run(t.Context(), in, journal, nil)
				if f.n != tt.made || (err == nil) != tt.ok {
					t.Errorf("%d calls made: %v", f.n, err)
				}
				if tt.ok {
					return
				}
				if e := codeFor(t, err); e.Code != "tool_call_limit" || e.Message != "The run exceeded its limit of tool calls." || e.Retryable || out.Text != "" {
					t.Errorf("got %+v, %q", e, out.Text)
				}
			}
		})
	}
}

// TestToolsThatPanic checks that a call fails if its tool panics. If the tool may have had a side
// effect, the attempt ends, as after a crash.
func TestToolsThatPanic(t *testing.T) {
	t.Parallel()
	var logged atomic.Int32
	loop := agentloop.New(agentloop.Config{OnPanic: func(name string, err error) {
		if name != "read" && name != "pay" || !strings.Contains(err.Error(), "limits_test.go") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: reported %v", name, err)
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
		t.Fatalf("got %+v, %v; reported %d times", out, err, logged.Load())
	}
	for i, want := range []string{`{"error":"The tool failed."}`, `"fine"`, `{"error":"The tool failed."}`} {
		if got := string(out.ToolCalls[i].Output); got != want {
			t.Errorf("call %d: %s", i+1, got)
		}
	}

	journal := newMemory()
	in.Model = scripted.New("scripted", asking("pay"), done)
	_, err = loop.Run(t.Context(), in, journal, nil)
	if e := codeFor(t, err); e.Code != agentloop.CodeToolUnavailable || !e.Retryable || len(journal.steps) != 1 {
		t.Errorf("got %+v after %d steps", e, len(journal.steps))
	}
}

// markingModel returns a model that searches once and then gives the answer, which contains many
// citation markers.
func markingModel(answer string) *scripted.Model {
	search := llm.ToolCall{ID: "a", Name: "webSearch", Arguments: json.RawMessage(`{"query":"tower"}`)}
	return scripted.New("scripted", scripted.Call{ToolCalls: []llm.ToolCall{search}}, scripted.Call{Deltas: []string{answer}})
}

// TestCitationsOfARun checks that a run has at most 500 citations. Further markers are removed from
// the answer and from the stream, and counted.
func TestCitationsOfARun(t *testing.T) {
	t.Parallel()
	const marks = 200_000
	in := agentloop.Input{
		Model: markingModel(strings.Repeat("Tall [1]. ", marks)), Tools: registry(t, searchTool()),
		Limits: agentloop.Limits{MaxBytes: 64 << 20},
	}
	var shown strings.Builder
	reported := 0
	out, err := newLoop().Run(t.Context(), in, newMemory(), func(e agentloop.Event) {
		shown.WriteString(e.Text)
		if e.Citation != nil {
			reported++
		}
	})
	if err != nil {
		t.Fatal(err)
	}

	want := strings.Repeat("Tall [1]. ", 500) + strings.Repeat("Tall. ", marks-500)
	if out.Text != want || shown.String() != want {
		t.Errorf("the answer has %d characters and %d marks, the stream %d characters; want %d characters", len(out.Text),
			strings.Count(out.Text, "[1]"), shown.Len(), len(want))
	}
	if len(out.Citations) != 500 || reported != 500 || out.CitationsRemoved != marks-500 {
		t.Errorf("%d citations, %d citation events, %d removed", len(out.Citations), reported, out.CitationsRemoved)
	}
}

// TestCitationsOfSeveralTurns checks that the limit applies to the citations of all turns together,
// including turns that another worker has recorded.
func TestCitationsOfSeveralTurns(t *testing.T) {
	t.Parallel()
	search := func(id string) []llm.ToolCall {
		return []llm.ToolCall{{ID: id, Name: "webSearch", Arguments: json.RawMessage(`{"query":"tower"}`)}}
	}
	journal := &memory{left: 3}
	in := agentloop.Input{Tools: registry(t, searchTool()), Model: scripted.New("scripted", scripted.Call{ToolCalls: search("a")},
		scripted.Call{Deltas: []string{strings.Repeat("Tall [1]. ", 300)}, ToolCalls: search("b")}, scripted.Call{Deltas: []string{strings.Repeat("Tall [1]. ", 300)}})}
	if _, err := newLoop().Run(t.Context(), in, journal, nil); !errors.Is(err, errLost) {
		t.Fatalf("got %v", err)
	}
	journal.left = -1
	out, err := newLoop().Run(t.Context(), in, journal, nil)
	if err != nil || len(out.Citations) != 500 || out.CitationsRemoved != 100 {
		t.Errorf("%d citations, %d removed, %v", len(out.Citations), out.CitationsRemoved, err)
	}
}

// TestResultCountsAgainstMaxBytes checks the limit on the size of the run object. The object
// contains the answer twice, and a copy of a source for each citation. If the object would exceed
// MaxBytes, the run fails before it publishes a citation.
func TestResultCountsAgainstMaxBytes(t *testing.T) {
	t.Parallel()
	title := strings.Repeat("t", 1000)
	long := &fake{name: "webSearch", do: func(context.Context, tool.Call) (tool.Result, error) {
		source := domain.Citation{Type: "web", Title: title, URL: "https://tower.example/", CitedText: english}
		return tool.Result{Output: json.RawMessage(`{}`), Sources: []domain.Citation{source}}, nil
	}}
	for name, tt := range map[string]struct {
		answer string
		limit  int64
		fails  bool
	}{
		"citations that fit":               {strings.Repeat("Tall [1]. ", 400), 1 << 20, false},
		"citations that do not":            {strings.Repeat("Tall [1]. ", 400), 400 << 10, true},
		"an answer that fits":              {strings.Repeat("a", 100<<10), 256 << 10, false},
		"an answer held twice":             {strings.Repeat("a", 150<<10), 256 << 10, true},
		"an answer that is longer escaped": {strings.Repeat("<", 50<<10), 256 << 10, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reported := 0
			in := agentloop.Input{Model: markingModel(tt.answer), Tools: registry(t, long), Limits: agentloop.Limits{MaxBytes: tt.limit}}
			out, err := newLoop().Run(t.Context(), in, newMemory(), func(e agentloop.Event) {
				if e.Citation != nil {
					reported++
				}
			})
			if !tt.fails {
				if err != nil || reported != len(out.Citations) {
					t.Errorf("%d citations of %d published: %v", reported, len(out.Citations), err)
				}
				return
			}
			if e := codeFor(t, err); e.Code != agentloop.CodeByteLimit || e.Retryable || reported > 0 {
				t.Errorf("got %+v; %d citations published", e, reported)
			}
		})
	}
}

// TestAnswerToolIsNotCounted checks that calls of the answer tool do not count towards the limit of
// tool calls. The arguments of this tool are the answer. In most cases, the model first gives an
// answer that does not match the schema.
func TestAnswerToolIsNotCounted(t *testing.T) {
	t.Parallel()
	answer := func(arguments string) modelstub.Reply {
		return modelstub.Reply{ToolCalls: []modelstub.ToolCall{{ID: "answer", Name: domain.AnswerTool, Arguments: arguments}}}
	}
	own := func(ids ...string) (r modelstub.Reply) {
		for _, id := range ids {
			r.ToolCalls = append(r.ToolCalls, modelstub.ToolCall{ID: id, Name: "count", Arguments: `{}`})
		}
		return r
	}
	both := own("b")
	both.ToolCalls = append(both.ToolCalls, answer(`{"data":{"name":"Luna","watts":7}}`).ToolCalls...)
	wrong, right := answer(`{"data":{"name":"Luna"}}`), answer(`{"data":{"name":"Luna","watts":7}}`)
	for name, tt := range map[string]struct {
		tools   bool // the agent has a tool of its own
		replies []modelstub.Reply
		made    int
		ok      bool
	}{
		"only the answer":           {false, []modelstub.Reply{answer(`{"name":"Luna"}`), answer(`{"name":"Luna","watts":7}`)}, 0, true},
		"after the permitted call":  {true, []modelstub.Reply{own("a"), wrong, right}, 1, true},
		"beside the permitted call": {true, []modelstub.Reply{both, wrong, right}, 1, true},
		"after one call too many":   {true, []modelstub.Reply{own("a"), own("c"), right}, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, model := counting(), (&generatedRun{model: "claude-haiku-4-5", replies: tt.replies}).open(t)
			in := agentloop.Input{Message: "m", Model: model, Contract: contract(t, lampSchema), Limits: agentloop.Limits{MaxToolCalls: 1}}
			if tt.tools {
				in.Tools = registry(t, f)
			}
			out, err := newLoop().Run(t.Context(), in, newMemory(), nil)
			if f.n != tt.made || len(out.ToolCalls) != tt.made {
				t.Errorf("%d calls made, %+v", f.n, out.ToolCalls)
			}
			if !tt.ok {
				if e := codeFor(t, err); e.Code != "tool_call_limit" {
					t.Errorf("got %+v", e)
				}
				return
			}
			if err != nil || string(out.Data) != `{"name":"Luna","watts":7}` || out.Turns != len(tt.replies) {
				t.Errorf("data %s in %d turns: %v", out.Data, out.Turns, err)
			}
		})
	}
}
