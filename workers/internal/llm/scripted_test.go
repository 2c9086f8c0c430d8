package llm_test

import (
	"errors"
	"testing"

	"parley/workers/internal/llm"
	"parley/workers/internal/llm/llmtest"
	"parley/workers/internal/llm/scripted"
)

func TestScriptedModel(t *testing.T) {
	t.Parallel()
	llmtest.Run(t, llmtest.Subject{
		Deterministic: true,
		New: func(*testing.T) llm.Model {
			return scripted.Forever("scripted", scripted.Call{Deltas: []string{"one ", "two"}, Usage: llm.Usage{InputTokens: 3, OutputTokens: 2}})
		},
		NewSlow: func(*testing.T) llm.Model {
			return scripted.New("scripted", scripted.Call{Deltas: []string{"one "}, Hang: true})
		},
	})
}

func TestScriptedModelEnds(t *testing.T) {
	t.Parallel()
	failed := errors.New("failed")
	m := scripted.New("scripted", scripted.Call{Err: failed}, scripted.Call{ToolCalls: []llm.ToolCall{{ID: "a", Name: "b"}}})
	emit := func(llm.Delta) {}
	if _, err := m.Stream(t.Context(), llm.Request{System: "first"}, emit); !errors.Is(err, failed) {
		t.Errorf("got %v", err)
	}
	if res, err := m.Stream(t.Context(), llm.Request{}, emit); err != nil || res.StopReason != llm.StopToolCalls {
		t.Errorf("got %+v, %v", res, err)
	}
	if _, err := m.Stream(t.Context(), llm.Request{}, emit); !errors.Is(err, scripted.ErrOver) {
		t.Errorf("got %v", err)
	}
	if got := m.Requests(); len(got) != 3 || got[0].System != "first" {
		t.Errorf("requests %+v", got)
	}
}
