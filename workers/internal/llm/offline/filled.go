package offline

import (
	"encoding/json"

	"parley/workers/internal/llm"
	"parley/workers/internal/llm/offline/fill"
)

// filled returns an answer that consists of JSON for a schema.
func (p prompt) filled(schema json.RawMessage) string {
	// The attached documents are treated as sources that precede the sources of the tools.
	var attached llm.ToolResult
	var recognized []string
	for _, a := range p.attachments {
		attached.Sources = append(attached.Sources, a.Passages...)
		if a.Recognized != "" {
			recognized = append(recognized, a.Recognized)
		}
	}
	results := append([]llm.ToolResult{attached}, p.results...)

	// The best sentences, as an answer in text would quote them, come first.
	var passages []string
	for _, s := range statements(results, parseQuestion(p.message)) {
		passages = append(passages, s.quoted)
	}

	return fill.Answer(schema, fill.Input{
		Message: p.message, Data: p.data, Results: results, Recognized: recognized,
		Passages: passages,
	})
}
