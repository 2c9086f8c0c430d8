package offline_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"parley/shared/domain"
	"parley/workers/internal/agentloop"
	"parley/workers/internal/llm/offline"
	"parley/workers/internal/tool"
)

// search is the tool webSearch with fixed results.
type search []domain.Citation

func (search) Spec() tool.Spec {
	return tool.Spec{Name: "webSearch", Schema: json.RawMessage(`{"type":"object","properties":{"query":{"type":"string"}},"required":["query"]}`)}
}

func (s search) Call(context.Context, tool.Call) (tool.Result, error) {
	return tool.Result{Output: json.RawMessage(`{}`), Sources: s}, nil
}

// noSteps is a journal that stores nothing.
type noSteps struct{}

func (noSteps) Load(context.Context) ([]agentloop.Step, error) { return nil, nil }

func (noSteps) Record(context.Context, agentloop.Step) error { return nil }

// TestCitationsHold passes answers through the agent loop, and checks that every citation is valid
// and supports the sentence before it.
func TestCitationsHold(t *testing.T) {
	t.Parallel()
	for name, s := range testCases() {
		var sources search
		for _, r := range s.results {
			sources = append(sources, r.Sources...)
		}
		if len(sources) == 0 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tools, err := tool.NewRegistry(sources)
			if err != nil {
				t.Fatal(err)
			}
			in := agentloop.Input{Message: s.message, Model: offline.Model{}, Tools: tools}
			out, err := agentloop.New(agentloop.Config{}).Run(t.Context(), in, noSteps{}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if len(out.Citations) == 0 || out.CitationsRemoved > 0 {
				t.Errorf("%d citations, %d removed: %s", len(out.Citations), out.CitationsRemoved, out.Text)
			}
			for _, c := range out.Citations {
				supported := string([]rune(out.Text)[c.StartIndex:c.EndIndex])
				if supported == "" || strings.ContainsAny(supported, "\n[") || !contains(sources, c.CitedText) {
					t.Errorf("%q is supported by %q", supported, c.CitedText)
				}
			}
		})
	}
}

// contains reports whether at least one of the sources contains the quote.
func contains(sources search, quote string) bool {
	for _, s := range sources {
		if strings.Contains(s.CitedText, quote) {
			return true
		}
	}
	return false
}
