package agentloop_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"parley/shared/domain"
	"parley/workers/internal/agentloop"
	"parley/workers/internal/llm"
	"parley/workers/internal/tool"
)

// stepwise is a model whose answer depends only on its prompt. It requests two tool calls, then a
// third tool call, and then answers. It counts the model calls.
type stepwise struct{ calls int }

func (*stepwise) Info() llm.Info { return llm.Info{Name: "stepwise", ContextTokens: 1000} }

func (m *stepwise) Stream(_ context.Context, req llm.Request, emit func(llm.Delta)) (llm.Response, error) {
	m.calls++
	results := 0
	for _, msg := range req.Messages {
		if msg.Result != nil {
			results++
		}
	}
	res := llm.Response{Model: "stepwise", Usage: llm.Usage{InputTokens: int64(len(req.Messages)), OutputTokens: 1}}
	ask := func(ids ...string) {
		for _, id := range ids {
			res.ToolCalls = append(res.ToolCalls, llm.ToolCall{ID: id, Name: "count", Arguments: json.RawMessage(`{}`)})
		}
		res.StopReason = llm.StopToolCalls
	}
	switch results {
	case 0:
		res.Text = "First. "
		ask("x", "y")
	case 2:
		ask("z")
	default:
		res.Text, res.StopReason = "Done [1] [3].", llm.StopEnd
	}
	if res.Text != "" {
		emit(llm.Delta{Text: res.Text})
	}
	return res, nil
}

func counting() *fake {
	return &fake{name: "count", do: func(_ context.Context, c tool.Call) (tool.Result, error) {
		return tool.Result{Output: json.RawMessage(`"` + c.ID + `"`), Sources: []domain.Citation{{Type: "web", URL: "u:" + c.ID, CitedText: "Call " + c.ID + " counted."}}}, nil
	}}
}

// TestResume makes the journal fail after each possible number of steps. A second attempt then
// continues the run. Its result must equal the result of a run without failures.
func TestResume(t *testing.T) {
	t.Parallel()
	run := func(m *memory, model llm.Model, f *fake, h *eventLog) (agentloop.Output, error) {
		in := agentloop.Input{Message: "go", Model: model, Tools: registry(t, f)}
		return newLoop().Run(t.Context(), in, m, h.add)
	}
	var whole eventLog
	clean := newMemory()
	want, err := run(clean, &stepwise{}, counting(), &whole)
	if err != nil {
		t.Fatal(err)
	}
	if len(clean.steps) != 5 || want.Turns != 3 {
		t.Fatalf("%d steps, %d turns", len(clean.steps), want.Turns)
	}
	for broken := range len(clean.steps) {
		t.Run(fmt.Sprintf("lost after %d steps", broken), func(t *testing.T) {
			t.Parallel()
			journal, model, f := &memory{left: broken}, &stepwise{}, counting()
			if _, err := run(journal, model, f, &eventLog{}); !errors.Is(err, errLost) {
				t.Fatalf("got %v", err)
			}
			journal.left = -1
			var h eventLog
			got, err := run(journal, model, f, &h)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, want) || !reflect.DeepEqual(journal.steps, clean.steps) {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
			// Only calls without a recorded result are repeated. These are the call that could not
			// be recorded, and the calls that ran at the same time.
			again := 1
			if broken == 1 {
				again = 2
			}
			if model.calls+f.n != 3+3+again {
				t.Errorf("%d model calls and %d tool calls", model.calls, f.n)
			}
			reported := whole.byStep()
			for i, line := range h.byStep() {
				plain, replayed := strings.CutSuffix(line, " replayed")
				if len(h.lines) != len(reported) || plain != reported[i] || replayed != (line[0]-'0' <= byte(broken)) {
					t.Errorf("event %d: %q; in the undisturbed run %q", i, line, reported[i])
				}
			}
		})
	}
}

func TestJournalThatDoesNotFit(t *testing.T) {
	t.Parallel()
	turn := func(seq int, ids ...string) string {
		s := agentloop.Step{Seq: seq, Kind: agentloop.StepModelTurn, Turn: &agentloop.TurnStep{}}
		for _, id := range ids {
			s.Turn.ToolCalls = append(s.Turn.ToolCalls, llm.ToolCall{ID: id, Name: "count", Arguments: json.RawMessage(`{}`)})
		}
		b, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	called := func(seq int, id string) string {
		return fmt.Sprintf(`{"seq":%d,"kind":"tool_call","tool":{"call":{"id":%q,"name":"count","status":"completed","input":{},"output":1,"durationMs":1}}}`, seq, id)
	}
	for name, steps := range map[string][]string{
		"a gap":                  {turn(1, "a"), called(3, "a")},
		"another call":           {turn(1, "a"), called(2, "b")},
		"a turn before its time": {turn(1, "a"), turn(2, "b")},
		"a call first":           {called(1, "a")},
		"a turn without calls":   {turn(1)},
		"an unknown kind":        {`{"seq":1,"kind":"dream"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := agentloop.Input{Model: &stepwise{}, Tools: registry(t, counting())}
			_, err := newLoop().Run(t.Context(), in, &memory{steps: steps, left: -1}, nil)
			if e := codeFor(t, err); e.Code != agentloop.CodeJournalUnreadable || e.Retryable {
				t.Errorf("got %+v", e)
			}
		})
	}
	failed := errors.New("no database")
	if _, err := newLoop().Run(t.Context(), agentloop.Input{Model: &stepwise{}}, &memory{loadErr: failed}, nil); !errors.Is(err, failed) {
		t.Errorf("got %v", err)
	}
}

// TestStoredForm checks the names of the JSON fields, because later releases must be able to read
// stored steps.
func TestStoredForm(t *testing.T) {
	t.Parallel()
	journal := newMemory()
	if _, err := newLoop().Run(t.Context(), agentloop.Input{Message: "go", Model: &stepwise{}, Tools: registry(t, counting())}, journal, nil); err != nil {
		t.Fatal(err)
	}
	want := []string{
		`{"seq":1,"kind":"model_turn","turn":{"model":"stepwise","text":"First. ","toolCalls":[{"id":"x","name":"count","arguments":{}},` +
			`{"id":"y","name":"count","arguments":{}}],"usage":{"inputTokens":1,"outputTokens":1}}}`,
		`{"seq":2,"kind":"tool_call","tool":{"call":{"id":"x","name":"count","status":"completed","input":{},"output":"x","durationMs":0},` +
			`"sources":[{"id":1,"type":"web","title":"","url":"u:x","citedText":"Call x counted.","startIndex":0,"endIndex":0,"documentId":null,"page":null,"sourceId":null}]}}`,
	}
	if !reflect.DeepEqual(journal.steps[:2], want) {
		t.Errorf("got\n%s", strings.Join(journal.steps[:2], "\n"))
	}
}
