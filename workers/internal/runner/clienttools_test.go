package runner

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"parley/shared/domain"
	"parley/shared/store/executiondb"
	"parley/shared/store/sessiondb"
	"parley/workers/internal/llm"
	"parley/workers/internal/llm/scripted"
	"parley/workers/internal/tool"
)

const clientRun = "run_01h455vb4pex5vsknk084sn02q"

// newTools returns the JSON of an input whose client has the tool weather. If the argument returns
// is true, the run ends with the client's calls instead of waiting for their results.
func newTools(t *testing.T, in domain.Input, returns bool) []byte {
	t.Helper()
	in.ClientTools = &domain.ClientTools{Tools: []domain.ClientTool{{Name: "weather", InputSchema: json.RawMessage(`{"type":"object"}`)}}, Return: returns}
	raw, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func asksWeather() scripted.Call {
	return scripted.Call{ToolCalls: []llm.ToolCall{{ID: "c", Name: "weather", Arguments: json.RawMessage(`{"city":"Bern"}`)}}}
}

// A run waits for its client's results, and continues when they have arrived.
func TestARunWaitsForItsClient(t *testing.T) {
	t.Parallel()
	const callID = "call_1_1" // id of the first call of the run run_1
	s := &testEnv{model: scripted.New("stage/first", asksWeather()), park: executiondb.Parked{Parked: true}}
	claim := executiondb.Claimed{Attempts: 1, RawInput: newTools(t, domain.Input{Message: "m"}, false)}
	s.attempt(t, claim)
	if len(s.actions) != 1 || len(s.outcomes) != 0 {
		t.Fatalf("actions %+v, outcomes %+v", s.actions, s.outcomes)
	}
	action := s.actions[0]
	if action.Kind != domain.ActionClientTools || len(action.Calls) != 1 || action.Calls[0].ToolCallID != callID || action.ExpiresAt.IsZero() {
		t.Errorf("waits for %+v", action)
	}

	// The second attempt reads the first turn from the journal instead of calling the model.
	turn, err := json.Marshal(map[string]any{"seq": 1, "kind": "model_turn", "turn": map[string]any{
		"model": "m", "toolCalls": []any{map[string]any{"id": callID, "name": "weather", "arguments": map[string]string{"city": "Bern"}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	s = &testEnv{model: scripted.New("stage/first", scripted.Call{Deltas: []string{"7 degrees."}}), steps: [][]byte{turn}}
	s.results = map[string]string{callID: `{"toolCallId":"` + callID + `","output":{"degrees":7}}`}
	claim.Attempts = 2
	s.attempt(t, claim)
	if len(s.outcomes) != 1 || s.outcomes[0].Run.Status != domain.RunCompleted || len(s.outcomes[0].Run.ToolCalls) != 1 ||
		string(s.outcomes[0].Run.ToolCalls[0].Output) != `{"degrees":7}` {
		t.Errorf("outcomes %+v", s.outcomes)
	}
}

// With the API under /v1, the run ends with the client's calls. The history of the next request
// then includes the run's journal.
func TestReturnedCalls(t *testing.T) {
	t.Parallel()
	s := &testEnv{model: scripted.New("stage/first", asksWeather())}
	s.attempt(t, executiondb.Claimed{Attempts: 1, RawInput: newTools(t, domain.Input{Message: "m"}, true)})
	if len(s.outcomes) != 1 {
		t.Fatalf("%d outcomes", len(s.outcomes))
	}
	run := s.outcomes[0].Run
	if *run.FinishReason != domain.FinishToolCalls || run.Status != domain.RunCompleted || *run.Message != "" || run.Incomplete() || len(run.ClientCalls()) != 1 {
		t.Errorf("ended as %+v", run)
	}

	call := run.ClientCalls()[0]
	round := domain.CallRound{
		RunID: clientRun, Calls: []domain.ClientCall{{ToolCallID: call.ID, Name: call.Name, Input: call.Input}},
		Results: []domain.ClientResult{{ToolCallID: call.ID, Output: json.RawMessage(`"warm"`)}},
	}
	turn := `{"seq":1,"kind":"model_turn","turn":{"model":"m","toolCalls":[{"id":"own","name":"count","arguments":{}},{"id":"` + call.ID + `","name":"weather","arguments":{}}]}}`
	own := `{"seq":2,"kind":"tool_call","tool":{"call":{"id":"own","name":"count","status":"completed","input":{},"output":42,"durationMs":1}}}`
	brought, err := json.Marshal([]domain.Exchange{{Rounds: []domain.CallRound{round}}})
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		in    domain.Input
		turns []sessiondb.Turn
		want  string
	}{
		"the results of the last message": {
			domain.Input{Message: "m", History: []domain.Exchange{{Message: "a", Answer: "b"}, {Rounds: []domain.CallRound{round}}}},
			nil,
			`user a|assistant b|user m|assistant own ` + call.ID + `|tool 42|tool "warm"`,
		},
		"an earlier message with its answer": {
			domain.Input{Message: "m", History: []domain.Exchange{{Message: "a", Rounds: []domain.CallRound{round}, Answer: "b"}}},
			nil,
			`user a|assistant own ` + call.ID + `|tool 42|tool "warm"|assistant b|user m`,
		},
		"an earlier run of the session": {
			domain.Input{Message: "m"},
			[]sessiondb.Turn{{Seq: 1, Message: "a"}, {Seq: 2, Message: "a", Answer: "b", Earlier: brought}},
			`user a|assistant own ` + call.ID + `|tool 42|tool "warm"|assistant b|user m`,
		},
		"text before the calls": {
			domain.Input{Message: "m", History: []domain.Exchange{{Rounds: []domain.CallRound{round}}}},
			[]sessiondb.Turn{{Seq: 1, RunID: "run_0", Message: "a", Answer: "b"}, {Seq: 2, RunID: clientRun, Message: "m", Answer: "Let me look."}},
			`user a|assistant b|user m|assistant own ` + call.ID + `|tool 42|tool "warm"`,
		},
		"text before the calls of an earlier run": {
			domain.Input{Message: "m"},
			[]sessiondb.Turn{{Seq: 1, RunID: clientRun, Message: "a", Answer: "Let me look."}, {Seq: 2, RunID: "run_2", Message: "a", Answer: "b", Earlier: brought}},
			`user a|assistant own ` + call.ID + `|tool 42|tool "warm"|assistant b|user m`,
		},
		"text before the calls, with attachments": {
			domain.Input{Message: "m", History: []domain.Exchange{{Rounds: []domain.CallRound{round}}}},
			[]sessiondb.Turn{{Seq: 1, RunID: clientRun, Message: "m", Answer: "Let me look.", Files: []byte("[]")}},
			`user m|assistant Let me look.|user m|assistant own ` + call.ID + `|tool 42|tool "warm"`,
		},
		"text before calls without an answer": {
			domain.Input{Message: "m"},
			[]sessiondb.Turn{{Seq: 1, RunID: clientRun, Message: "a", Answer: "Let me look."}, {Seq: 2, RunID: "run_2", Earlier: brought}},
			`user a|assistant Let me look.|user m`,
		},
	} {
		s := &testEnv{model: scripted.New("stage/first", scripted.Call{Deltas: []string{"ok"}}), turns: tt.turns}
		s.journals = map[string][][]byte{clientRun: {[]byte(turn), []byte(own)}}
		s.attempt(t, executiondb.Claimed{Attempts: 1, RawInput: newTools(t, tt.in, true)})
		if len(s.model.Requests()) != 1 {
			t.Fatalf("%s: outcomes %+v", name, s.outcomes)
		}
		var seen []string
		for _, m := range s.model.Requests()[0].Messages {
			line := strings.TrimSpace(string(m.Role) + " " + m.Text)
			for _, c := range m.ToolCalls {
				line += " " + c.ID
			}
			if m.Result != nil {
				line += " " + string(m.Result.Output)
			}
			seen = append(seen, line)
		}
		if got := strings.Join(seen, "|"); got != tt.want {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// The names of an MCP server's tools are known only when the run starts. If the client has a tool
// with the same name, the run fails then.
func TestAClientsToolWithATakenName(t *testing.T) {
	t.Parallel()
	s := &testEnv{model: scripted.New("stage/first", asksWeather()), tools: []tool.Tool{payTool{}}}
	s.attempt(t, executiondb.Claimed{Attempts: 1, RawInput: bytes.ReplaceAll(newTools(t, domain.Input{Message: "m"}, true), []byte("weather"), []byte("pay"))})
	if len(s.outcomes) != 1 || s.outcomes[0].Run.Error == nil || s.outcomes[0].Run.Error.Code != "tool_name_taken" ||
		!strings.Contains(s.outcomes[0].Run.Error.Message, "pay") || len(s.model.Requests()) != 0 {
		t.Errorf("outcomes %+v", s.outcomes)
	}
}
