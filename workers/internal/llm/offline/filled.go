package offline

import (
	"encoding/json"
	"slices"

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

	return fill.Answer(schema, fill.Input{
		Message: p.message, Data: p.data, Results: results, Recognized: recognized,
		Passages: bestPassages(results, parseQuestion(p.message)),
	})
}

// bestPassages returns the best sentence of each source that answers the question, ordered like the
// sentences that fromSources quotes.
func bestPassages(results []llm.ToolResult, q question) []string {
	type passage struct {
		text   string
		weight int
	}
	var found []passage
	for _, r := range results {
		if r.Failed {
			continue
		}
		// A passage of a document that does not answer the question is omitted.
		for _, s := range r.Sources {
			if q, ok := q.forSource(s); ok {
				sentence, n := bestSentence(s.CitedText, q, nil)
				found = append(found, passage{sentence, q.weigh(sentence, n)})
			}
		}
	}
	slices.SortStableFunc(found, func(a, b passage) int { return b.weight - a.weight })

	texts := make([]string, len(found))
	for i, p := range found {
		texts[i] = p.text
	}
	return texts
}
