package offline_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"parley/shared/domain"
	"parley/shared/templates"
	"parley/workers/internal/llm"
)

// TestSuggestedMessagesOfTemplates checks that each message that a template suggests gets an
// answer, and not the reply that the offline model cannot answer it.
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

// shopPassages returns the sections of the documents that are uploaded together with the demo
// agent.
func shopPassages(t *testing.T) (passages []domain.Citation) {
	t.Helper()
	files, err := filepath.Glob("../../../../deploy/standalone/internal/standalone/shop/*.md")
	if err != nil || len(files) == 0 {
		t.Fatalf("documents of the demo agent: %v, %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for i, section := range strings.Split(string(text), "\n## ") {
			if i > 0 {
				section = "## " + section
			}
			passages = append(passages, passage(len(passages)+1, filepath.Base(file), 1, section))
		}
	}
	return passages
}

// TestDemoAgentAnswersWithoutTheWeb checks the demo agent in a new installation, which has no web
// search. A question about its lamps, and each suggested message, is answered from its documents or
// by a program.
func TestDemoAgentAnswersWithoutTheWeb(t *testing.T) {
	t.Parallel()
	object := []byte(`{"type":"object"}`)
	specs := []llm.ToolSpec{{Name: "webSearch", Schema: object}, {Name: "codeExecution", Schema: object}, {Name: "knowledge", Schema: object}}
	said := map[string]string{
		"How long is the guarantee on a lamp?": "3 years", "What bulb do table lamps take?": "E14", "How do I clean a glass shade?": "mild soap",
		"What does express shipping cost?": "12.90",
	}
	messages := append(templates.DemoSuggestions(), "What does express shipping cost?")
	known := knows(shopPassages(t)...)
	for _, message := range messages {
		first := ask(t, llm.Request{Tools: specs}, message).ToolCalls
		want, fromDocuments := said[message]
		if len(first) != 1 || (first[0].Name == "knowledge") != fromDocuments || first[0].Name == "webSearch" {
			t.Errorf("%s: first calls %v", message, first)
			continue
		}
		if !fromDocuments {
			continue // the message leads to a program, which other tests run
		}
		next := ask(t, llm.Request{Tools: specs, Messages: []llm.Message{
			{Role: llm.RoleUser, Text: message}, {Role: llm.RoleAssistant}, {Role: llm.RoleTool, Result: &known},
		}})
		if len(next.ToolCalls) > 0 || !strings.Contains(next.Text, want) {
			t.Errorf("%s: then calls %v, answers %q, want %q", message, next.ToolCalls, next.Text, want)
		}
	}
}
