package offline

import (
	"encoding/json"

	"parley/shared/domain"
	"parley/workers/internal/llm/offline/fill"
)

// filled answers with JSON for a schema.
func (p prompt) filled(schema json.RawMessage) string {
	q := parseQuestion(p.message)
	return fill.Answer(schema, fill.Input{
		Message: p.message, Data: p.data, Results: p.results,
		Rank: func(s domain.Citation) string {
			sentence, _ := bestSentence(s.CitedText, q, nil)
			return sentence
		},
	})
}
