package offline

import (
	"encoding/json"
	"regexp"
	"strings"

	"parley/workers/internal/llm"
)

// schema is what is understood of a JSON Schema.
type schema struct {
	Type       json.RawMessage   `json:"type"` // a word or a list of them
	Enum       []json.RawMessage `json:"enum"`
	Const      json.RawMessage   `json:"const"`
	Default    json.RawMessage   `json:"default"`
	Minimum    *json.Number      `json:"minimum"`
	Format     string            `json:"format"`
	Properties map[string]schema `json:"properties"`
	Required   []string          `json:"required"`
	Items      *schema           `json:"items"`
	MinItems   int               `json:"minItems"`
	AnyOf      []schema          `json:"anyOf"`
}

// kind gives the type that a value should have, "string" where nothing is said.
func (s schema) kind() string {
	var one string
	if json.Unmarshal(s.Type, &one) == nil && one != "" {
		return one
	}
	var list []string
	if json.Unmarshal(s.Type, &list) == nil {
		for _, kind := range list {
			if kind != "null" {
				return kind
			}
		}
	}
	if len(s.Properties) > 0 {
		return "object"
	}
	return "string"
}

// plain gives the first alternative that is not null, for schemas that are nothing but alternatives.
func (s schema) plain() schema {
	if len(s.Type) > 0 || len(s.Enum) > 0 {
		return s
	}
	for _, one := range s.AnyOf {
		if string(one.Type) != `"null"` {
			return one
		}
	}
	return s
}

func schemaOf(t llm.ToolSpec) schema {
	var s schema
	if json.Unmarshal(t.Schema, &s) != nil {
		return schema{} // a schema that is not understood asks for nothing
	}
	return s
}

// textProperty names the argument that takes the text: the usual one, or the first required text there is.
func textProperty(t llm.ToolSpec, usual string) string {
	s := schemaOf(t)
	if _, ok := s.Properties[usual]; ok {
		return usual
	}
	for _, name := range s.Required {
		if s.Properties[name].plain().kind() == "string" {
			return name
		}
	}
	return usual
}

// arguments gives what to call a named tool with: a JSON object in the message, then what it says as "name: value" or
// "name = value", then guesses at what is required still.
func arguments(t llm.ToolSpec, message string) map[string]any {
	s := schemaOf(t)
	args, rest := jsonIn(message)
	r := &reader{text: withoutName(rest, t.Name)}
	r.findPairs(s)
	for name, p := range s.Properties {
		if _, given := args[name]; given {
			continue
		}
		if value, ok := r.said(name, p.plain()); ok {
			args[name] = value
		}
	}
	r.numbers = r.free()
	r.fill(args, s, 0)
	return args
}

func withoutName(text, name string) string {
	return regexp.MustCompile(`(?i)`+regexp.QuoteMeta(name)).ReplaceAllString(text, " ")
}

// maxObjects bounds how many braces are tried for an object: each costs a reading.
const maxObjects = 32

// jsonIn gives the first JSON object that a message contains, or an empty one, and the text around it.
func jsonIn(message string) (args map[string]any, rest string) {
	from := 0
	for range maxObjects {
		at := strings.IndexByte(message[from:], '{')
		if at < 0 {
			break
		}
		from += at
		dec := json.NewDecoder(strings.NewReader(message[from:]))
		dec.UseNumber()
		if dec.Decode(&args) == nil {
			return args, message[:from] + " " + message[from+int(dec.InputOffset()):]
		}
		args = nil
		from++
	}
	return map[string]any{}, message
}
