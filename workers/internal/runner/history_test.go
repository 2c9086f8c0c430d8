package runner

import (
	"encoding/json"
	"strings"
	"testing"

	"parley/shared/domain"
	"parley/shared/store/executiondb"
	"parley/shared/store/sessiondb"
	"parley/workers/internal/llm/scripted"
)

// In the prompt, the history in the request follows the session's earlier turns and precedes the
// message. The instructions in the request follow those of the agent.
func TestHistoryAndInstructionsOfARequest(t *testing.T) {
	t.Parallel()
	exchanges := func(from, n int) []domain.Exchange {
		out := make([]domain.Exchange, n)
		for i := range out {
			out[i] = domain.Exchange{Message: "q" + string(rune('a'+from+i)), Answer: "a" + string(rune('a'+from+i))}
		}
		return out
	}
	brought, err := json.Marshal(exchanges(0, 2))
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		in      domain.Input
		turns   []sessiondb.Turn
		prompt  string
		said    string
		omitted int
	}{
		"nothing":         {domain.Input{Message: "m"}, nil, "Own.", "m", 0},
		"history":         {domain.Input{Message: "m", History: exchanges(0, 2)}, nil, "Own.", "qa aa qb ab m", 0},
		"instructions":    {domain.Input{Message: "m", Instructions: "Be brief."}, nil, "Own.\n\nAdditional instructions from the caller:\nBe brief.", "m", 0},
		"a session":       {domain.Input{Message: "m"}, []sessiondb.Turn{{Seq: 1, Message: "s", Answer: "t"}}, "Own.", "s t m", 0},
		"what a turn had": {domain.Input{Message: "m"}, []sessiondb.Turn{{Seq: 1, Message: "s", Answer: "t", Earlier: brought}}, "Own.", "qa aa qb ab s t m", 0},
		"both":            {domain.Input{Message: "m", History: exchanges(2, 1)}, []sessiondb.Turn{{Seq: 1, Message: "s", Answer: "t"}}, "Own.", "s t qc ac m", 0},
		"more than fits": {
			domain.Input{Message: "m", History: append([]domain.Exchange{{Message: strings.Repeat("x", 400_000), Answer: "y"}}, exchanges(0, 1)...)},
			nil,
			"Own.", "qa aa m", 1,
		},
	} {
		model := scripted.New("stage/first", scripted.Call{Deltas: []string{"ok"}})
		s := &testEnv{model: model, turns: tt.turns, cfg: domain.Config{SystemPrompt: "Own."}}
		raw, err := json.Marshal(tt.in)
		if err != nil {
			t.Fatal(err)
		}
		s.attempt(t, executiondb.Claimed{Attempts: 1, RawInput: raw})
		requests := model.Requests()
		if len(requests) != 1 || len(s.outcomes) != 1 {
			t.Fatalf("%s: %d requests, %d outcomes", name, len(requests), len(s.outcomes))
		}
		var said []string
		for _, m := range requests[0].Messages {
			said = append(said, m.Text)
		}
		if got := strings.Join(said, " "); got != tt.said || !strings.HasPrefix(requests[0].System, tt.prompt) || s.outcomes[0].Run.OmittedTurns != tt.omitted ||
			tt.in.Instructions == "" && strings.Contains(requests[0].System, "Additional instructions") {
			t.Errorf("%s: prompt %.200q, messages %.200q, %d omitted", name, requests[0].System, got, s.outcomes[0].Run.OmittedTurns)
		}
	}
	s := &testEnv{model: scripted.New("stage/first"), turns: []sessiondb.Turn{{Seq: 1, Message: "s", Answer: "t", Earlier: []byte("{")}}}
	s.attempt(t, executiondb.Claimed{Attempts: 1})
	if len(s.outcomes) == 1 && s.outcomes[0].Run.Status == domain.RunCompleted {
		t.Error("an unreadable history was ignored")
	}
}
