package offline_test

import (
	"strings"
	"testing"

	"parley/shared/domain"
	"parley/shared/templates"
	"parley/workers/internal/chunk"
	"parley/workers/internal/document"
	"parley/workers/internal/llm"
	"parley/workers/internal/parse"
	"parley/workers/internal/parse/formats"
)

// TestSuggestedMessagesOfTemplates checks that each message that a template suggests gets an
// answer, and not the reply that the offline model cannot answer it.
func TestSuggestedMessagesOfTemplates(t *testing.T) {
	t.Parallel()
	for _, tpl := range templates.All() {
		for _, message := range tpl.SuggestedMessages {
			var specs []llm.ToolSpec
			want := "" // the tool that the model calls; the model searches the web only on request
			for _, tool := range []struct {
				name    string
				enabled bool
			}{{"webSearch", tpl.Tools.WebSearch != nil}, {"codeExecution", tpl.Tools.CodeExecution != nil}, {"knowledge", tpl.Tools.Knowledge != nil}} {
				if tool.enabled {
					want, specs = tool.name, append(specs, llm.ToolSpec{Name: tool.name, Schema: []byte(`{"type":"object"}`)})
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

// samplePassages returns the passages of the sample documents, as the search would return them.
// length is the intended length of a passage, or 0 for the default.
func samplePassages(t *testing.T, length int) (passages []domain.Citation) {
	t.Helper()
	for _, sample := range templates.Samples() {
		name, chunks := strings.TrimSuffix(sample.Name, ".md"), chunk.New(chunk.Limits{Target: length})
		add := func(found []domain.Passage) {
			for _, p := range found {
				passages = append(passages, passage(len(passages)+1, name, 0, p.Text))
			}
		}
		out := parse.NewWriter(parse.Limits{}, func(e document.Event) error {
			if e.Block != nil {
				add(chunks.Add(*e.Block))
			}
			return nil
		})
		if _, err := parse.Parse(t.Context(), parse.Input{Name: sample.Name, MIMEType: "text/markdown", Content: sample.Content}, out, formats.All()); err != nil {
			t.Fatal(err)
		}
		add(chunks.Close())
	}
	return passages
}

// sampleAnswers contains a part of the answer to each suggested message of the templates with
// documents.
var sampleAnswers = map[string]string{
	"How long is the guarantee?":                                    "guarantee of 3 years",
	"What does express shipping cost?":                              "12.90",
	"Are returns free?":                                             "Returns are free within the country.",
	"Are gift vouchers refunded?":                                   "Gift vouchers are refunded as vouchers.",
	"Compare what the documents say about how long LED bulbs last.": "LED bulbs last 25,000 hours",
	"Compare how much energy LED bulbs save.":                       "LED bulbs saved 86 %",
	"Do LED bulbs flicker on a dimmer?":                             "On an old dimmer, 7 of the 20 LED bulbs flickered.",
	"How much does an LED bulb cost?":                               "An LED bulb cost 4.30",
	"What do the documents say about free returns?":                 "Returns are free within the country.",
	"What do the documents say about shipping abroad?":              "14.90",
	"What do the documents say about gift vouchers?":                "Gift vouchers are refunded as vouchers.",
	"What do the documents say about glass shades?":                 "Glass shades may be washed by hand with mild soap.",
}

// TestTemplatesAnswerFromSamples sends the suggested messages of each template with documents. The
// answers must come from the sample documents, whether passages are long or short. An answer must
// quote both reports if its message asks for a comparison, and only then.
func TestTemplatesAnswerFromSamples(t *testing.T) {
	t.Parallel()
	for _, length := range []int{100, 0, 10_000} {
		known := knows(samplePassages(t, length)...)
		for _, tpl := range templates.All() {
			if tpl.Tools.Knowledge == nil {
				continue
			}
			for _, message := range tpl.SuggestedMessages {
				text := ask(t, llm.Request{System: tpl.SystemPrompt, Messages: []llm.Message{
					{Role: llm.RoleUser, Text: message}, {Role: llm.RoleAssistant}, {Role: llm.RoleTool, Result: &known},
				}}).Text
				want := sampleAnswers[message]
				if want == "" || !strings.Contains(text, want) || strings.Contains(text, "do not say") {
					t.Errorf("%s: %s: %s, want %q", tpl.ID, message, text, want)
				}
				both := strings.Contains(text, "**led-bulbs-in-a-test.pdf:**") && strings.Contains(text, "**led-bulbs-by-their-makers.pdf:**")
				if both != strings.HasPrefix(message, "Compare") {
					t.Errorf("%s: %s: names both reports: %v: %s", tpl.ID, message, both, text)
				}
			}
		}
	}
}

// TestDemoAgentAnswersWithoutTheWeb checks the demo agent in a new installation, which has no web
// search. Each suggested message, and a question about shipping costs, is answered from the
// documents or by a program.
func TestDemoAgentAnswersWithoutTheWeb(t *testing.T) {
	t.Parallel()
	object := []byte(`{"type":"object"}`)
	specs := []llm.ToolSpec{{Name: "webSearch", Schema: object}, {Name: "codeExecution", Schema: object}, {Name: "knowledge", Schema: object}}
	said := map[string]string{
		"How long is the guarantee on a lamp?": "3 years", "What bulb do table lamps take?": "E14", "How do I clean a glass shade?": "mild soap",
		"What does express shipping cost?": "12.90",
	}
	messages := append(templates.DemoSuggestions(), "What does express shipping cost?")
	known := knows(samplePassages(t, 0)...)
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
