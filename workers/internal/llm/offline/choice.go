package offline

import (
	"encoding/json"

	"parley/shared/domain"
	"parley/workers/internal/llm"
	"parley/workers/internal/llm/offline/fill"
)

// chosen applies the request's choice of tools to the calls that the rules have chosen. If the
// choice demands a call and there is none, chosen adds one.
func (p prompt) chosen(choice string, calls []llm.ToolCall) []llm.ToolCall {
	switch {
	case choice == domain.ChoiceNone:
		return nil
	case choice == "" || choice == domain.ChoiceAuto || len(p.tools) == 0:
		return calls
	case choice == domain.ChoiceRequired && len(calls) > 0:
		return calls
	}

	// If the choice names no tool, the first tool is called.
	forced := p.tools[0]
	for _, t := range p.tools {
		if t.Name == choice {
			forced = t
		}
	}
	return []llm.ToolCall{p.forcedCall(forced)}
}

// forcedCall returns a call of a tool with the arguments that the message contains. An argument
// that is not written as "name: value" is found as in an answer with a schema. If the message
// contains no value for it, a text is set to the message, and any other argument is empty.
func (p prompt) forcedCall(t llm.ToolSpec) llm.ToolCall {
	s := schemaFor(t)
	args, missing := arguments(t, p.message)
	var found map[string]any
	if len(missing) > 0 {
		_ = json.Unmarshal([]byte(fill.Answer(t.Schema, fill.Input{Message: p.message})), &found) // without an object, nothing is found
	}
	// A forced call needs a value for every required argument, unlike other calls.
	for _, name := range missing {
		if args[name] = found[name]; isEmpty(found[name]) {
			args[name] = emptyValue(s.Properties[name].plain(), p.message)
		}
	}
	return newCall(t, args)
}

// isEmpty reports whether a JSON value states nothing, such as null, 0 or an empty list.
func isEmpty(value any) bool {
	switch v := value.(type) {
	case string:
		return v == ""
	case float64:
		return v == 0
	case bool:
		return !v
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	default:
		return true
	}
}

// emptyValue returns the schema's first choice, or else an empty value of the schema's type. If the
// type is a string, it returns text.
func emptyValue(s schema, text string) any {
	if len(s.Enum) > 0 {
		return s.Enum[0]
	}
	switch s.kind() {
	case "number", "integer":
		return 0
	case "boolean":
		return false
	case "array":
		return []any{}
	case "object":
		inner := map[string]any{}
		for _, name := range s.Required {
			inner[name] = emptyValue(s.Properties[name].plain(), text)
		}
		return inner
	default:
		return text
	}
}
