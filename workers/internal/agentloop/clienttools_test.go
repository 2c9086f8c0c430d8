package agentloop_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"parley/shared/domain"
	"parley/workers/internal/agentloop"
	"parley/workers/internal/llm"
	"parley/workers/internal/llm/scripted"
)

// mixedTurn requests two tools of the client and, between these, a tool of the agent.
func mixedTurn() scripted.Call {
	return scripted.Call{Deltas: []string{"Looking."}, ToolCalls: []llm.ToolCall{
		{ID: "1", Name: "weather", Arguments: json.RawMessage(`{"city":"Bern"}`)},
		{ID: "2", Name: "count", Arguments: json.RawMessage(`{}`)},
		{ID: "3", Name: "clock", Arguments: json.RawMessage(`{}`)},
	}}
}

// clientInput returns an input whose client has the tools weather and clock. If results is nil, the
// run ends with the client's calls.
func clientInput(t *testing.T, model llm.Model, own *fake, results map[string]string) agentloop.Input {
	t.Helper()
	client := &agentloop.ClientTools{
		Specs:  []llm.ToolSpec{{Name: "weather", Schema: json.RawMessage(`{"type":"object"}`)}, {Name: "clock", Schema: json.RawMessage(`{"type":"object"}`)}},
		Choice: "required", IDPrefix: "call_r_",
	}
	if results != nil {
		client.Results = func(_ context.Context, calls []domain.ClientCall) ([]domain.ClientResult, bool, error) {
			out := make([]domain.ClientResult, len(calls))
			for i, call := range calls {
				text, known := results[call.ToolCallID]
				if !known {
					return nil, false, nil
				}
				out[i] = domain.ClientResult{ToolCallID: call.ToolCallID, Output: json.RawMessage(text), IsError: text == `"no"`}
			}
			return out, true, nil
		}
	}
	return agentloop.Input{Message: "m", Model: model, Tools: registry(t, own), Client: client}
}

// If a turn calls tools of both kinds, the agent's own call is made first, regardless of the
// model's order. No recorded call is made or paid for twice, regardless of the step after which an
// attempt ends.
func TestClientCallsWaitAfterOwnOnes(t *testing.T) {
	t.Parallel()
	for stop := range 6 {
		own, model, journal := counting(), scripted.New("m", mixedTurn(), scripted.Call{Deltas: []string{"Done."}}), newMemory()
		results := map[string]string{}
		in := clientInput(t, model, own, results)
		if stop < 5 {
			journal.left = stop
		}

		var parked *agentloop.Parked
		var out agentloop.Output
		var err error
		lost := 0
		for range 8 {
			out, err = newLoop().Run(t.Context(), in, journal, nil)
			switch {
			case errors.Is(err, errLost):
				if lost++; len(journal.steps) == 0 { // a model call that was not recorded is repeated
					model = scripted.New("m", mixedTurn(), scripted.Call{Deltas: []string{"Done."}})
					in.Model = model
				} else if len(journal.steps) == 4 {
					model = scripted.New("m", scripted.Call{Deltas: []string{"Done."}})
					in.Model = model
				}
				journal.left = -1
			case errors.As(err, &parked):
				want := []domain.ClientCall{
					{ToolCallID: "call_r_1", Name: "weather", Input: json.RawMessage(`{"city":"Bern"}`)}, {ToolCallID: "call_r_2", Name: "clock", Input: json.RawMessage(`{}`)},
				}
				if parked.Kind != domain.ActionClientTools || !slices.EqualFunc(parked.Calls, want, sameCall) || len(journal.steps) != 2 {
					t.Fatalf("stop %d: waits for %+v after %d steps", stop, parked, len(journal.steps))
				}
				results["call_r_1"], results["call_r_2"] = `{"degrees":7}`, `"no"`
			}
			if err == nil {
				break
			}
		}
		if err != nil || out.Text != "Looking.\n\nDone." || out.Turns != 2 || parked == nil || lost != min(1, max(0, 5-stop)) && stop != 4 {
			t.Fatalf("stop %d: %q, %d turns, %d lost, %v", stop, out.Text, out.Turns, lost, err)
		}
		if own.n != 1 && stop != 1 { // a tool call whose result was not recorded is repeated
			t.Errorf("stop %d: the own tool was called %d times", stop, own.n)
		}
		var calls []string
		for _, call := range out.ToolCalls {
			calls = append(calls, call.Name+" "+call.Status+" "+string(call.Output))
			if call.Client != (call.Name != "count") {
				t.Errorf("stop %d: %+v", stop, call)
			}
		}
		if got := strings.Join(calls, ", "); got != `count completed "2", weather completed {"degrees":7}, clock failed "no"` {
			t.Errorf("stop %d: %s", stop, got)
		}
	}
}

func sameCall(a, b domain.ClientCall) bool {
	return a.ToolCallID == b.ToolCallID && a.Name == b.Name && string(a.Input) == string(b.Input)
}

// If the input has no function that returns the client's results, the run ends with the client's
// calls, after the agent's own calls. A later run continues from the journal of this run: the model
// receives all of its calls. A call that has no result gets a note as its result.
func TestClientCallsEndTheRun(t *testing.T) {
	t.Parallel()
	own, model, journal := counting(), scripted.New("m", mixedTurn()), newMemory()
	in := clientInput(t, model, own, nil)
	var log eventLog
	out, err := newLoop().Run(t.Context(), in, journal, log.add)
	if err != nil || out.StopReason != llm.StopToolCalls || len(out.ToolCalls) != 3 || out.ToolCalls[2].Status != domain.CallPending || own.n != 1 {
		t.Fatalf("%+v, %v", out, err)
	}
	if got := strings.Join(log.lines[len(log.lines)-2:], ", "); got != "3 tool.started weather pending, 4 tool.started clock pending" {
		t.Error(got)
	}
	again, err := newLoop().Run(t.Context(), in, journal, nil) // another attempt, as after a crash before the result was saved
	if err != nil || len(again.ToolCalls) != 3 || own.n != 1 || len(model.Requests()) != 1 {
		t.Errorf("another attempt: %+v, %v", again, err)
	}
	if first := model.Requests()[0]; first.ToolChoice != "required" || len(first.Tools) != 3 {
		t.Errorf("the first request has %q, %d tools", first.ToolChoice, len(first.Tools))
	}

	steps, err := journal.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	round := domain.CallRound{
		RunID: "run_1", Calls: []domain.ClientCall{{ToolCallID: "call_r_1", Name: "weather", Input: json.RawMessage(`{}`)}},
		Results: []domain.ClientResult{{ToolCallID: "call_r_1", Output: json.RawMessage(`{"degrees":7}`)}},
	}
	next := scripted.New("m", scripted.Call{Deltas: []string{"It is 7, and 2 [1]."}})
	in = clientInput(t, next, own, nil)
	in.Rounds = agentloop.RoundMessages(round, steps)
	if out, err = newLoop().Run(t.Context(), in, newMemory(), nil); err != nil || len(out.Citations) != 1 || len(out.ToolCalls) != 0 {
		t.Fatalf("the run with the results: %+v, %v", out, err)
	}
	var seen []string
	for _, m := range next.Requests()[0].Messages {
		line := string(m.Role)
		for _, call := range m.ToolCalls {
			line += " " + call.ID
		}
		if m.Result != nil {
			line += " " + m.Result.CallID + " " + string(m.Result.Output)
		}
		seen = append(seen, line)
	}
	want := []string{
		"user", "assistant 2 call_r_1 call_r_2", `tool 2 "2"`, `tool call_r_1 {"degrees":7}`,
		`tool call_r_2 {"error":"There is no result of this call."}`,
	}
	if !slices.Equal(seen, want) {
		t.Errorf("the model saw %q", seen)
	}
}

// The history of a request may contain client tool calls of another service, or of a run without a
// journal. Then the prompt contains only the calls and results in the request.
func TestRoundsWithoutAJournal(t *testing.T) {
	t.Parallel()
	round := domain.CallRound{
		Text: "Let me see.", Calls: []domain.ClientCall{{ToolCallID: "a", Name: "f", Input: json.RawMessage(`{"x":1}`)}, {ToolCallID: "b", Name: "g", Input: json.RawMessage(`"?"`)}},
		Results: []domain.ClientResult{{ToolCallID: "a", Output: json.RawMessage(`"A"`)}, {ToolCallID: "b", Output: json.RawMessage(`"B"`), IsError: true}},
	}
	other := agentloop.Step{Seq: 1, Kind: agentloop.StepModelTurn, Turn: &agentloop.TurnStep{ToolCalls: []llm.ToolCall{{ID: "z"}}}}
	for name, steps := range map[string][]agentloop.Step{"no journal": nil, "another journal": {other}, "no turn": {{Kind: agentloop.StepToolCall, Tool: &agentloop.ToolStep{}}}} {
		got := agentloop.RoundMessages(round, steps)
		if len(got) != 3 || got[0].Text != "Let me see." || len(got[0].ToolCalls) != 2 || got[0].ToolCalls[1].Arguments != nil || !got[2].Result.Failed {
			t.Errorf("%s: %+v", name, got)
		}
		if turn := (agentloop.Turn{Messages: append([]llm.Message{{Role: llm.RoleUser, Text: "m"}}, got...)}); !turn.Whole() {
			t.Errorf("%s: the turn is not whole", name)
		}
	}
}

// If the model has not written a call completely, the client does not receive the call. An agent
// without tools of its own has no sources, so the brackets in its answers are kept.
func TestBrokenClientCallsReturnToTheModel(t *testing.T) {
	t.Parallel()
	model := scripted.New("m",
		scripted.Call{ToolCalls: []llm.ToolCall{{ID: "1", Name: "weather", Malformed: "{"}}},
		scripted.Call{ToolCalls: []llm.ToolCall{{ID: "2", Name: "weather", Arguments: json.RawMessage(`{}`)}}, Stop: llm.StopLength},
		scripted.Call{Deltas: []string{"Never mind [1]."}})
	in := clientInput(t, model, counting(), nil)
	in.Tools = nil
	out, err := newLoop().Run(t.Context(), in, newMemory(), nil)
	if err != nil || out.Text != "Never mind [1]." || len(out.ToolCalls) != 2 || out.ToolCalls[0].Client || out.ToolCalls[1].Status != "failed" {
		t.Errorf("%+v, %v", out, err)
	}
	if later := model.Requests()[1]; later.ToolChoice != "" {
		t.Errorf("the second request has the choice %q", later.ToolChoice)
	}
}

// The tool choice "required" of a request requires a call of any tool, including the agent's tools.
// After a call of the agent's tool, the model may answer without a call of the client's tools.
func TestARequiredCallMayBeTheAgentsOwn(t *testing.T) {
	t.Parallel()
	own := counting()
	model := scripted.New("m",
		scripted.Call{ToolCalls: []llm.ToolCall{{ID: "1", Name: "count", Arguments: json.RawMessage(`{}`)}}},
		scripted.Call{Deltas: []string{"Done."}})
	out, err := newLoop().Run(t.Context(), clientInput(t, model, own, nil), newMemory(), nil)
	if err != nil || out.Text != "Done." || out.StopReason != llm.StopEnd || len(out.ToolCalls) != 1 || out.ToolCalls[0].Client || own.n != 1 {
		t.Errorf("%+v, %v", out, err)
	}
	if r := model.Requests(); len(r) != 2 || r[0].ToolChoice != "required" || r[1].ToolChoice != "" || len(r[1].Tools) != len(r[0].Tools) {
		t.Errorf("the requests are %+v", r)
	}
}
