package offline_test

import (
	"strings"
	"testing"

	"parley/shared/templates"
	"parley/workers/internal/llm"
)

// TestSuggestedMessagesOfTemplates: a person who chooses a suggested message sees an answer, and not that
// the offline model has none.
func TestSuggestedMessagesOfTemplates(t *testing.T) {
	t.Parallel()
	for _, tpl := range templates.All() {
		for _, message := range tpl.SuggestedMessages {
			var specs []llm.ToolSpec
			want := ""
			for name, enabled := range map[string]bool{
				"codeExecution": tpl.Tools.CodeExecution != nil, "knowledge": tpl.Tools.Knowledge != nil, "webSearch": tpl.Tools.WebSearch != nil,
			} {
				if enabled {
					want, specs = name, append(specs, llm.ToolSpec{Name: name, Schema: []byte(`{"type":"object"}`)})
				}
			}
			res := ask(t, llm.Request{System: tpl.SystemPrompt, Tools: specs}, message)
			var called string
			for _, call := range res.ToolCalls {
				called += call.Name
			}
			if called != want {
				t.Errorf("%s: %s: calls %q, want %q", tpl.ID, message, called, want)
			}
			if want == "" && (!strings.Contains(res.Text, "A prepared answer") || strings.HasPrefix(res.Text, "\n")) {
				t.Errorf("%s: %s: %s", tpl.ID, message, res.Text)
			}
		}
	}
}
