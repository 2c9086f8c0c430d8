package agentloop_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"parley/workers/internal/agentloop"
	"parley/workers/internal/llm"
	"parley/workers/internal/llm/offline"
)

func toolTurn(answers ...string) agentloop.Turn {
	t := agentloop.Turn{Messages: []llm.Message{
		{Role: llm.RoleUser, Text: "q"},
		{Role: llm.RoleAssistant, ToolCalls: []llm.ToolCall{{ID: "a", Name: "n"}, {ID: "b", Name: "n"}}},
	}}
	for _, id := range answers {
		t.Messages = append(t.Messages, llm.Message{Role: llm.RoleTool, Result: &llm.ToolResult{CallID: id, Output: json.RawMessage(`1`)}})
	}
	t.Messages = append(t.Messages, llm.Message{Role: llm.RoleAssistant, Text: "done"})
	return t
}

func TestWhole(t *testing.T) {
	t.Parallel()
	user, assistant := llm.Message{Role: llm.RoleUser}, llm.Message{Role: llm.RoleAssistant}
	unanswered := toolTurn("a", "b")
	unanswered.Messages = unanswered.Messages[:2]
	tests := map[string]struct {
		turn agentloop.Turn
		want bool
	}{
		"plain":               {agentloop.PlainTurn("q", "a"), true},
		"tools":               {toolTurn("a", "b"), true},
		"empty":               {agentloop.Turn{}, false},
		"no answer":           {agentloop.Turn{Messages: []llm.Message{user}}, false},
		"answer first":        {agentloop.Turn{Messages: []llm.Message{assistant, user}}, false},
		"two questions":       {agentloop.Turn{Messages: []llm.Message{user, user, assistant}}, false},
		"one result missing":  {toolTurn("a"), false},
		"no result":           {toolTurn(), false},
		"another result":      {toolTurn("a", "c"), false},
		"a result too many":   {toolTurn("a", "b", "b"), false},
		"ends with the calls": {unanswered, false},
	}
	for name, tt := range tests {
		if got := tt.turn.Whole(); got != tt.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

func TestFit(t *testing.T) {
	t.Parallel()
	var history []agentloop.Turn
	for i := range 4 {
		history = append(history, agentloop.PlainTurn(fmt.Sprint(i), strings.Repeat("x", 30))) // 4+1 and 4+10 tokens
	}
	history = append(history, toolTurn("a"), agentloop.PlainTurn("4", strings.Repeat("x", 30)))
	tests := []struct{ budget, kept, omitted int }{
		{0, 0, 5}, {-5, 0, 5}, {18, 0, 5}, {19, 1, 4}, {37, 1, 4}, {38, 2, 3}, {95, 5, 0}, {1_000_000, 5, 0},
	}
	for _, tt := range tests {
		kept, omitted := agentloop.Fit(history, tt.budget)
		if len(kept) != tt.kept || omitted != tt.omitted {
			t.Errorf("budget %d: kept %d, omitted %d", tt.budget, len(kept), omitted)
		}
		if len(kept) > 0 && kept[len(kept)-1].Messages[0].Text != "4" {
			t.Errorf("budget %d: the newest is not kept", tt.budget)
		}
	}
	if kept, omitted := agentloop.Fit(nil, 10); len(kept) != 0 || omitted != 0 {
		t.Error("no turns for an empty history")
	}
}

// TestFitProperties tries every budget with turns of different sizes. The result must always be the
// longest sequence of newest turns that fits.
func TestFitProperties(t *testing.T) {
	t.Parallel()
	var history []agentloop.Turn
	for i := range 12 {
		history = append(history, agentloop.PlainTurn(strings.Repeat("a", i*i%7*9), strings.Repeat("b", i*5%11*4)))
	}
	for budget := range 800 {
		kept, omitted := agentloop.Fit(history, budget)
		used := 0
		for i, turn := range kept {
			used += turn.Tokens()
			if turn.Messages[0].Text != history[omitted+i].Messages[0].Text {
				t.Fatalf("budget %d: turn %d is another", budget, i)
			}
		}
		if len(kept)+omitted != len(history) || used > budget {
			t.Fatalf("budget %d: kept %d of %d tokens, omitted %d", budget, len(kept), used, omitted)
		}
		if omitted > 0 && used+history[omitted-1].Tokens() <= budget {
			t.Fatalf("budget %d: another turn would have fit", budget)
		}
	}
}

func TestHistoryBudget(t *testing.T) {
	t.Parallel()
	empty := agentloop.HistoryBudget(agentloop.Input{Model: offline.Model{}})
	full := agentloop.HistoryBudget(agentloop.Input{Model: offline.Model{}, System: strings.Repeat("s", 3000), Data: json.RawMessage(strings.Repeat("d", 300))})
	if empty > 75_000 || empty < 74_000 || empty-full != 1100 {
		t.Errorf("got %d and %d", empty, full)
	}
	if got := agentloop.HistoryBudget(agentloop.Input{Model: offline.Model{}, Message: strings.Repeat("m", 400_000)}); got != 0 {
		t.Errorf("got %d", got)
	}
}
