package offline

import (
	"encoding/json"
	"fmt"
	"strings"

	"parley/workers/internal/llm"
)

// schema is the part of a JSON Schema that the model supports. Other keywords are ignored, so a
// value may violate them; the service checks the arguments of every call.
type schema struct {
	Type       json.RawMessage   `json:"type"` // a string or an array of strings
	Enum       []json.RawMessage `json:"enum"`
	Const      json.RawMessage   `json:"const"`
	Default    json.RawMessage   `json:"default"`
	Format     string            `json:"format"`
	Properties map[string]schema `json:"properties"`
	Required   []string          `json:"required"`
	Items      *schema           `json:"items"`
	AnyOf      []schema          `json:"anyOf"`
}

// kind returns the type of the schema's values, by default "string".
func (s schema) kind() string {
	var one string
	// A schema with several types usually has null as one of them.
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

// plain returns the schema itself or, if the schema consists only of alternatives, the first
// alternative other than null.
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

// schemaFor parses the schema of a tool. It returns an empty schema if the tool's schema is
// invalid.
func schemaFor(t llm.ToolSpec) schema {
	var s schema
	if json.Unmarshal(t.Schema, &s) != nil {
		return schema{} // an empty schema requires nothing
	}
	return s
}

// textProperty returns the name of the argument that receives a text. If the tool has an argument
// with the name usual, textProperty returns usual. Otherwise it returns the first required string.
func textProperty(t llm.ToolSpec, usual string) string {
	s := schemaFor(t)
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

// arguments returns the arguments for a call of a tool. passage is the part of the message that
// belongs to the tool. missing contains the names of required arguments without a value. A value
// comes from a JSON object or a "name: value" pair in the passage, or from the schema if it allows
// only one value. Nothing is guessed, because a call may be irreversible.
func arguments(t llm.ToolSpec, passage string) (args map[string]any, missing []string) {
	s := schemaFor(t)
	args, rest := jsonIn(passage)

	// Values in a JSON object take precedence over values in prose, which is less precise.
	for name, value := range labelledValues(rest, s) {
		if _, given := args[name]; !given {
			args[name] = value
		}
	}

	// An argument that can have only one value need not be written.
	for _, name := range missingArguments(s, args) {
		if value, ok := onlyValue(s.Properties[name].plain(), 0); ok {
			args[name] = value
		}
	}
	return args, missingArguments(s, args)
}

// missingArguments returns the names of the required arguments that have no value.
func missingArguments(s schema, args map[string]any) []string {
	var missing []string
	for _, name := range s.Required {
		if _, given := args[name]; !given {
			missing = append(missing, name)
		}
	}
	return missing
}

// maxNesting is the maximum depth of the objects that onlyValue returns.
const maxNesting = 4

// onlyValue returns the only plausible value for a schema: its constant, its default, its only
// choice, or an object of such values. It returns false if the schema has no such value.
func onlyValue(s schema, depth int) (any, bool) {
	// A value of null states nothing, so it does not count.
	only := []json.RawMessage{s.Const, s.Default}
	if len(s.Enum) == 1 {
		only = append(only, s.Enum[0])
	}

	for _, raw := range only {
		var value any
		if len(raw) > 0 && json.Unmarshal(raw, &value) == nil && value != nil {
			return value, true
		}
	}

	if s.kind() != "object" || len(s.Required) == 0 || depth == maxNesting {
		return nil, false
	}
	inner := map[string]any{}
	for _, name := range s.Required {
		value, ok := onlyValue(s.Properties[name].plain(), depth+1)
		if !ok {
			return nil, false
		}
		inner[name] = value
	}
	return inner, true
}

// lack returns a sentence that names the missing arguments of a tool, with an example of how to
// write them.
func lack(t llm.ToolSpec, missing []string) string {
	s := schemaFor(t)
	quoted := make([]string, len(missing))
	for i, name := range missing {
		quoted[i] = `"` + name + `"`
	}

	list, it := quoted[0], "it"
	if last := len(quoted) - 1; last > 0 {
		list, it = strings.Join(quoted[:last], ", ")+" and "+quoted[last], "them"
	}

	// An object cannot be written as "name: value".
	for _, name := range missing {
		if s.Properties[name].plain().kind() == "object" {
			return fmt.Sprintf("%s needs %s: write %s as a JSON object, {%q: {…}}.", t.Name, list, it, name)
		}
	}
	return fmt.Sprintf("%s needs %s: write %s as %s: value.", t.Name, list, it, missing[0])
}

// maxObjects is the maximum number of braces at which jsonIn tries to parse an object.
const maxObjects = 32

// jsonIn returns the first JSON object in a message, and the text around it. If there is no object,
// args is empty.
func jsonIn(message string) (args map[string]any, rest string) {
	from := 0
	for range maxObjects {
		// Most braces in prose do not begin an object, so try the first few.
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
		// A decoder may have filled args before it failed.
		args = nil
		from++
	}
	return map[string]any{}, message
}
