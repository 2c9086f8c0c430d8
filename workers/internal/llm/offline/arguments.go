package offline

import (
	"encoding/json"
	"fmt"
	"strings"

	"parley/workers/internal/llm"
)

// schema is what is understood of a JSON Schema.
type schema struct {
	Type       json.RawMessage   `json:"type"` // a word or a list of them
	Enum       []json.RawMessage `json:"enum"`
	Const      json.RawMessage   `json:"const"`
	Default    json.RawMessage   `json:"default"`
	Format     string            `json:"format"`
	Properties map[string]schema `json:"properties"`
	Required   []string          `json:"required"`
	Items      *schema           `json:"items"`
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

func schemaFor(t llm.ToolSpec) schema {
	var s schema
	if json.Unmarshal(t.Schema, &s) != nil {
		return schema{} // a schema that is not understood asks for nothing
	}
	return s
}

// textProperty names the argument that takes the text: the usual one, or the first required text there is.
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

// arguments returns the arguments that a message gives a named tool, and the required ones that it does not give: those of a JSON
// object in it, those that it says by name, and those that leave no choice. Nothing is guessed: a call may not be undone.
func arguments(t llm.ToolSpec, passage string) (args map[string]any, missing []string) {
	s := schemaFor(t)
	args, rest := jsonIn(passage)
	for name, value := range labelledValues(rest, s) {
		if _, given := args[name]; !given {
			args[name] = value
		}
	}
	for _, name := range lacking(s, args) {
		if value, ok := fixed(s.Properties[name].plain(), 0); ok {
			args[name] = value
		}
	}
	return args, lacking(s, args)
}

func lacking(s schema, args map[string]any) []string {
	var missing []string
	for _, name := range s.Required {
		if _, given := args[name]; !given {
			missing = append(missing, name)
		}
	}
	return missing
}

// maxNesting bounds how deep objects go that leave no choice.
const maxNesting = 4

// fixed gives the value that a schema settles: its constant, its default, its only choice, an object of such values.
func fixed(s schema, depth int) (any, bool) {
	settled := []json.RawMessage{s.Const, s.Default}
	if len(s.Enum) == 1 {
		settled = append(settled, s.Enum[0])
	}
	for _, raw := range settled {
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
		value, ok := fixed(s.Properties[name].plain(), depth+1)
		if !ok {
			return nil, false
		}
		inner[name] = value
	}
	return inner, true
}

// lack says what a tool needs that the message does not give, and how to give it.
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
	for _, name := range missing {
		if s.Properties[name].plain().kind() == "object" {
			return fmt.Sprintf("%s needs %s: write %s as a JSON object, {%q: {…}}.", t.Name, list, it, name)
		}
	}
	return fmt.Sprintf("%s needs %s: write %s as %s: value.", t.Name, list, it, missing[0])
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
