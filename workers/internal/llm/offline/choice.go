package offline

import (
	"parley/shared/domain"
	"parley/workers/internal/llm"
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

	forced := p.tools[0]
	for _, t := range p.tools {
		if t.Name == choice {
			forced = t
		}
	}
	return []llm.ToolCall{p.forcedCall(forced)}
}

// forcedCall returns a call of a tool with the arguments that the message contains. If an argument
// is missing, a text is set to the message, and any other argument is empty.
func (p prompt) forcedCall(t llm.ToolSpec) llm.ToolCall {
	s := schemaFor(t)
	args, missing := arguments(t, p.message)
	for _, name := range missing {
		args[name] = emptyValue(s.Properties[name].plain(), p.message)
	}
	return newCall(t, args)
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
