package domain

import (
	"encoding/json"
	"slices"
)

// AnswerSettings are an agent's settings for its answers. The HTTP API shows them as fields of the
// agent.
type AnswerSettings struct {
	// OutputSchema is the JSON Schema that answers must match; nil: answers are text.
	OutputSchema JSONSchema `json:"outputSchema"`
	ModelSettings
	// Overridable lists the model settings that requests may change; nil: all.
	Overridable *[]Setting `json:"overridable,omitempty"`
}

// MayOverride reports whether a request may change a model setting. An empty list permits no
// changes.
func (s *AnswerSettings) MayOverride(name Setting) bool {
	return s.Overridable == nil || slices.Contains(*s.Overridable, name)
}

// JSONSchema is the text of a JSON Schema. In JSON, nil is null. The order of the schema's members
// is kept.
type JSONSchema json.RawMessage

// MarshalJSON returns the schema as it was read.
func (s JSONSchema) MarshalJSON() ([]byte, error) {
	if s == nil {
		return []byte("null"), nil
	}
	return s, nil
}

// UnmarshalJSON stores the text of a schema, or nil for null.
func (s *JSONSchema) UnmarshalJSON(b []byte) error {
	*s = nil
	if string(b) != "null" {
		*s = append(*s, b...)
	}
	return nil
}

// RunOptions are the options of a request in addition to its message. The zero value requests no
// option. Every field is part of the request's fingerprint.
type RunOptions struct {
	Output      *OutputContract `json:"output,omitempty"`      // the form of the answer
	Settings    *RunSettings    `json:"settings,omitempty"`    // settings that take precedence over the agent's
	Attachments []Attachment    `json:"attachments,omitempty"` // images and documents beside the message
	ClientTools *ClientTools    `json:"clientTools,omitempty"` // tools that the client runs itself
}

// IsZero reports whether the request has no options.
func (o *RunOptions) IsZero() bool {
	return o.Output == nil && o.Settings == nil && len(o.Attachments) == 0 && o.ClientTools == nil
}

// OutputContract is the form of the answer that a request requires. It takes precedence over the
// agent's OutputSchema. Without a Schema, the answer is text.
type OutputContract struct {
	Schema JSONSchema `json:"schema"`
}

// OutputMismatch is a part of an answer that does not match its schema. Path is a JSON Pointer.
type OutputMismatch struct {
	Path    string `json:"path"`
	Message string `json:"message"`
}
