package openaiapi

import (
	"encoding/json"
	"unicode/utf8"
)

// maxFormatName is the maximum length of the name of an answer format, in characters.
const maxFormatName = 64

// These constants are the types of answer formats.
const (
	formatText   = "text"
	formatObject = "json_object"
	formatSchema = "json_schema"
)

// anyObject is the JSON Schema that corresponds to the format json_object.
var anyObject = json.RawMessage(`{"type":"object"}`)

// AskedOutput is the JSON Schema that the request sets for the answer. Field is the path of the
// schema in the request. If the request asks for text, Schema is nil and the agent's own schema
// applies, if there is one.
type AskedOutput struct {
	Field  string
	Schema json.RawMessage
}

// Format is the requested answer format in a request for a chat completion. Type is text,
// json_object or json_schema.
type Format struct {
	Type       string      `json:"type" required:"true"`
	JSONSchema *JSONFormat `json:"json_schema"`
}

// JSONFormat is a JSON Schema with a name. The protocol's field strict has no effect, because every
// answer is checked.
type JSONFormat struct {
	Name        *string          `json:"name"`
	Description *string          `json:"description"`
	Schema      *json.RawMessage `json:"schema"`
	Strict      *bool            `json:"strict"`
}

// TextFormat is the requested answer format in a request for a response. Unlike [Format], it
// contains the schema directly.
type TextFormat struct {
	Type        string           `json:"type" required:"true"`
	Name        *string          `json:"name"`
	Description *string          `json:"description"`
	Schema      *json.RawMessage `json:"schema"`
	Strict      *bool            `json:"strict"`
}

// asked returns the schema that the format specifies. It returns the zero value for nil, for text
// and after an error.
func (f *Format) asked(field string, wrong Wrong) AskedOutput {
	if f == nil {
		return AskedOutput{}
	}
	if f.Type == formatSchema && f.JSONSchema == nil {
		wrong(field+".json_schema", codeRequired, "is required for a format of this type")
		return AskedOutput{}
	}
	return askedSchema(f.Type, value(f.JSONSchema), field, field+".json_schema", wrong)
}

// asked returns the schema that the format specifies. It returns the zero value for nil, for text
// and after an error.
func (f *TextFormat) asked(field string, wrong Wrong) AskedOutput {
	if f == nil {
		return AskedOutput{}
	}
	return askedSchema(f.Type, JSONFormat{Name: f.Name, Description: f.Description, Schema: f.Schema, Strict: f.Strict}, field, field, wrong)
}

// askedSchema returns the schema that a format specifies. The argument at is the path, in errors,
// of the object that contains the schema. The argument field is the path of the format itself. The
// content of the schema is checked later, by the code that accepts runs.
func askedSchema(kind string, f JSONFormat, field, at string, wrong Wrong) AskedOutput {
	switch kind {
	// If the format contains no schema, the agent's own setting applies.
	case formatText:
		return AskedOutput{}
	case formatObject:
		return AskedOutput{Field: field, Schema: anyObject}
	case formatSchema:
	default:
		wrong(field+".type", codeInvalidValue, "must be text, json_object or json_schema")
		return AskedOutput{}
	}
	if n := utf8.RuneCountInString(deref(f.Name)); n > maxFormatName {
		wrong(at+".name", codeTooLong, "must have at most %d characters, not %d", maxFormatName, n)
	}
	if f.Schema == nil {
		wrong(at+".schema", codeRequired, "is required for a format of this type")
		return AskedOutput{}
	}
	return AskedOutput{Field: at + ".schema", Schema: *f.Schema}
}

// responseFormat is the answer format in a response. It repeats the format of the request. The
// default is text.
type responseFormat struct {
	Type        string          `json:"type"`
	Name        *string         `json:"name,omitempty"`
	Description *string         `json:"description,omitempty"`
	Schema      json.RawMessage `json:"schema,omitempty"`
	Strict      *bool           `json:"strict,omitempty"`
}

// echo returns the format for inclusion in the response, or nil for plain text.
func (f *TextFormat) echo() *responseFormat {
	if f == nil || f.Type != formatObject && f.Type != formatSchema {
		return nil
	}
	out := &responseFormat{Type: f.Type}
	if f.Type == formatSchema {
		out.Name, out.Description, out.Schema, out.Strict = f.Name, f.Description, value(f.Schema), f.Strict
	}
	return out
}
