package domain

import "encoding/json"

// AnswerSettings are an agent's settings for its answers. The HTTP API shows them as fields of the
// agent.
type AnswerSettings struct {
	// OutputSchema is the JSON Schema that answers must match; nil: answers are text.
	OutputSchema json.RawMessage `json:"outputSchema"`
}

// OutputContract is the form of the answer that a request asks for. It takes precedence over the
// agent's OutputSchema.
type OutputContract struct {
	Schema json.RawMessage `json:"schema"`
}

// OutputMismatch is a part of an answer that does not match its schema. Path is a JSON Pointer.
type OutputMismatch struct {
	Path    string `json:"path"`
	Message string `json:"message"`
}
